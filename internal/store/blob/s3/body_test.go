package s3_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// breaking breaks the connection of the first answers to a GET of an object in their middle.
type breaking struct {
	*bucket
	left  atomic.Int64
	asked atomic.Int64
	after func() // called when an answer was broken; may be nil
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Query().Has("list-type") {
		b.bucket.ServeHTTP(w, r)
		return
	}
	b.asked.Add(1)
	if b.left.Add(-1) < 0 {
		b.bucket.ServeHTTP(w, r)
		return
	}
	whole := httptest.NewRecorder()
	b.bucket.ServeHTTP(whole, r)
	for name, values := range whole.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", fmt.Sprint(whole.Body.Len()))
	w.WriteHeader(whole.Code)
	_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	if b.after != nil {
		b.after()
	}
	panic(http.ErrAbortHandler)
}

func breakingStore(t *testing.T, times int64) (*s3.Store, *breaking) {
	t.Helper()
	b := &breaking{bucket: &bucket{store: blobmemory.New(), uploads: map[string][][]byte{}}}
	b.left.Store(times)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	store := must(s3.Open(t.Context(),
		s3.Config{Bucket: "b", Endpoint: server.URL, Region: "us-east-1", PathStyle: true, Setting: "stores.artifacts"}))
	return store, b
}

func TestAStreamThatBreaksGoesOnWhereItWas(t *testing.T) {
	want := make([]byte, 300_000)
	_, _ = rand.Read(want)
	for name, part := range map[string]blob.Range{
		"the whole":  {Length: -1},
		"a part":     {Offset: 1000, Length: 200_000},
		"to its end": {Offset: 5, Length: -1},
	} {
		t.Run(name, func(t *testing.T) {
			store, b := breakingStore(t, 3)
			must(blob.Write(t.Context(), store, "k", want, blob.Cond{}))
			stream, info, err := store.Get(t.Context(), "k", part)
			require.NoError(t, err)
			defer func() { _ = stream.Close() }()
			var got bytes.Buffer
			must(got.ReadFrom(stream))
			end := int64(len(want))
			if part.Length > 0 {
				end = part.Offset + part.Length
			}
			assert.True(t, bytes.Equal(got.Bytes(), want[part.Offset:end]) && info.Size == int64(len(want)),
				"%d bytes of an object of %d", got.Len(), info.Size)
			assert.Equal(t, int64(4), b.asked.Load(), "asked")
		})
	}
}

func TestAStreamThatBreaksAgainAndAgainFailsTransiently(t *testing.T) {
	store, _ := breakingStore(t, 100)
	must(blob.Write(t.Context(), store, "k", make([]byte, 300_000), blob.Cond{}))
	_, _, err := blob.Read(t.Context(), store, "k")
	assert.True(t, fault.KindOf(err) == fault.Transient, "%v", err)
}

func TestAStreamNeverGoesOnInAnotherVersion(t *testing.T) {
	store, b := breakingStore(t, 1)
	one, two := bytes.Repeat([]byte("1"), 300_000), bytes.Repeat([]byte("2"), 300_000)
	must(blob.Write(t.Context(), store, "k", one, blob.Cond{}))
	b.after = func() { _, _ = blob.Write(t.Context(), b.store, "k", two, blob.Cond{}) }
	raw, _, err := blob.Read(t.Context(), store, "k")
	assert.True(t, fault.KindOf(err) == fault.Transient, "%d bytes, %v", len(raw), err)
}
