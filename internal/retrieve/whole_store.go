package retrieve

import (
	"context"
	"io"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// whole is the artifact store as a generation reads it: everything that a generation names must be there, so that what
// is missing is damage.
type whole struct {
	blob.Store
	index string
}

// Get implements blob.Store.
func (s whole) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	body, info, err := s.Store.Get(ctx, key, part)
	return body, info, s.wrapMissing(key, err)
}

// Stat implements blob.Store.
func (s whole) Stat(ctx context.Context, key string) (blob.Info, error) {
	info, err := s.Store.Stat(ctx, key)
	return info, s.wrapMissing(key, err)
}

func (s whole) wrapMissing(key string, err error) error {
	if !fault.Is(err, fault.NotFound) || artifact.OfBranches(key) {
		return err
	}
	return fault.SegmentDamage.At("read", s.Location(key)).
		Because("a generation refers to it, but it is missing").
		Advise("run: unweaver restore " + s.index + "; if that reports it as lost: unweaver index --rebuild " +
			"--index " + s.index)
}
