package release

import (
	"context"

	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// RecordProof records which stores a generation was proven in: those that were remembered before they were verified.
func (r *Run) RecordProof(ctx context.Context, sha string) error {
	was, found, err := run.StoresFile.Find(ctx, r.Scratch)
	if err != nil || !found { // the end of a restore that is repeated: it was recorded
		return err
	}
	was.Manifest = sha
	_, err = blob.WriteJSON(ctx, r.Artifacts, unit.ProvenKey(r.Index), was, blob.Cond{})
	return err
}
