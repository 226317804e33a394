package pipeline_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/stage/collect"
)

// What enrichments of a run paid for that was never published is listed by no generation. After a purge the ledger
// alone may have a text of the document, and only until entries that no generation lists expire.
func TestWhatARunPaidForThatWasNeverPublishedOutlastsAPurgeByTheLedgersGraceAlone(t *testing.T) {
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
	_, err := s.stages(t.Context(), job, holder)
	require.Error(t, err, "it did not die")
	s.before, s.Artifacts = nil, whole
	if err := s.unit(t.Context(), job, "end", func(ctx context.Context, work *upkeep.Run) error {
		return work.End(ctx, holder, run.Ending{Status: core.StatusFailed, Reason: "internal"})
	}); err != nil {
		t.Fatal(err)
	}
	restart(s)
	purge := s.purge(t, "secret.md")
	s.night(t)
	if done := s.purged(t, purge.ID); done.State != core.PurgeDone {
		t.Errorf("%s, %q", done.State, done.Left)
	}
	for _, where := range s.holding(t, secrets...) {
		assert.True(t, strings.HasPrefix(where, "ledger/"), "still stored in %s", where)
	}
	index := []artifact.Index{{Store: s.Artifacts, Name: s.spec.Index}}
	for _, task := range ledger.Tasks() {
		later := time.Now().Add(ledger.Unlisted + time.Hour)
		_, err := s.Ledger.Expire(t.Context(), task, collect.ListKeys(t.Context(), index, task), later)
		require.NoError(t, err)
	}
	if where := s.holding(t, secrets...); len(where) > 0 {
		t.Errorf("14 days later still stored in %q", where)
	}
}
