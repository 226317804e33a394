package run

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/idf"
)

// OpenIdf maps a table of word weights into memory. All units of the process share it; release it in every ending.
func (r *Run) OpenIdf(ctx context.Context, sha string) (table *idf.Table, release func(), err error) {
	table, release, err = localfile.Acquire(ctx, r.Cache, r.Artifacts, r.Index.SegmentKey(sha), sha, idf.Open)
	if release == nil {
		release = func() {}
	}
	return table, release, err
}

// readSpec reads the configuration of the job; each process reads one once.
func (r *Run) readSpec(ctx context.Context) (spec core.Spec, err error) {
	var digest core.Digest
	if err := digest.UnmarshalText([]byte(r.Spec)); err != nil {
		return spec, fault.BadConfig.At("read configuration", r.Spec).Because(err).Advise("start the run again")
	}
	key := r.Index.SpecKey(digest)
	if known, ok := r.Kept.Get(key); ok {
		return known.(core.Spec), nil //nolint:forcetypeassert // the name of a file says of what type it is
	}
	if spec, err = r.Index.Spec(ctx, digest); err == nil {
		r.Kept.Put(key, spec)
	}
	return spec, err
}
