package unit

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// undecodable finds the documents segments of the parent that have the bytes they are named by and still are no
// documents, or not as many as the manifest says. It is asked where comparing with the parent failed: hashes do not see
// them, and reading each of them every night is not worth it. known is damage that was found before.
func (r *Run) undecodable(ctx context.Context, parent *core.Manifest, known []run.Damage) ([]run.Damage, error) {
	left := readable(parent, known)
	if left == nil {
		return nil, nil
	}
	var damage []run.Damage
	for _, one := range left.Segments.Splits {
		parts, err := stored.Parts(left.Segments.Documents, "documents", one.Text, one.Texts)
		if err != nil {
			return nil, err
		}
		sound, err := r.decodes(ctx, core.Segments{Splits: []core.Split{one}, Documents: parts})
		if err != nil {
			return nil, err
		}
		for _, segment := range parts {
			if !sound {
				damage = append(damage, run.Damage{Kind: "documents", Object: segment.SHA256, Why: "no list of documents"})
			}
		}
	}
	return damage, nil
}

// decodes tells whether the documents of a split can be read; an error is one of the store.
func (r *Run) decodes(ctx context.Context, list core.Segments) (bool, error) {
	for row, err := range stored.Documents(ctx, r.Index, list, nil) {
		if artifact.IsDamage(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if _, err := rows.DecodeDocument(row.Value); err != nil {
			return false, nil
		}
		r.Progress.Touch()
	}
	return true, nil
}
