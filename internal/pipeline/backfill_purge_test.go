package pipeline_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// A backfill pays for nothing of a document that was purged, though the corpus has it and it is chosen: neither a model
// nor the ledger sees its text again.
func TestABackfillLeavesOutWhatWasPurged(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 5, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	s.write(t, map[string]string{"old/secret.md": secretDocument(0)})
	s.night(t)
	purge := s.purge(t, "old/secret.md")
	s.night(t)
	require.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
	s.write(t, archive(3))
	asked := s.server.Stats().Tasks["extract"].Calls
	f := s.fills(t, "old", core.BackfillChoice{Prefix: "old/"})
	assert.Equal(t, int64(3), f.open(t).Documents)
	require.NoError(t, f.pay(t.Context(), 0, noOtherBuild))
	assert.Equal(t, int64(3), s.server.Stats().Tasks["extract"].Calls-asked)
	if where := s.holding(t, secrets...); len(where) > 0 {
		t.Errorf("stored again in %q", where)
	}
}

// A backfill that was planned before a purge pays for nothing more, and the purge does not end beside it: once it is
// begun again, it leaves the document out.
func TestABackfillThatWasPlannedBeforeAPurgeStops(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 5, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	s.write(t, map[string]string{"secret.md": secretDocument(0)})
	s.night(t)
	s.write(t, archive(3))
	s.write(t, map[string]string{"secret.md": secretDocument(1)})
	f := s.fills(t, "old", core.BackfillChoice{Documents: []string{"old/place-000.md", "secret.md"}})
	require.Equal(t, int64(2), f.open(t).Documents)
	purge := s.purge(t, "secret.md")
	s.night(t)
	if now := s.purged(t, purge.ID); now.State != core.PurgePending || len(now.Left) == 0 ||
		!strings.Contains(now.Left[0], "backfill old") {
		t.Errorf("%+v", now)
	}
	asked := s.server.Stats().Tasks["extract"].Calls
	if err := f.pay(t.Context(), 0, noOtherBuild); !fault.Is(err, fault.PlanMoved) {
		t.Errorf("%v", err)
	}
	assert.Zero(t, s.server.Stats().Tasks["extract"].Calls-asked)
	f.end(t, core.StatusFailed)
	s.night(t)
	assert.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
	if where := s.holding(t, secrets...); len(where) > 0 {
		t.Errorf("still stored in %q", where)
	}
}

// What a backfill was for names a purged document no more, and chooses nothing else in its place.
func TestAListOfABackfillNamesNoPurgedDocument(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 5, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	s.write(t, map[string]string{"secret.md": secretDocument(0)})
	s.night(t)
	for name, keys := range map[string][]string{"one": {"secret.md"}, "two": {"place-001.md", "secret.md"}} {
		f := s.fills(t, name, core.BackfillChoice{Documents: keys})
		f.open(t)
		f.end(t, core.StatusCompleted)
	}
	purge := s.purge(t, "secret.md")
	s.night(t)
	require.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
	if where := s.holding(t, "secret.md"); len(where) > 0 {
		t.Errorf("still named in %q", where)
	}
	all, err := run.ReadBackfills(t.Context(), s.index())
	require.True(t, err == nil && len(all) == 2, "%+v, %v", all, err)
	for _, one := range all {
		chosen := one.Choice.NewChooser()
		if chosen("secret.md", time.Now()) || chosen("place-002.md", time.Now()) ||
			chosen("place-001.md", time.Now()) != (one.Name == "two") || one.Status != core.StatusCompleted {
			t.Errorf("%s: %+v", one.Name, one)
		}
	}
}
