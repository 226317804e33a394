package workflows_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/workflows"
)

// fake stands for the activities of a build: it records calls and answers what a small corpus would.
type fake struct {
	mu      sync.Mutex
	calls   map[string]int
	shards  []int
	fail    map[string][]error // errors of the first calls of an activity
	ended   []workflows.End
	planned workflows.Planned
	outcome workflows.Outcome
}

func newFake(shards ...int) *fake {
	return &fake{
		calls:   map[string]int{},
		shards:  shards,
		fail:    map[string][]error{},
		planned: workflows.Planned{Units: 2, Documents: 10},
		outcome: workflows.Outcome{Status: "completed"},
	}
}

func (f *fake) call(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[name]++
	if e := f.fail[name]; len(e) > 0 {
		f.fail[name] = e[1:]
		return e[0]
	}
	return nil
}

func (f *fake) register(env *testsuite.TestWorkflowEnvironment) {
	reg := func(name string, fn any) { env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name}) }
	reg(workflows.TakeLease, func(context.Context, workflows.Build) (int64, error) { return 7, f.call("TakeLease") })
	reg(workflows.PlanBuild, func(context.Context, workflows.Build) (workflows.Planned, error) {
		return f.planned, f.call("PlanBuild")
	})
	reg(workflows.BeginStage, func(context.Context, workflows.StageState) error { return f.call("BeginStage") })
	reg(workflows.SealChunks, func(context.Context, workflows.Build) (workflows.Chunked, error) {
		n := int64(0)
		for _, s := range f.shards {
			n += int64(s)
		}
		return workflows.Chunked{Shards: f.shards, Chunks: n}, f.call("SealChunks")
	})
	reg(workflows.SealExtraction, func(context.Context, workflows.Build) (workflows.Extracted, error) {
		return workflows.Extracted{Partitions: 2}, f.call("SealExtraction")
	})
	for _, n := range []string{
		workflows.ChunkDocuments, workflows.ExtractChunks, workflows.SealShard, workflows.EstimateShard, workflows.ReducePartition, workflows.ShortenPartition,
		workflows.EmbedPart, workflows.LoadPart, workflows.WriteSegments, workflows.VerifyPart, workflows.CollectGarbage,
	} {
		reg(n, func(_ context.Context, u workflows.Unit) (workflows.UnitResult, error) {
			if u.Fence != 7 {
				return workflows.UnitResult{}, errors.New("no fence")
			}
			return workflows.UnitResult{Done: 1}, f.call(n)
		})
	}
	reg(workflows.PublishBuild, func(context.Context, workflows.Unit) (workflows.Outcome, error) {
		return f.outcome, f.call("PublishBuild")
	})
	reg(workflows.EndBuild, func(_ context.Context, e workflows.End) error {
		f.mu.Lock()
		f.ended = append(f.ended, e)
		f.mu.Unlock()
		return f.call("EndBuild")
	})
	reg(workflows.SetPaused, func(context.Context, workflows.Build, bool) error { return f.call("SetPaused") })
}

func run(
	t *testing.T,
	f *fake,
	build workflows.Build,
	before func(*testsuite.TestWorkflowEnvironment),
) (workflows.Outcome, error) {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	env := s.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	f.register(env)
	workflows.Register(env)
	if before != nil {
		before(env)
	}
	build.Index, build.Generation, build.Heartbeat = "i", "g", time.Minute
	env.ExecuteWorkflow(workflows.BuildIndexName, build)
	if !env.IsWorkflowCompleted() {
		t.Fatal("the build did not end")
	}
	var out workflows.Outcome
	err := env.GetWorkflowError()
	if err == nil {
		err = env.GetWorkflowResult(&out)
	}
	return out, err
}

func TestABuildRunsEveryStageOnce(t *testing.T) {
	f := newFake(130, 64)
	out, err := run(t, f, workflows.Build{}, nil)
	if err != nil || out.Status != "completed" {
		t.Fatal(out, err)
	}
	want := map[string]int{
		"TakeLease":        1,
		"PlanBuild":        1,
		"ChunkDocuments":   2,
		"SealChunks":       1,
		"ExtractChunks":    4,
		"SealShard":        2,
		"SealExtraction":   1,
		"ReducePartition":  2,
		"ShortenPartition": 2,
		"EmbedPart":        4,
		"LoadPart":         4,
		"WriteSegments":    1,
		"VerifyPart":       4,
		"PublishBuild":     1,
		"CollectGarbage":   1,
		"EndBuild":         1,
	}
	for n, w := range want {
		if f.calls[n] != w {
			t.Errorf("%s ran %d times, want %d", n, f.calls[n], w)
		}
	}
}

func TestAnUnchangedCorpusDoesNothingAfterPlan(t *testing.T) {
	f := newFake()
	f.planned = workflows.Planned{Unchanged: true}
	if out, err := run(t, f, workflows.Build{}, nil); err != nil || out.Status != "completed" {
		t.Fatal(out, err)
	}
	if f.calls["ChunkDocuments"]+f.calls["PublishBuild"]+f.calls["CollectGarbage"] != 0 || !f.ended[0].Unchanged {
		t.Errorf("calls %v, end %+v", f.calls, f.ended)
	}
}

