package pipeline_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// What a backfill was begun for names no document that was purged, and what is left of its choice chooses nothing
// more for it.
// Promises: 5.
func TestAPurgeTakesDocumentsOutOfTheChoicesOfBackfills(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 6, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	s.night(t)
	const secret = "old/heron-tiberius.md"
	s.write(t, archive(3))
	s.write(t, map[string]string{secret: secretDocument(0)})
	filled := s.fills(t, "old", core.BackfillChoice{Documents: []string{secret, "old/place-001.md"}})
	require.Equal(t, int64(2), filled.open(t).Documents)
	filled.publish(t)
	filled.end(t, core.StatusCompleted)
	only := s.fills(t, "only", core.BackfillChoice{Documents: []string{secret}})
	only.end(t, core.StatusCancelled)
	prefix := s.fills(t, "prefix", core.BackfillChoice{Prefix: secret})
	prefix.end(t, core.StatusCancelled)
	other := s.fills(t, "other", core.BackfillChoice{Prefix: "old/"})
	other.end(t, core.StatusCancelled)

	words := append(slices.Clone(secrets), "heron-tiberius")
	if where := s.holding(t, words...); len(where) < 8 {
		t.Fatalf("the search finds too little of what is there: %q", where)
	}
	purge := s.purge(t, secret)
	s.night(t)
	require.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
	if where := s.holding(t, words...); len(where) > 0 {
		t.Errorf("still stored in %q", where)
	}
	chooses := func(f *filling, key string) bool { return f.state(t).Choice.NewChooser()(key, time.Now()) }
	if !chooses(filled, "old/place-001.md") || chooses(filled, "old/place-002.md") {
		t.Errorf("%+v", filled.state(t).Choice)
	}
	for _, none := range []*filling{only, prefix} {
		if chooses(none, "old/place-001.md") || none.state(t).Choice.FindMistake() != "" {
			t.Errorf("a choice of which nothing is left: %+v", none.state(t).Choice)
		}
	}
	if !chooses(other, "old/place-002.md") {
		t.Errorf("%+v", other.state(t).Choice)
	}
	// The object is in the corpus as it was: a backfill that begins now does not read it, let alone pay for it.
	if opened := s.fills(t, "later", core.BackfillChoice{Prefix: "old/heron"}).open(t); opened.Documents != 0 {
		t.Errorf("a backfill after the purge takes up %+v", opened)
	}
}

// A generation that a gate holds goes with what is purged, though it is not served, and cannot be approved any more.
// Promises: 5.
func TestAPurgeTakesAGenerationThatAGateHolds(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 12, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	first := s.night(t)
	s.spec.Gate.MaxSizeChange = 0.01
	s.write(t, map[string]string{"secret.md": secretDocument(0)})
	held := s.night(t)
	index := artifact.Index{Store: s.Artifacts, Name: "docs"}
	refs, err := index.ListByName(t.Context())
	if err != nil || held.published.Status != core.StatusHeld || refs["g002"].State != "held" ||
		held.manifest.Generation != first.manifest.Generation {
		t.Fatalf("%+v, %+v, %v", held.published, refs, err)
	}
	if where := s.holding(t, secrets...); len(where) < 4 {
		t.Fatalf("the search finds too little of what is there: %q", where)
	}
	purge := s.purge(t, "secret.md")
	out := s.night(t)
	require.Equal(t, core.StatusCompleted, out.published.Status, "%+v", out.published)
	done := s.purged(t, purge.ID)
	assert.True(t, done.State == core.PurgeDone && done.Gone.Generations == 1 && done.Gone.Ledger != 0, "%+v", done)
	if where := s.holding(t, secrets...); len(where) > 0 {
		t.Errorf("still stored in %q", where)
	}
	if refs, err := index.ListByName(t.Context()); err != nil || refs["g002"].Manifest != "" {
		t.Errorf("%+v, %v", refs, err)
	}
	if collected, err := index.IsPurged(t.Context(), "g002"); err != nil || !collected {
		t.Errorf("readers do not learn it: %t, %v", collected, err)
	}
}
