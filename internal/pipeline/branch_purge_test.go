package pipeline_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
)

func (s *site) unbranch(t *testing.T, name string) {
	t.Helper()
	idle := func(ctx context.Context, index artifact.Index) (string, error) { return "", nil }
	_, err := s.desk().DeleteBranch(t.Context(), release.Branching{Base: "docs", Name: name}, idle)
	require.NoError(t, err)
}

// A purge of a base that got a branch after it was asked for does not end before the branch is gone; what the branch
// leaves goes with it, and no branch is made meanwhile. The nights of a later branch leave the document out.
// Promises: 46.
func TestAPurgeOfABaseEndsOnceItHasNoBranch(t *testing.T) {
	synctest.Test(t, testAPurgeOfABaseEndsOnceItHasNoBranch) // a branch settles for a second and a half
}

func testAPurgeOfABaseEndsOnceItHasNoBranch(t *testing.T) {
	s := branchSite(t)
	s.write(t, map[string]string{"secret.md": secretDocument(0)})
	s.night(t)
	_, err := s.branch(t, "large", map[string]string{"shortening.threshold": "60"})
	require.NoError(t, err)
	s.on("large", 60)
	s.night(t)
	s.on("docs", 4000)
	purge := s.purge(t, "secret.md") // as one that met no branch yet
	if _, err := s.branch(t, "other", nil); !fault.Is(err, fault.Usage) || !strings.Contains(err.Error(), "purge") {
		t.Errorf("a branch that is made while a purge is pending: %v", err)
	}
	s.night(t)
	waits := s.purged(t, purge.ID)
	assert.True(t, waits.State == core.PurgePending && strings.Contains(strings.Join(waits.Left, " "), "branch large"),
		"a purge beside a branch: %s, left %q", waits.State, waits.Left)
	require.True(t, len(s.holding(t, secrets...)) != 0, "the branch lost what it has")
	s.entire(t, "large")
	s.unbranch(t, "large")
	s.night(t)
	if done := s.purged(t, purge.ID); done.State != core.PurgeDone || len(done.Left) > 0 {
		t.Errorf("a purge behind a branch: %s, left %q", done.State, done.Left)
	}
	if where := s.holding(t, secrets...); len(where) > 0 {
		t.Errorf("still stored in %q", where)
	}
	s.entire(t, "docs")
	_, err = s.branch(t, "third", map[string]string{"shortening.threshold": "60"})
	require.NoError(t, err)
	s.on("third", 60)
	s.night(t)
	if where := s.holding(t, secrets...); len(where) > 0 {
		t.Errorf("a night of a branch stored it again in %q", where)
	}
}
