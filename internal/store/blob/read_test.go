package blob_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/store/blob"
)

// telling is a store of one object that says how large it is, rightly or not.
type telling struct {
	blob.Store
	content []byte
	size    int64
}

func (s telling) Get(_ context.Context, key string, _ blob.Range) (io.ReadCloser, blob.Info, error) {
	return io.NopCloser(struct{ io.Reader }{bytes.NewReader(s.content)}), blob.Info{Key: key, Size: s.size}, nil
}

func TestAnObjectIsReadWhateverSizeItsStoreTells(t *testing.T) {
	content := bytes.Repeat([]byte("content "), 1000)
	for _, size := range []int64{int64(len(content)), 0, -1, 10, 1 << 50} {
		raw, _, err := blob.Read(t.Context(), telling{content: content, size: size}, "key")
		assert.True(t, err == nil && bytes.Equal(raw, content),
			"announced as %d bytes: %d of %d bytes, %v", size, len(raw), len(content), err)
	}
}

func TestAnObjectIsReadIntoMemoryOfItsSize(t *testing.T) {
	content := bytes.Repeat([]byte("content "), 100_000)
	raw, _, err := blob.Read(t.Context(), telling{content: content, size: int64(len(content))}, "key")
	assert.True(t, err == nil && cap(raw) <= len(content)+8<<10,
		"%d bytes of memory for %d, %v", cap(raw), len(content), err)
}
