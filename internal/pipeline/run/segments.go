package run

import (
	"context"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/idf"
)

// segments opens what runs map into memory. A mapping is shared by all units of the process and closed when none needs
// it.
type segments struct{}

func (segments) OpenIdf(ctx context.Context, r *Run, sha string) (*idf.Table, func(), error) {
	return ensureRelease(localfile.Acquire(ctx, r.Cache, r.Artifacts, r.Index.SegmentKey(sha), sha, idf.Open))
}

// ensureRelease gives callers something to release in every ending.
func ensureRelease[T any](handle T, release func(), err error) (T, func(), error) {
	if release == nil {
		release = func() {}
	}
	return handle, release, err
}

// specCache reads each stored configuration once; there are few, and they are small.
type specCache struct {
	mu    sync.Mutex
	known map[string]core.Spec // by index and digest
}

func (c *specCache) getSpec(ctx context.Context, index artifact.Index, digest string) (core.Spec, error) {
	asked := index.Name + "/" + digest
	c.mu.Lock()
	spec, ok := c.known[asked]
	c.mu.Unlock()
	if ok {
		return spec, nil
	}
	var key core.Digest
	if err := key.UnmarshalText([]byte(digest)); err != nil {
		return spec, unknownSpec(digest, err)
	}
	spec, err := index.Spec(ctx, key)
	if err != nil {
		return spec, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]core.Spec{}
	}
	c.known[asked] = spec
	return spec, nil
}
