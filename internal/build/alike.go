package build

import (
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/corpus"
)

// Alike tells, once all units are cut, whether a build came to what its parent is: it only tried again documents whose
// bytes are the same, and they failed as they did. It then ends as a night on which nothing changed, with this status.
func (r *Run) Alike(ctx context.Context) (status string, alike bool, err error) {
	fixed, err := planFile.Read(ctx, r.Scratch)
	if err != nil || !fixed.Plan.Again || fixed.Rebuild || len(fixed.Damage) > 0 {
		return "", false, err
	}
	parent, err := r.parent(ctx, fixed.Parent)
	if err != nil || parent == nil {
		return "", false, err
	}
	if parent.Limits != r.Limits.Key() { // only a publication keeps these: the next night would try again what they refuse
		return "", false, nil
	}
	var documents, texts []corpus.Segment
	for chunked, err := range each(ctx, r, len(fixed.Plan.Units), chunkFile) {
		if err != nil {
			return "", false, err
		}
		documents, texts = append(documents, chunked.Documents), append(texts, chunked.Text)
	}
	if !slices.Equal(documents, parent.Segments.Documents) || !slices.Equal(texts, parent.Segments.Text) {
		return "", false, nil
	}
	if status, err = r.standing(ctx, fixed); err != nil {
		return "", false, err
	}
	return status, true, r.keepProblems(ctx, len(fixed.Plan.Units))
}
