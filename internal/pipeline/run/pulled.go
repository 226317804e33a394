package run

import (
	"context"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// PullGeneration is what the holder of a lease is called by, below the index, where it pulls an image.
const PullGeneration = "pull-"

// RefusePulled returns fault.IndexPulled where an index, or the base of a branch, serves a pulled image that nobody
// adopted: a build would change what its origin changes.
func RefusePulled(ctx context.Context, index artifact.Index) error {
	base, err := index.FindBase(ctx)
	if err != nil {
		return err
	}
	var pulled core.Pulled
	_, err = blob.ReadJSON(ctx, index.Store, base.PulledKey(), &pulled)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil || pulled.Adopted {
		return err
	}
	adopt := "unweaver import " + pulled.From
	if strings.Contains(pulled.From, "://") {
		adopt = "unweaver pull " + pulled.From
	}
	return fault.IndexPulled.At("build", index.Name).
		Because("it is a read-only copy of " + pulled.From).
		Advise("build it where it comes from, and pull again; or let builds change it here: " + adopt + " " + base.Name +
			" --adopt")
}
