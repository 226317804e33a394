package workflows_test

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/workflows"
)

// stageOf200 returns extraction of 200 full shards.
func stageOf200() workflows.StageInput {
	in := workflows.StageInput{Stage: "extract", Units: 200, Sizes: make([]int, 200)}
	for i := range in.Sizes {
		in.Sizes[i] = 5000
	}
	in.Index, in.Generation, in.Fence = "i", "g", fence
	return in
}

// next runs one run of a stage; again is whether it continued as new, with in changed to what it continues with.
func next(
	t *testing.T, env *testsuite.TestWorkflowEnvironment, in *workflows.StageInput,
) (workflows.StageResult, bool) {
	t.Helper()
	env.ExecuteWorkflow(workflows.StageName, *in)
	err := env.GetWorkflowError()
	var again *workflow.ContinueAsNewError
	if errors.As(err, &again) {
		*in = workflows.StageInput{}
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, in))
		return workflows.StageResult{}, true
	}
	var out workflows.StageResult
	if err == nil {
		err = env.GetWorkflowResult(&out)
	}
	require.NoError(t, err)
	return out, false
}

func TestAStageContinuesAsNewWithoutLoss(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]int{}
	in := stageOf200()
	rounds := 0
	for {
		rounds++
		n := 0
		env := environment(newFake(), nil)
		env.OnWorkflow(workflows.ShardName, mock.Anything, mock.Anything).
			Return(func(_ workflow.Context, input workflows.ShardInput) (workflows.StageResult, error) {
				mu.Lock()
				defer mu.Unlock()
				seen[input.Shard]++
				if n++; n == 60 { // what the server says at 4,096 events or 4 MB
					env.SetContinueAsNewSuggested(true)
				}
				return workflows.StageResult{Done: int64(input.Chunks)}, nil
			})
		out, again := next(t, env, &in)
		if again {
			continue
		}
		require.True(t, out.Done == 200*5000 && out.Paused == "" && len(out.Pending) == 0, "%+v", out)
		break
	}
	assert.True(t, rounds >= 3, "%d rounds: continue-as-new was not taken", rounds)
	for i := range 200 {
		assert.Equal(t, 1, seen[i], "shard %d ran", i)
	}
}

// A pause and a long history at once: the pause is reported, what is left is in it.
func TestAStageThatPausesDoesNotContinueAsNew(t *testing.T) {
	in := stageOf200()
	env := environment(newFake(), nil)
	env.OnWorkflow(workflows.ShardName, mock.Anything, mock.Anything).
		Return(func(_ workflow.Context, input workflows.ShardInput) (workflows.StageResult, error) {
			if input.Shard == 10 {
				env.SetContinueAsNewSuggested(true)
				left := []workflows.UnitRange{{From: 3, To: 5}, {From: 70, To: 79}}
				return workflows.StageResult{Done: 68, Paused: "model_quota", Ref: "ref.json", Pending: left}, nil
			}
			return workflows.StageResult{Done: 79}, nil
		})
	out, again := next(t, env, &in)
	require.True(t, !again && out.Paused == "model_quota" && out.Ref == "ref.json", "again %v, %+v", again, out)
	left, done := 0, int64(0)
	for _, r := range out.Pending {
		left += r.To - r.From
	}
	if done = int64(200-left)*79 + 68; out.Done != done || out.Pending[0].From != 10 || left < 100 {
		t.Errorf("done %d of %d, pending %v", out.Done, done, out.Pending)
	}
	assert.True(t, len(out.Partial) == 1 && out.Partial[0].Shard == 10 && len(out.Partial[0].Pending) == 2,
		"partial %+v", out.Partial)
}

