package pipeline_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
)

// Why a run does not get on is shown from the first failure on, and no longer than it lasts.
func TestAModelServerThatDoesNotAnswerIsShownBeforeItsUnitGivesUp(t *testing.T) {
	s := newSite(t, sample(1))
	job, _ := s.job(t)
	run, err := s.Open(t.Context(), job, "extract")
	require.NoError(t, err)
	defer run.Close()
	problems := func() (found []core.Problem) {
		all, err := s.Coordination.ReadProblems(t.Context(), job.Name())
		require.NoError(t, err)
		for _, raw := range all {
			var problem core.Problem
			require.NoError(t, json.Unmarshal(raw, &problem))
			found = append(found, problem)
		}
		return found
	}
	for name, c := range map[string]struct {
		failure  error
		reported int
	}{
		"away": {
			fault.ModelUnavailable.At("call chat model", "http://m/v1 model m").Because("connection refused"), 1,
		},
		"rate limited": {fault.ModelRateLimited.At("call chat model", "http://m/v1 model m"), 0},
	} {
		telling, shown := (*upkeep.Run).WithTrouble(run, t.Context(), "extract/7")
		calls := 0
		err := retry.Do(telling, func(context.Context) error {
			if calls++; calls == 1 {
				return c.failure
			}
			found := problems()
			assert.True(t, len(found) == c.reported && shown() == (c.reported > 0), "%s: while it is repeated: %+v", name, found)
			if c.reported > 0 && (found[0].Object != "extract" || !strings.Contains(found[0].Detail, "http://m/v1") ||
				!strings.Contains(found[0].Detail, "connection refused")) {
				t.Errorf("%s: %+v", name, found[0])
			}
			return nil
		})
		if err != nil || calls != 2 || len(problems()) != 0 || shown() {
			t.Errorf("%s: %v after %d calls, then %+v", name, err, calls, problems())
		}
	}
}
