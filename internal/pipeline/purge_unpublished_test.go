package pipeline_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
)

// What enrichments of a run paid for that was never published is listed by no generation: a purge finds its text, is
// not done, and says why and until when.
func TestAPurgeTellsOfWhatARunPaidForThatWasNeverPublished(t *testing.T) {
	s := newSite(t, sample(9))
	enriching(s)
	enrich := s.spec.Enrich
	s.spec.Enrich = nil
	s.write(t, map[string]string{"secret.md": secretDocument(0)})
	s.night(t)
	s.spec.Enrich = enrich
	whole, store, enriched := s.Artifacts, &dying{Store: s.Artifacts}, false
	store.left.Store(math.MaxInt64)
	s.Artifacts = store
	s.before = func(stage string) {
		if enriched = enriched || stage == "enrich"; enriched && stage != "enrich" {
			store.left.Store(0)
		}
	}
	job, holder := s.leased(t)
	if _, err := s.stages(t.Context(), job, holder); err == nil {
		t.Fatal("it did not die")
	}
	s.before, s.Artifacts = nil, whole
	if err := s.unit(t.Context(), job, "end", func(ctx context.Context, work *upkeep.Run) error {
		return work.End(ctx, holder, run.Ending{Status: core.StatusFailed, Reason: "internal"})
	}); err != nil {
		t.Fatal(err)
	}
	restart(s)
	purge := s.purge(t, "secret.md")
	s.night(t)
	done := s.purged(t, purge.ID)
	if done.State != core.PurgePending || !slices.ContainsFunc(done.Left, func(left string) bool {
		return strings.Contains(left, "never published goes 14 days after")
	}) {
		t.Errorf("%s, %q, %+v", done.State, done.Left, done.Searched)
	}
}