func TestADryRunPaysAndPublishesNothing(t *testing.T) {
	f := newFake(100)
	if out, err := run(t, f, workflows.Build{DryRun: true}, nil); err != nil || out.Reason != "dry_run" {
		t.Fatal(out, err)
	}
	if f.calls["EstimateShard"] != 1 || f.calls["ExtractChunks"]+f.calls["LoadPart"]+f.calls["PublishBuild"] != 0 {
		t.Errorf("calls %v", f.calls)
	}
}

func TestAHeldBuildIsNotCollected(t *testing.T) {
	f := newFake(10)
	f.outcome = workflows.Outcome{Status: "held", Reason: "mass_deletion"}
	if out, err := run(t, f, workflows.Build{}, nil); err != nil || out.Status != "held" ||
		out.Reason != "mass_deletion" {
		t.Fatal(out, err)
	}
	if f.calls["CollectGarbage"] != 0 {
		t.Error("it was collected")
	}
}

func fatal(code string) error {
	return temporal.NewApplicationErrorWithOptions(
		code,
		code,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{"ref.json"}},
	)
}

func TestAFatalModelErrorPausesAndResumeGoesOn(t *testing.T) {
	f := newFake(200)
	f.fail["ExtractChunks"] = []error{nil, fatal("model_auth")}
	out, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			if n := len(f.ended); n != 1 || f.ended[0].Status != "paused" || f.ended[0].Reason != "model_auth" ||
				f.ended[0].Ref != "ref.json" {
				t.Errorf("before resume: %+v", f.ended)
			}
			env.UpdateWorkflow(
				workflows.UpdateResume,
				"",
				&testsuite.TestUpdateCallback{
					OnAccept: func() {},
					OnReject: func(err error) { t.Error(err) },
					OnComplete: func(_ any, err error) {
						if err != nil {
							t.Error(err)
						}
					},
				},
			)
		}, time.Hour)
	})
	if err != nil || out.Status != "completed" {
		t.Fatal(out, err)
	}
	if last := f.ended[len(f.ended)-1]; last.Status != "completed" {
		t.Errorf("end %+v", last)
	}
}

func TestABadCorpusFailsWithItsCode(t *testing.T) {
	f := newFake(10)
	f.fail["PlanBuild"] = []error{fatal("corpus_empty")}
	out, err := run(t, f, workflows.Build{}, nil)
	if err != nil || out.Status != "failed" || out.Reason != "corpus_empty" {
		t.Fatal(out, err)
	}
}

func TestACancelledBuildRecordsItsEnd(t *testing.T) {
	f := newFake(10)
	f.fail["ReducePartition"] = []error{fatal("model_quota"), fatal("model_quota")}
	_, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
	})
	if err == nil {
		t.Fatal("no error")
	}
	if last := f.ended[len(f.ended)-1]; last.Status != "cancelled" {
		t.Errorf("end %+v", last)
	}
}

// A stage of 200 shards: the events of its history, counted as the server does (scheduled, started, completed of each
// child and the workflow tasks between), stay far below the limit, and continue-as-new neither loses nor repeats a
// shard.
func TestAStageOf200ShardsContinuesAsNewWithoutLoss(t *testing.T) {
	seen := map[int]int{}
	in := workflows.StageInput{Stage: "extract", Units: 200, Window: 4, Sizes: make([]int, 200)}
	for i := range in.Sizes {
		in.Sizes[i] = 5000
	}
	in.Index, in.Generation, in.Heartbeat = "i", "g", time.Minute
	rounds := 0
	for {
		rounds++
		var s testsuite.WorkflowTestSuite
		env := s.NewTestWorkflowEnvironment()
		workflows.Register(env)
		n := 0
		env.OnWorkflow(workflows.ShardName, mock.Anything, mock.Anything).
			Return(func(_ workflow.Context, input workflows.ShardInput) (workflows.UnitResult, error) {
				seen[input.Shard]++
				if n++; n == 60 { // what the server says at 4,096 events or 4 MB
					env.SetContinueAsNewSuggested(true)
				}
				return workflows.UnitResult{Done: int64(input.Chunks)}, nil
			})
		env.ExecuteWorkflow(workflows.StageName, in)
		err := env.GetWorkflowError()
		var can *workflow.ContinueAsNewError
		if errors.As(err, &can) {
			if err := converter.GetDefaultDataConverter().FromPayloads(can.Input, &in); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var out workflows.UnitResult
		if err := env.GetWorkflowResult(&out); err != nil || out.Done != 200*5000 {
			t.Fatal(out, err)
		}
		break
	}
	if rounds < 3 {
		t.Errorf("%d rounds: continue-as-new was not taken", rounds)
	}
	for i := range 200 {
		if seen[i] != 1 {
			t.Errorf("shard %d ran %d times", i, seen[i])
		}
	}
	const perChild, perTask = 3, 3 // initiated, started, completed; scheduled, started, completed
	if events := 200 * (perChild + 2*perTask); events >= 10_000 {
		t.Errorf("200 shards make %d events", events)
	}
	if events := 79*(3+2*perTask) + 20; events >= 4096 {
		t.Errorf("a shard of 79 batches makes %d events", events)
	}
}
