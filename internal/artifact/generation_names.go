package artifact

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
)

// LayPointer lays the pointer over the references of an index: it is the authority on the current generation, whatever
// became of the reference of that name.
func LayPointer(refs map[string]core.GenerationRef, current core.Pointer) {
	if current.Generation != "" {
		refs[current.Generation] = core.GenerationRef{
			Manifest: current.Manifest, Seq: current.Seq, State: "published",
		}
	}
}

// ListByName gives every generation of the index by name: what its references say, and for the current one what the
// pointer says. A damaged reference is an error, but that of the current one.
func (x Index) ListByName(ctx context.Context) (map[string]core.GenerationRef, error) {
	current, _, err := x.ReadPointer(ctx)
	if err != nil {
		return nil, err
	}
	refs, damaged, err := x.ReadableRefs(ctx)
	if err != nil {
		return nil, err
	}
	for _, gen := range damaged {
		if gen != current.Generation {
			if _, err := x.GenerationRef(ctx, gen); err != nil {
				return nil, err
			}
		}
	}
	LayPointer(refs, current)
	return refs, nil
}
