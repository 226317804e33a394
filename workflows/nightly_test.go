package workflows_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/workflows"
)

// nightly runs one night that is due at three o'clock.
func nightly(t *testing.T, f *fake, in workflows.Night) (workflows.NightOutcome, error) {
	t.Helper()
	env := environment(f, nil)
	env.SetStartTime(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC))
	in.Index, in.Shape, in.Heartbeat = "docs", workflows.DefaultShape(), time.Minute
	env.ExecuteWorkflow(workflows.NightlyName, in)
	if err := env.GetWorkflowError(); err != nil {
		return workflows.NightOutcome{}, err
	}
	var out workflows.NightOutcome
	return out, env.GetWorkflowResult(&out)
}

func TestANightBuildsAGenerationThatIsNamedAfterItsTime(t *testing.T) {
	f := newFake(10)
	out, err := nightly(t, f, workflows.Night{})
	want := workflows.NightOutcome{Run: "docs/20261122t030000z", Status: "completed"}
	assert.True(t, err == nil && out == want && f.lastEnd().Generation == "20261122t030000z", "%+v, %v; ended %+v", out,
		err, f.lastEnd())
}

func TestANightBesideABuildIsSkippedAndTellsWhy(t *testing.T) {
	f := newFake(10)
	f.builder = "docs/g7"
	out, err := nightly(t, f, workflows.Night{Skip: true})
	want := workflows.NightOutcome{Status: "skipped", Reason: workflows.ReasonRunning, By: "docs/g7"}
	assert.True(t, err == nil && out == want && f.count(workflows.TakeLease) == 0, "%+v, %v", out, err)
}

// A night whose configuration is gone, and one whose build fails, fail by their code, so that a schedule may pause.
func TestANightThatFailsTellsItsCode(t *testing.T) {
	gone := newFake(10)
	gone.fail[workflows.OpenNight] = []error{fatal("bad_config")}
	broken := newFake(10)
	broken.fail[workflows.TakeLease] = []error{fatal("lease_held")}
	for code, f := range map[string]*fake{"bad_config": gone, "lease_held": broken} {
		_, err := nightly(t, f, workflows.Night{})
		var failed *temporal.ApplicationError
		assert.True(t, errors.As(err, &failed) && failed.Type() == code && !strings.Contains(err.Error(), "broke"),
			"%s: %v", code, err)
	}
}
