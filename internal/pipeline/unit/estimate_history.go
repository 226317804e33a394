package unit

import (
	"context"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/estimate"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// pastRuns is how many of the last generations an estimate goes by.
const pastRuns = 10

// ReadPast gives what the last generations came to that were built with these models and limits. One whose report
// cannot be read says nothing.
func (r *Run) ReadPast(ctx context.Context) (estimate.Past, error) {
	generations, err := r.Index.ListGenerations(ctx)
	if artifact.IsDamage(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	generations = slices.DeleteFunc(generations, func(one artifact.Generation) bool {
		return core.IsHinted(one.Generation) != core.IsHinted(r.Generation)
	})
	generations = generations[:min(len(generations), pastRuns)]
	found := make([]*estimate.Actual, len(generations))
	err = parallel.Each(ctx, len(generations), pastRuns, func(ctx context.Context, i int) error {
		var err error
		found[i], err = r.readActual(ctx, generations[i])
		if artifact.IsDamage(err) || fault.Is(err, fault.NotFound) {
			err = nil
		}
		return err
	})
	var out estimate.Past
	for _, run := range found {
		if run != nil {
			out = append(out, *run)
		}
	}
	return out, err
}

// readActual returns what one generation came to; nil where it says nothing of tonight.
func (r *Run) readActual(ctx context.Context, generation artifact.Generation) (*estimate.Actual, error) {
	report, err := r.Index.ReadReport(ctx, generation.Generation)
	if err != nil {
		return nil, err
	}
	manifest, err := r.Index.Manifest(ctx, generation.Manifest)
	if err != nil {
		return nil, err
	}
	spec := r.Settings
	if manifest.Spec.String() != r.Spec {
		spec, err = r.Index.Spec(ctx, manifest.Spec)
	}
	if err != nil || !spec.BuildsLike(r.Settings) ||
		spec.Embedding.Model != r.Settings.Embedding.Model || spec.Limits != r.Settings.Limits ||
		!strings.HasPrefix(report.Status, core.StatusCompleted) {
		return nil, err
	}
	return estimate.ActualOf(report), nil
}

// expectedFile is where a build that was begun with a plan keeps what it is expected to come to, for its report.
const expectedFile = "estimate.json"

// WriteExpected keeps it.
func WriteExpected(ctx context.Context, index artifact.Index, generation string, expected core.Estimate) error {
	_, err := blob.WriteJSON(ctx, index.Store, index.GenerationKey(generation, expectedFile), expected, blob.Cond{})
	return err
}

// ReadExpected reads it; nil: there is none that can be read.
func (r *Run) ReadExpected(ctx context.Context) *core.Estimate {
	var out core.Estimate
	if _, err := blob.ReadJSON(ctx, r.Artifacts, r.Index.GenerationKey(r.Generation, expectedFile), &out); err != nil {
		return nil
	}
	return &out
}
