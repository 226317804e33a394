package release

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/collect"
)

// reclaimFiles takes what a manifest names off the list of what is about to be deleted.
func (r *Run) reclaimFiles(ctx context.Context, manifest *core.Manifest) error {
	var wanted []string
	for _, segment := range manifest.Segments.All() {
		wanted = append(wanted, segment.SHA256)
	}
	collections := manifest.Collections
	missing, err := collect.Reclaim(ctx, r.Index, wanted, collections.Classes, collections.Chunks)
	if err != nil || len(missing) == 0 {
		return err
	}
	return fault.SegmentDamage.At("publish", r.Name()).
		Because("segment " + missing[0] + " that it names was deleted meanwhile").
		Advise("to build it again: unweaver index --index " + r.Job.Index)
}
