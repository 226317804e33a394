package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// uploadLabelled puts passages of the sample into the bucket below a folder, each as an object with its label as a tag,
// of those that keep names.
func (c *cluster) uploadLabelled(folder string, keep func(label string) bool) {
	loaded := musttest.Get(awsconfig.LoadDefaultConfig(c.t.Context(), awsconfig.WithRegion("us-east-1")))(c.t)
	client := awss3.NewFromConfig(loaded, func(o *awss3.Options) {
		o.BaseEndpoint, o.UsePathStyle = aws.String(os.Getenv("UNWEAVER_TEST_S3")), true
	})
	file := musttest.Get(os.Open(filepath.Join(sample, "corpus.jsonl")))(c.t)
	defer func() { _ = file.Close() }()
	labels := []string{"public", "hr", "board", "none"}
	lines := bufio.NewScanner(file)
	for n := 0; lines.Scan() && n < 120; n++ {
		var one struct{ Title, Text string }
		require.NoError(c.t, json.Unmarshal(lines.Bytes(), &one))
		label := labels[n%len(labels)]
		if !keep(label) {
			continue
		}
		in := &awss3.PutObjectInput{
			Bucket: aws.String("corpus"), Key: aws.String(fmt.Sprintf("%s/%s/%03d.md", c.id, folder, n)),
			Body: strings.NewReader("# " + one.Title + "\n\n" + one.Text + "\n"),
		}
		musttest.Get(client.PutObject(c.t.Context(), in))(c.t)
		if label == "none" {
			continue
		}
		musttest.Get(client.PutObjectTagging(c.t.Context(), &awss3.PutObjectTaggingInput{
			Bucket: in.Bucket, Key: in.Key,
			Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("labels"), Value: aws.String(label)}}},
		}))(c.t)
	}
}

// newKey returns a new key that holds labels.
func (c *cluster) newKey(labels string) string {
	command := exec.Command(filepath.Join(c.bin, "unweaver"), "keys", "create", "--name", "reader", "--labels", labels, "--json")
	command.Env = append(os.Environ(), c.env...)
	command.Dir = c.t.TempDir()
	var made struct {
		Text string `json:"text"`
	}
	out, err := command.Output()
	require.NoError(c.t, err, "%s", out)
	require.NoError(c.t, json.Unmarshal(out, &made), "%s", out)
	return made.Text
}

// readAs returns the response to a question without what names a generation, an index or a time.
func readAs(t *testing.T, base, key, index, method, question string) map[string]any {
	body := musttest.Get(json.Marshal(map[string]any{"query": question, "method": method, "explain": true}))(t)
	req := musttest.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/indexes/"+index+"/query",
		bytes.NewReader(body)))(t)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	var out map[string]any
	musttest.Reach(t, "an answer of "+index, func() bool {
		req.Body = io.NopCloser(bytes.NewReader(body))
		res := musttest.Get(http.DefaultClient.Do(req))(t)
		defer func() { _ = res.Body.Close() }()
		raw := musttest.Get(io.ReadAll(res.Body))(t)
		out = nil
		require.NoError(t, json.Unmarshal(raw, &out))
		if res.StatusCode != http.StatusOK {
			t.Logf("%d %s", res.StatusCode, raw)
		}
		return res.StatusCode == http.StatusOK
	})
	for _, field := range []string{"index", "generation", "release", "timings_ms"} {
		delete(out, field)
	}
	return out
}

// Labels that are tags of real objects hold over rows of a real Milvus, however many of them a reader may not read.
// Promises: 170.
func TestLabelsOfRealObjectsHold(t *testing.T) {
	t.Parallel() // it has servers of its own
	c := newCluster(t, "stores.milvus.load=insert", "query_api.auth=required")
	server := serve(t, modeltest.Options{Dimension: 64})
	c.worker()
	base := c.replica()
	docs := c.docs
	for name, keep := range map[string]func(string) bool{
		"whole": func(string) bool { return true },
		"alone": func(label string) bool { return label == "hr" || label == "public" },
	} {
		c.uploadLabelled(name, keep)
		sp := spec(t, name, ".", server,
			"indexes."+name+".documents.labels.field=labels", "indexes."+name+".retrieval.language=en",
			"models.chat.model=labels", "models.embedding.model=labels")
		c.docs, sp.Documents.S3Tags = docs+"/"+name, true
		completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: sp})))
	}
	key := c.newKey("hr")
	for _, method := range retrievetest.ListPlain() {
		for _, q := range []string{question, "Which university was founded in England?"} {
			want := readAs(t, base, key, "alone", method, q)
			require.NotEmpty(t, want["chunks"], "%s: %v", method, want["reason"])
			assert.Equal(t, want, readAs(t, base, key, "whole", method, q), method)
		}
	}
}
