package hints_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/hints"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/events"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// queue speaks as much of the JSON protocol of SQS as a follower needs: messages stay until they are deleted.
type queue struct {
	bodies  []string
	refuse  string // code of the error of every request
	deleted []string
}

func (q *queue) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	var asked struct {
		Entries []struct{ Id, ReceiptHandle string }
	} //nolint:revive,staticcheck // names of the protocol
	raw, _ := io.ReadAll(request.Body)
	_ = json.Unmarshal(raw, &asked)
	if q.refuse != "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"__type":"com.amazonaws.sqs#%s","message":"no"}`, q.refuse)
		return
	}
	var messages, done []map[string]string
	if strings.HasSuffix(request.Header.Get("X-Amz-Target"), ".ReceiveMessage") {
		for i, body := range q.bodies {
			messages = append(messages, map[string]string{"MessageId": fmt.Sprint(i), "ReceiptHandle": body, "Body": body})
		}
	}
	for _, entry := range asked.Entries {
		q.deleted = append(q.deleted, entry.ReceiptHandle)
		q.bodies = slices.DeleteFunc(q.bodies, func(body string) bool { return body == entry.ReceiptHandle })
		done = append(done, map[string]string{"Id": entry.Id})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"Messages": messages, "Successful": done})
}

func eventOf(bucket, key string) string {
	return fmt.Sprintf(`{"Records":[{"s3":{"bucket":{"name":%q},"object":{"key":%q}}}]}`, bucket, key)
}

func TestEventsOfAQueueAreKeptForTheIndexesThatTheyAreAboutThenDeleted(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "key")
	q := &queue{bodies: []string{
		eventOf("corpus", "docs/a+b%20%C3%BC%2B.md"), eventOf("corpus", "docs/a+b%20%C3%BC%2B.md"),
		eventOf("corpus", "other/c.md"), eventOf("elsewhere", "docs/d.md"), eventOf("corpus", "docs/folder/"),
		eventOf("corpus", "docs/../e.md"),
		`{"Event":"s3:TestEvent"}`, eventOf("corpus", "docs/sub/f.md"), "not for us", `{"Records":[]}`,
	}}
	server := httptest.NewServer(q)
	t.Cleanup(server.Close)
	place := "sqs://" + strings.TrimPrefix(server.URL, "http://") + "/000000000000/corpus"
	store := blobmemory.New()
	docs, all := artifact.Index{Store: store, Name: "docs"}, artifact.Index{Store: store, Name: "all"}
	follower := &hints.Follower{
		Queue: musttest.Get(events.Open(t.Context(), place, "us-east-1"))(t), Log: slog.New(slog.DiscardHandler),
		Corpora: []hints.Corpus{{Index: docs, URI: "s3://corpus/docs/"}, {Index: all, URI: "s3://corpus"}},
	}
	kept := func(index string) (keys []string) {
		for info, err := range store.List(t.Context(), index+"/hints/inbox/", "") {
			require.NoError(t, err)
			var delivery []string
			musttest.Get(blob.ReadJSON(t.Context(), store, info.Key, &delivery))(t)
			keys = append(keys, delivery...)
		}
		return keys
	}
	q.refuse = "AccessDenied"
	musttest.Fail(t, follower.Advance(t.Context()), fault.StoreDenied, place)
	shown := musttest.Get(hints.Read(t.Context(), all))(t).Problem
	assert.True(t, shown != nil && shown.Code == string(fault.StoreDenied) && shown.Object == place, "%+v", shown)
	assert.Empty(t, kept("docs"))
	q.refuse = ""
	require.NoError(t, follower.Advance(t.Context()))
	assert.Nil(t, musttest.Get(hints.Read(t.Context(), all))(t).Problem)
	assert.Equal(t, []string{"a b ü+.md", "sub/f.md"}, kept("docs"))
	assert.Equal(t, []string{"docs/a b ü+.md", "docs/sub/f.md", "other/c.md"}, kept("all"))
	assert.Equal(t, []string{"not for us", `{"Records":[]}`}, q.bodies, "left to the queue")
}
