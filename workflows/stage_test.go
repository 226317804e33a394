package workflows_test

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/workflows"
)

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
	seen, in := map[int]int{}, stageOf200()
	rounds := 0
	for {
		rounds++
		n, env := 0, environment(newFake(), nil)
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
	in, env := stageOf200(), environment(newFake(), nil)
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
	got, env := map[int]workflows.ShardInput{}, environment(newFake(), nil)
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
	assert.True(t, reflect.DeepEqual(in.Partial, []workflows.ShardLeft{left}) && 0 < in.Done && in.Done < 150 &&
		in.Pending[0].From == int(in.Done),
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

// fullFleet is 100 workers of 64 slots before a model server that takes 6,400 calls at once.
var fullFleet = workflows.Capacity{Workers: 100, Slots: 6400, CPU: 400, Chat: 6400, Embed: 6400}

var smallest = workflows.Capacity{Workers: 1, Slots: 1, CPU: 1, Chat: 6400}

// moment is when calls began or ended, by the workflow's clock.
type moment struct {
	at   time.Time
	more int
}

// plant stands for the workers of a stage: as many as take what is begun, at the pace of a model.
type plant struct {
	mu       sync.Mutex
	began    time.Time
	batches  []moment // activities
	calls    []moment // of the model
	runs     map[[2]int]int
	looks    int
	places   times
	capacity func(since time.Duration) (workflows.Capacity, error)
}

// times is a heap of when places of the model are free again.
type times []time.Time

func (h times) Len() int           { return len(h) }
func (h times) Less(i, j int) bool { return h[i].Before(h[j]) }
func (h times) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *times) Push(x any)        { *h = append(*h, x.(time.Time)) }
func (h *times) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// place returns when a call that comes now has a place among those of the model: first come, first served.
func (p *plant) place(now time.Time) time.Time {
	if p.places.Len() < fullFleet.Chat {
		return now
	}
	if free := heap.Pop(&p.places).(time.Time); free.After(now) {
		return free
	}
	return now
}

// in has the activities of a stage take their time.
func (p *plant) in(env *testsuite.TestWorkflowEnvironment, name string, calls int) {
	random := rand.New(rand.NewPCG(1, 2))
	takes := func() time.Duration {
		p.mu.Lock()
		defer p.mu.Unlock()
		now, longest := env.Now(), time.Duration(0)
		for range calls {
			took := 5*time.Second + time.Duration(random.Int64N(int64(10*time.Second)))
			free := p.place(now)
			ends := free.Add(took)
			heap.Push(&p.places, ends)
			longest = max(longest, ends.Sub(now))
			p.calls = append(p.calls, moment{free, 1}, moment{ends, -1})
		}
		longest += time.Second // it reads and stores
		p.batches = append(p.batches, moment{now, 1}, moment{now.Add(longest), -1})
		return longest
	}
	env.OnActivity(name, mock.Anything, mock.Anything).AfterFn(takes).
		Return(func(_ context.Context, u workflows.Unit) (workflows.UnitResult, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.runs[[2]int{u.N, u.Batch}]++
			return workflows.UnitResult{Done: 1}, nil
		})
	env.OnActivity(workflows.SealShard, mock.Anything, mock.Anything).After(3*time.Second).
		Return(workflows.UnitResult{}, nil)
	env.OnActivity(workflows.MeasureFleet, mock.Anything, mock.Anything).
		Return(func(context.Context, workflows.Build) (workflows.Capacity, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.looks++
			return p.capacity(env.Now().Sub(p.began))
		})
	p.began = env.Now()
}

// most returns the largest number in flight from a time on, until another.
func most(of []moment, from, to time.Time) (most int) {
	running := 0
	for _, m := range ordered(of) {
		if m.at.After(to) {
			break
		}
		if running += m.more; !m.at.Before(from) {
			most = max(most, running)
		}
	}
	return most
}

// filled returns which part of so many places is in use from a time on, until another.
func filled(of []moment, places int, from, to time.Time) float64 {
	running, last, sum := 0, from, 0.0
	for _, m := range ordered(of) {
		if at := m.at; at.After(last) {
			if at.After(to) {
				at = to
			}
			sum += float64(min(running, places)) * at.Sub(last).Seconds()
			last = at
		}
		running += m.more
	}
	return sum / float64(places) / to.Sub(from).Seconds()
}

func ordered(of []moment) []moment {
	return slices.SortedStableFunc(slices.Values(of), func(a, b moment) int {
		if by := a.at.Compare(b.at); by != 0 {
			return by
		}
		return a.more - b.more
	})
}

func extraction(shards int) workflows.StageInput {
	in := workflows.StageInput{Stage: "extract", Units: shards, Sizes: make([]int, shards)}
	for i := range in.Sizes {
		in.Sizes[i] = 5000
	}
	in.Index, in.Generation, in.Fence, in.Shape = "i", "g", fence, workflows.DefaultShape()
	return in
}

// executeActivity runs a stage over a fleet and gives how long it took.
func executeActivity(
	t *testing.T, in workflows.StageInput, capacity func(since time.Duration) (workflows.Capacity, error),
) (*plant, workflows.StageResult, time.Time) {
	env := environment(newFake(), nil)
	p, name, calls := &plant{runs: map[[2]int]int{}, capacity: capacity}, in.Activity, 8
	if name == "" {
		name, calls = workflows.ExtractChunks, 64
	}
	p.in(env, name, calls)
	env.ExecuteWorkflow(workflows.StageName, in)
	out := musttest.Get(result[workflows.StageResult](env))(t)
	for unit, runs := range p.runs {
		assert.Equal(t, 1, runs, "%v ran", unit)
	}
	return p, out, env.Now()
}

func always(c workflows.Capacity) func(time.Duration) (workflows.Capacity, error) {
	return func(time.Duration) (workflows.Capacity, error) { return c, nil }
}

func (p *plant) complete(t *testing.T, shards int) { assert.Len(t, p.runs, shards*79) }

// Shards are full, or as small as PDFs make them.
func TestExtractionFillsTheModelOfAFleet(t *testing.T) {
	for size, c := range map[int]struct{ shards, batches int }{5000: {40, 40 * 79}, 512: {200, 1600}} {
		in := extraction(c.shards)
		for i := range in.Sizes {
			in.Sizes[i] = size
		}
		p, _, _ := executeActivity(t, in, always(fullFleet))
		assert.Len(t, p.runs, c.batches)
		from, to := p.began.Add(20*time.Second), p.began.Add(time.Minute)
		part, atOnce := filled(p.calls, 6400, from, to), most(p.batches, from, to)
		assert.True(t, part >= 0.95, "shards of %d: %.1f %% of the model's places are filled", size, 100*part)
		assert.True(t, size != 5000 || atOnce <= 6400*5/2/64, "%d batches at once: more than keeps the model full", atOnce)
	}
}

// Where fewer shards are left than extraction is spread over, they have all that is wanted between them.
// Promises: 119.
func TestFewShardsShareTheWindowOfAll(t *testing.T) {
	three := workflows.Capacity{Workers: 3, Slots: 192, CPU: 12, Chat: 48}
	for shards, want := range map[int]int{1: 24, 2: 24, 3: 24, 4: 24, 5: 24} {
		p, _, end := executeActivity(t, extraction(shards), always(three))
		p.complete(t, shards)
		atOnce := most(p.batches, p.began, end)
		if atOnce < want || atOnce > want*3/2 { // and ends of shards, which count half
			t.Errorf("%d batches of %d shards at once, want %d", atOnce, shards, want)
		}
		if part := filled(p.batches, want, p.began, lastBegun(p)); part < 0.9 {
			t.Errorf("while batches of %d shards are left, %.1f %% of the window are in flight", shards, 100*part)
		}
	}
}

func lastBegun(p *plant) (last time.Time) {
	for _, m := range p.batches {
		if m.more > 0 && m.at.After(last) {
			last = m.at
		}
	}
	return last
}

func TestAFleetShrinksToOneInMidBuild(t *testing.T) {
	shrinks := time.Minute
	p, _, end := executeActivity(t, extraction(30), func(since time.Duration) (workflows.Capacity, error) {
		if since >= shrinks {
			return smallest, nil
		}
		return fullFleet, nil
	})
	p.complete(t, 30)
	atOnce := most(p.batches, p.began, p.began.Add(shrinks))
	assert.True(t, atOnce >= 150, "%d batches at once before", atOnce)
	// A look follows within 60 s, and what was begun ends soon. Shards with nothing more to begin count half.
	atOnce = most(p.batches, p.began.Add(shrinks+2*time.Minute), end)
	assert.True(t, atOnce <= 4, "%d batches at once after", atOnce)
}

func TestAFleetGrowsInMidBuild(t *testing.T) {
	grows := time.Minute
	p, _, _ := executeActivity(t, extraction(60), func(since time.Duration) (workflows.Capacity, error) {
		if since < grows {
			return smallest, nil
		}
		return fullFleet, nil
	})
	p.complete(t, 60)
	atOnce := most(p.batches, p.began, p.began.Add(grows))
	assert.True(t, atOnce <= 2, "%d batches at once before", atOnce)
	from := p.began.Add(grows + 80*time.Second)
	part := filled(p.calls, 6400, from, from.Add(time.Minute))
	assert.True(t, part >= 0.95, "%.1f %% of the model's places are filled after", 100*part)
}

// A fleet that cannot be measured is worked with as it always was; what was known stands when it cannot be any more.
func TestWithoutAMeasureWindowsAreAsUsual(t *testing.T) {
	unknown := func(time.Duration) (workflows.Capacity, error) { return workflows.Capacity{}, fatal("store_down") }
	p, _, end := executeActivity(t, extraction(8), unknown)
	p.complete(t, 8)
	if atOnce := most(p.batches, p.began, end); atOnce < 24 || atOnce > 36 {
		t.Errorf("%d batches at once of a fleet that is not known, want 24, and ends of shards", atOnce)
	}
	p, _, _ = executeActivity(t, extraction(30), func(since time.Duration) (workflows.Capacity, error) {
		if since > 0 {
			return workflows.Capacity{}, fatal("store_down")
		}
		return fullFleet, nil
	})
	atOnce := most(p.batches, p.began.Add(time.Minute), p.began.Add(2*time.Minute))
	assert.True(t, atOnce >= 150, "%d batches at once after the store went", atOnce)
}

func TestOtherStagesFollowTheFleet(t *testing.T) {
	one := workflows.Capacity{Workers: 1, Slots: 64, CPU: 2, Chat: 64, Embed: 64}
	wide := workflows.Capacity{Workers: 5000, Slots: 320_000, CPU: 40_000, Chat: 100_000, Embed: 100_000}
	for _, c := range []struct {
		stage    string
		capacity workflows.Capacity
		want     int
	}{
		{"chunk", one, 8},
		{"reduce", workflows.Capacity{Workers: 10, Slots: 100, CPU: 80, Computing: 90}, 180}, // slots are another queue's
		{"reduce", workflows.Capacity{Slots: 0, Computing: 1}, 2},
		{"chunk", workflows.Capacity{Workers: 10, Slots: 640, CPU: 80, Computing: 4000}, 400},
		{"chunk", workflows.Capacity{Workers: 10, Slots: 640, CPU: 80}, 8}, // no worker polls their queue
		{"embed", one, 14},
		{"embed", workflows.Capacity{Workers: 10, Slots: 640, CPU: 80}, 160}, // the built-in embedder
		{"shorten", one, 8},
		{"shorten", workflows.Capacity{Workers: 10, Slots: 640, CPU: 80, Chat: 640}, 62},
		{"load", one, 4},
		{"verify", workflows.Capacity{Workers: 10, Slots: 640, CPU: 80}, 40},
		{"restore", wide, 400},
		{"repair", one, 4},
		{"repair", wide, 400},
		{"segment", workflows.Capacity{Workers: 1, Slots: 64, CPU: 2, Computing: 2}, 4},
		{"segment", one, 8}, // no worker polls their queue
		{"enrich", one, 4},
		{"enrich", workflows.Capacity{Workers: 10, Slots: 640, CPU: 80, Chat: 640}, 17},
		{"pay", wide, 1}, // a backfill's throttle counts one after another
	} {
		in := workflows.StageInput{Stage: c.stage, Activity: workflows.ReducePartition, Units: 500}
		in.Index, in.Generation, in.Fence, in.Shape = "i", "g", fence, workflows.DefaultShape()
		p, out, end := executeActivity(t, in, always(c.capacity))
		if atOnce := most(p.batches, p.began, end); atOnce != c.want || out.Done != 500 {
			t.Errorf("%s of %+v: %d at once, want %d; %d done", c.stage, c.capacity, atOnce, c.want, out.Done)
		}
	}
}

// What fits into the usual windows needs no measuring: a small build takes no longer for it.
func TestASmallStageMeasuresNothing(t *testing.T) {
	p, none, _ := executeActivity(t, extraction(0), always(fullFleet))
	assert.True(t, none.Done == 0 && none.Paused == "", "%+v", none)
	small := extraction(3)
	small.Sizes = []int{5, 900, 400}
	q, out, _ := executeActivity(t, small, always(fullFleet))
	assert.True(t, p.looks+q.looks == 0 && out.Done == 1+15+7, "%d looks, %d done", p.looks+q.looks, out.Done)
}

// Looks grow rarer while nothing changes: they leave the history its room.
func TestLooksAtTheFleetGrowRare(t *testing.T) {
	p, _, end := executeActivity(t, extraction(10), always(smallest))
	p.complete(t, 10)
	assert.LessOrEqual(t, most(p.batches, p.began, end), 2, "batches wait for one slot")
	took := end.Sub(p.began)
	seldom := int(took/(5*time.Minute)) + 6
	assert.True(t, p.looks <= seldom && p.looks >= 5, "%d looks in %s, want at most %d", p.looks, took, seldom)
}
