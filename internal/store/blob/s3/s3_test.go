package s3_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
)

// endpoint returns the address of the real server; without one the test is skipped.
func endpoint(t *testing.T) string {
	t.Helper()
	e := os.Getenv("UNWEAVER_TEST_S3")
	if e == "" {
		t.Skip("no S3 server: make test-servers has one")
	}
	return e
}

func config(t *testing.T) s3.Config {
	raw := make([]byte, 8)
	_, _ = rand.Read(raw)
	return s3.Config{Bucket: "unweaver", Prefix: "test/" + hex.EncodeToString(raw), Endpoint: endpoint(t),
		Region: "us-east-1", PathStyle: true, Setting: "stores.artifacts"}
}

func open(t *testing.T) blob.Store {
	t.Helper()
	store := must(s3.Open(t.Context(), config(t)))
	return store
}

func TestConformance(t *testing.T) {
	endpoint(t)
	blobtest.Run(t, open)
}

func TestLargeObjectsTravelInPartsUnderTheirCondition(t *testing.T) {
	store := open(t)
	big := make([]byte, 20<<20+5)
	_, _ = rand.Read(big)
	for _, size := range []int64{int64(len(big)), -1} {
		key := fmt.Sprint("big", size)
		// Hiding Seek and Len proves that nothing but the stream is needed.
		stream := io.MultiReader(bytes.NewReader(big))
		must(store.Put(t.Context(), key, stream, size, blob.Cond{Absent: true}))
		got, in, err := blob.Read(t.Context(), store, key)
		assert.True(t, err == nil && bytes.Equal(got, big) && in.Size == int64(len(big)),
			"read back %d bytes, %+v, %v", len(got), in, err)
		_, err = store.Put(t.Context(), key, bytes.NewReader(big), size, blob.Cond{Absent: true})
		assert.True(t, fault.Is(err, fault.Precondition), "a second If-None-Match: %v", err)
	}
	_, err := store.Put(t.Context(), "short", bytes.NewReader(big), int64(len(big))+1, blob.Cond{})
	assert.Error(t, err, "a body that ends early was stored")
	_, err = store.Stat(t.Context(), "short")
	assert.True(t, fault.Is(err, fault.NotFound), "a broken upload left %v", err)
}

func TestMissingBucketAndWrongKeysNameTheSetting(t *testing.T) {
	c := config(t)
	c.Bucket = "no-such-bucket"
	_, err := s3.Open(t.Context(), c)
	assert.True(t, fault.Is(err, fault.StoreDenied) && strings.Contains(err.Error(), "stores.artifacts"),
		"missing bucket: %v", err)
	c.Bucket = "unweaver"
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	if _, err = s3.Open(t.Context(), c); !fault.Is(err, fault.StoreDenied) ||
		!strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("wrong secret: %v", err)
	}
}

// answering starts a server that gives one answer to everything.
func answering(t *testing.T, status int, code string, seen *int) s3.Config {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Query().Get("list-type") != "" && code != "list" && seen != nil {
			fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
			return
		}
		if seen != nil {
			*seen++
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>said so</Message></Error>", code)
	}))
	t.Cleanup(srv.Close)
	return s3.Config{Bucket: "b", Endpoint: srv.URL, Region: "us-east-1", PathStyle: true, Setting: "stores.artifacts"}
}

func TestErrorsOfAStoreNameTheWayOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		code   string
		want   fault.Code
		says   string
	}{
		{403, "AccessDenied", fault.StoreDenied, "list, read, write and delete"},
		{403, "RequestTimeTooSkewed", fault.StoreDenied, "clock"},
		{403, "InvalidAccessKeyId", fault.StoreDenied, "AWS_ACCESS_KEY_ID"},
		{400, "AuthorizationHeaderMalformed", fault.BadConfig, "stores.s3.region"},
		{301, "PermanentRedirect", fault.BadConfig, "stores.s3.region"},
		{404, "NoSuchBucket", fault.StoreDenied, "does not exist"},
		{507, "QuotaExceeded", fault.StoreFull, "make room"},
	} {
		_, err := s3.Open(t.Context(), answering(t, c.status, c.code, nil))
		assert.True(t, fault.Is(err, c.want) && strings.Contains(fmt.Sprint(err), c.says), "%d %s: %v", c.status, c.code, err)
	}
}

func TestConditionalWritesAreSentOnceAndOthersAreRepeated(t *testing.T) {
	t.Parallel()
	n := 0
	store := must(s3.Open(t.Context(), answering(t, 500, "InternalError", &n)))
	_, err := blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{Absent: true})
	assert.True(t, fault.Is(err, fault.StoreDown) && n == 1, "a conditional write was sent %d times: %v", n, err)
	n = 0
	_, err = blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{})
	assert.True(t, fault.Is(err, fault.StoreDown) && n >= 2, "an unconditional write was sent %d times: %v", n, err)
}

func TestAStoreWithoutConditionalWritesSaysSo(t *testing.T) {
	t.Parallel()
	n := 0
	store := must(s3.Open(t.Context(), answering(t, 501, "NotImplemented", &n)))
	_, err := blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{Absent: true})
	assert.True(t, fault.Is(err, fault.StoreDenied) && strings.Contains(err.Error(), "conditional writes"), "%v", err)
}

func TestUnreachableEndpointIsTransientAndNamesTheSetting(t *testing.T) {
	t.Parallel()
	_, err := s3.Open(
		t.Context(),
		s3.Config{Bucket: "b", Endpoint: "http://127.0.0.1:1", Region: "us-east-1", PathStyle: true,
			Setting: "stores.artifacts"},
	)
	assert.True(t, fault.Is(err, fault.StoreDown) && strings.Contains(err.Error(), "stores.s3.endpoint"), "%v", err)
	var f *fault.Error
	assert.True(t, errors.As(err, &f) && f.Kind == fault.Transient, "kind %v", f)
}

func TestParse(t *testing.T) {
	for uri, want := range map[string]string{"s3://b/p/q/": "b p/q", "s3://b": "b ", "s3:///x": "", "http://b/x": ""} {
		b, p, err := s3.Parse(uri)
		got := b + " " + p
		assert.True(t, (err == nil) == (want != "") && (err != nil || got == want), "%s: %q, %v", uri, got, err)
	}
}

// must returns a value of a fixture that does not fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