// What a pause leaves is enough to go on with, and small, whatever the corpus.
func TestAShardGoesOnWithItsPendingBatches(t *testing.T) {
	in := stageOf200()
	in.Pending = []workflows.UnitRange{{From: 10, To: 12}}
	in.Partial = []workflows.ShardLeft{{Shard: 10, Pending: []workflows.UnitRange{{From: 78, To: 79}}}}
	in.Done = 1000
	var mu sync.Mutex
	got := map[int]workflows.ShardInput{}
	env := environment(newFake(), nil)
	env.OnWorkflow(workflows.ShardName, mock.Anything, mock.Anything).
		Return(func(_ workflow.Context, input workflows.ShardInput) (workflows.StageResult, error) {
			mu.Lock()
			defer mu.Unlock()
			got[input.Shard] = input
			return workflows.StageResult{Done: 1}, nil
		})
	out, _ := next(t, env, &in)
	require.True(t, out.Done == 1002 && len(got) == 2, "%+v, %+v", out, got)
	assert.True(t, got[10].Begun && reflect.DeepEqual(got[10].Pending, in.Partial[0].Pending), "shard 10: %+v", got[10])
	assert.True(t, !got[11].Begun && got[11].Pending == nil, "shard 11: %+v", got[11])
}

// A stage may continue as new before a shard's turn comes again: what is left of it travels along.
func TestContinueAsNewKeepsWhatIsLeftOfShards(t *testing.T) {
	in := stageOf200()
	in.Shape.Windows.Extract = 1
	left := workflows.ShardLeft{Shard: 150, Pending: []workflows.UnitRange{{From: 7, To: 9}}}
	in.Partial = []workflows.ShardLeft{left, {Shard: 0}}
	env := environment(newFake(), nil)
	env.OnWorkflow(workflows.ShardName, mock.Anything, mock.Anything).
		Return(func(workflow.Context, workflows.ShardInput) (workflows.StageResult, error) {
			env.SetContinueAsNewSuggested(true)
			return workflows.StageResult{Done: 1}, nil
		})
	_, again := next(t, env, &in)
	require.True(t, again, "it did not continue as new")
	assert.True(t, reflect.DeepEqual(in.Partial, []workflows.ShardLeft{left}) && in.Done == 1 && in.Pending[0].From == 1,
		"partial %+v, done %d, pending %v", in.Partial, in.Done, in.Pending)
}

func TestAShardOfWhichOnlyTheSealIsLeftPaysNothing(t *testing.T) {
	f := newFake()
	env := environment(f, nil)
	in := workflows.ShardInput{Shard: 3, Chunks: 5000, Begun: true}
	in.Index, in.Generation, in.Fence = "i", "g", fence
	env.ExecuteWorkflow(workflows.ShardName, in)
	require.NoError(t, env.GetWorkflowError())
	assert.True(t, f.count(workflows.ExtractChunks) == 0 && f.count("SealShard 3") == 1, "calls %v", f.calls)
	assert.Equal(t, 79, f.units[0].Batch, "the shard count that the seal got")
}

func TestAStageKeepsItsWindow(t *testing.T) {
	in := stageOf200()
	in.Shape.Windows.Extract, in.Shape.ShardWindow = 7, 6
	var mu sync.Mutex
	running, most := 0, 0
	env := environment(newFake(), nil)
	env.OnWorkflow(workflows.ShardName, mock.Anything, mock.Anything).
		Return(func(ctx workflow.Context, _ workflows.ShardInput) (workflows.StageResult, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			err := workflow.Sleep(ctx, time.Minute)
			mu.Lock()
			running--
			mu.Unlock()
			return workflows.StageResult{}, err
		})
	_, again := next(t, env, &in)
	assert.True(t, !again && most == 7, "%d shards at once, want 7", most)
}

func TestAStageWithoutUnitsEnds(t *testing.T) {
	in := workflows.StageInput{Stage: "reduce", Activity: workflows.ReducePartition}
	out, again := next(t, environment(newFake(), nil), &in)
	assert.True(t, !again && out.Done == 0 && out.Paused == "", "%+v", out)
}
