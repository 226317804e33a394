package retrievetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Blobs is an object store in memory.
type Blobs struct {
	mu      sync.Mutex
	objects map[string][]byte
}

var _ blob.Store = (*Blobs)(nil)

// NewBlobs makes an empty one.
func NewBlobs() *Blobs { return &Blobs{objects: map[string][]byte{}} }

func infoOf(key string, content []byte) blob.Info {
	sum := sha256.Sum256(content)
	return blob.Info{Key: key, Size: int64(len(content)), ETag: hex.EncodeToString(sum[:]), Modified: time.Unix(0, 0)}
}

// Put implements blob.Store.
func (b *Blobs) Put(_ context.Context, key string, body io.Reader, _ int64, cond blob.Cond) (blob.Info, error) {
	content, err := io.ReadAll(body)
	if err != nil {
		return blob.Info{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, known := b.objects[key]
	if (cond.Absent && known) || (cond.Match != "" && (!known || infoOf(key, old).ETag != cond.Match)) {
		return blob.Info{}, fault.Precondition.At("write", key)
	}
	b.objects[key] = content
	return infoOf(key, content), nil
}

// Get implements blob.Store.
func (b *Blobs) Get(ctx context.Context, key string, r blob.Range) (io.ReadCloser, blob.Info, error) {
	info, err := b.Stat(ctx, key)
	if err != nil {
		return nil, info, err
	}
	if r.Match != "" && r.Match != info.ETag {
		return nil, info, fault.Precondition.At("read", key)
	}
	b.mu.Lock()
	content := b.objects[key]
	b.mu.Unlock()
	content = content[min(r.Offset, int64(len(content))):]
	if r.Length >= 0 {
		content = content[:min(r.Length, int64(len(content)))]
	}
	return io.NopCloser(bytes.NewReader(content)), info, nil
}

// Stat implements blob.Store.
func (b *Blobs) Stat(_ context.Context, key string) (blob.Info, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	content, known := b.objects[key]
	if !known {
		return blob.Info{}, fault.NotFound.At("read", key)
	}
	return infoOf(key, content), nil
}

// List implements blob.Store.
func (b *Blobs) List(_ context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	b.mu.Lock()
	objects := maps.Clone(b.objects)
	b.mu.Unlock()
	return func(yield func(blob.Info, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if strings.HasPrefix(key, prefix) && key > after && !yield(infoOf(key, objects[key]), nil) {
				return
			}
		}
	}
}

// Delete implements blob.Store.
func (b *Blobs) Delete(_ context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, key)
	return nil
}

// Location implements blob.Store.
func (b *Blobs) Location(key string) string { return "memory:" + key }
