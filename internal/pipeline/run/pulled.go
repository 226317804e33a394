package run

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// ReadPulled returns the generations of an index that were pulled.
func ReadPulled(ctx context.Context, index artifact.Index) (out core.PulledGenerations, err error) {
	_, err = blob.ReadJSON(ctx, index.Store, index.PulledKey(), &out)
	if fault.Is(err, fault.NotFound) {
		return core.PulledGenerations{}, nil
	}
	return out, err
}

// RefusePulled returns fault.IndexPulled where an index, or the base of a branch, serves a pulled image that no one
// adopted: a build would change what its origin changes.
func RefusePulled(ctx context.Context, index artifact.Index) error {
	base, err := index.FindBase(ctx)
	if err != nil {
		return err
	}
	all, err := ReadPulled(ctx, base)
	if err != nil || len(all) == 0 {
		return err
	}
	current, _, err := base.ReadPointer(ctx)
	pulled, there := all[current.Manifest]
	if err != nil || !there || pulled.Adopted {
		return err
	}
	return fault.IndexPulled.At("change", index.Name).
		Because("it is a read-only copy of " + pulled.From).
		Advise("change it where it comes from, and pull again; or let builds change it here: unweaver pull " + pulled.From +
			" " + base.Name + " --adopt")
}
