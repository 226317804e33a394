package s3_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// passing is a decorator that only passes calls on.
type passing struct{ blob.Store }

func (p passing) Unwrap() blob.Store { return p.Store }

// pair opens two prefixes of one bucket.
func pair(t *testing.T) (from, to *s3.Store, b *bucket) {
	t.Helper()
	b = &bucket{store: blobmemory.New(), uploads: map[string][][]byte{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	open := func(prefix string) *s3.Store {
		store := must(s3.Open(t.Context(),
			s3.Config{Bucket: "b", Prefix: prefix, Endpoint: server.URL, Region: "us-east-1", PathStyle: true}))
		return store
	}
	return open("from"), open("to"), b
}

func TestTheServerCopiesWhatItCanAndTheRestIsReadAndWritten(t *testing.T) {
	const odd = "seg ments/a+b%20ü"
	for name, test := range map[string]struct {
		refuses       bool
		copies, reads int
	}{"by the server": {false, 1, 0}, "through this process": {true, 0, 1}} {
		from, to, b := pair(t)
		b.refusesCopies = test.refuses
		must(blob.Write(t.Context(), from, odd, []byte("rows"), blob.Cond{}))
		err := blob.Copy(t.Context(), to, "copy", passing{from}, odd)
		require.True(t, err == nil, "%v %v", name, err)
		assert.True(t, b.copies == test.copies && b.reads == test.reads, "%s: %d copies, %d reads", name, b.copies, b.reads)
		raw, _, err := blob.Read(t.Context(), to, "copy")
		assert.True(t, err == nil && string(raw) == "rows", "%s: got %q, %v", name, raw, err)
		err = blob.Copy(t.Context(), to, "none", from, "absent")
		assert.True(t, fault.Is(err, fault.NotFound), "%s: an absent object: %v", name, err)
	}
}

func TestAnotherServersObjectsAreReadAndWritten(t *testing.T) {
	from, _, _ := pair(t)
	_, to, b := pair(t)
	must(blob.Write(t.Context(), from, "k", []byte("rows"), blob.Cond{}))
	require.NoError(t, blob.Copy(t.Context(), to, "copy", from, "k"))
	raw, _, err := blob.Read(t.Context(), to, "copy")
	assert.True(t, err == nil && string(raw) == "rows" && b.copies == 0, "got %q, %v, %d copies", raw, err, b.copies)
}
