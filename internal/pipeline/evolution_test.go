package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// chemist is a paid model that counts what it is asked, by the text and by whether the prompt has types.
type chemist struct {
	mu    sync.Mutex
	asked map[string]int
}

func (a *chemist) Info() model.Info { return model.Info{Provider: "openai", Model: "m", Paid: true} }

func (a *chemist) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task != model.Extract {
		return builtin.Chat{}.Complete(ctx, call)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[call.System+"\n"+call.Input]++
	name, _, _ := strings.Cut(call.Input, " ")
	kind := "none"
	for _, one := range []string{"Drug", "City"} {
		if strings.Contains(call.System, one) && strings.Contains(call.Input, strings.ToLower(one)) {
			kind = one
		}
	}
	raw, err := json.Marshal(map[string]any{"entities": []map[string]string{{"name": name, "type": kind, "description": ""}}})
	return model.Reply{Text: string(raw), Usage: model.Usage{Prompt: 10, Completion: 5}}, err
}

// evolving gives a site the model, and documents of one passage each: of drugs, cities and neither.
func evolving(t *testing.T) (*site, *chemist) {
	files := map[string]string{}
	for i := range 4 {
		files[fmt.Sprintf("drug%d.txt", i)] = fmt.Sprintf("Pharmakon%d is a drug against number %d.\n", i, i)
		files[fmt.Sprintf("city%d.txt", i)] = fmt.Sprintf("Urbs%d is a city with %d gates.\n", i, i)
		files[fmt.Sprintf("rest%d.txt", i)] = fmt.Sprintf("Res%d is neither, number %d.\n", i, i)
	}
	files["seven.txt"] = "Heptan is named by an example.\n"
	s, paid := newSite(t, files), &chemist{asked: map[string]int{}}
	steady(s)
	s.spec.Chat = core.ChatModel{Provider: "openai", Model: "m"}
	s.spec.Gate.MaxRemoved = 1
	s.Models = func(core.Spec, model.Meter) (model.Set, error) {
		embedder := &stagetest.Embedder{Dim: 8, Free: true}
		return model.Set{Chat: paid, Classes: embedder, Chunks: embedder}, nil
	}
	return s, paid
}

func (s *site) wants(apply string, types ...string) {
	s.spec.Extraction = &core.Extraction{Share: 1, Types: types, Apply: apply}
	if len(types) > 0 && types[0] == "Drug" {
		s.spec.Extraction.Examples = `[{"text":"a","entities":[{"name":"Heptan","type":"Drug","description":""}]}]`
	}
}

// estimatedNight builds what is configured, as it was estimated, and returns the calls, and those of each choice.
func (s *site) estimatedNight(t *testing.T, paid *chemist) (out outcome, calls int, choices *core.ApplyCalls) {
	t.Helper()
	restart(s)
	before := len(paid.asked)
	expected := estimated(t, s.estimating()).Estimate
	out = s.night(t)
	calls = len(paid.asked) - before
	assert.Equal(t, float64(calls), expected.Extract.High, "the estimate differs from the build")
	for asked, times := range paid.asked {
		assert.Equal(t, 1, times, "paid twice: %s", asked)
	}
	return out, calls, expected.ApplyTo
}

// Types may come, go and change, from now on, where they are named, or everywhere: each choice costs what the estimate
// says, nothing is paid for twice, and nights leave it at what was chosen.
// Promises: 151.
func TestTypesEvolve(t *testing.T) {
	s, paid := evolving(t)
	_, calls, choices := s.estimatedNight(t, paid)
	require.True(t, calls == 13 && choices == nil, "%d calls, %+v", calls, choices)
	for i, step := range []struct {
		apply, types string
		added        bool
		calls        int
		choices      string
		drugs        int // passages of drugs that are typed
	}{
		{"new", "Drug", false, 0, "{All:13 New:0 Mentions:5}", 0},
		{"", "Drug", true, 1, "-", 1},                                  // a night: the new passage alone
		{"mentions", "Drug", false, 5, "{All:13 New:0 Mentions:5}", 5}, // and the example's name
		{"", "Drug", true, 1, "-", 6},
		{"new", "Drug City", false, 0, "{All:15 New:0 Mentions:4}", 6},
		{"mentions", "Drug City", false, 4, "{All:15 New:0 Mentions:4}", 6},
		{"new", "Drug", false, 0, "{All:8 New:0 Mentions:4}", 6}, // back again: seven were asked so
		{"all", "Drug", false, 8, "{All:8 New:0 Mentions:4}", 6},
		{"", "Drug", false, 0, "-", 6},
	} {
		s.wants(step.apply, strings.Fields(step.types)...)
		if step.added {
			s.write(t, map[string]string{fmt.Sprintf("more%d.txt", i): fmt.Sprintf("Novum%d is a drug, too.\n", i)})
		}
		out, calls, choices := s.estimatedNight(t, paid)
		got := "-"
		if choices != nil {
			got = fmt.Sprintf("%+v", *choices)
		}
		assert.True(t, calls == step.calls && got == step.choices, "step %d: %d calls, %s", i, calls, got)
		drugs := 0
		for _, kind := range typesOf(t, s) {
			if kind == "Drug" {
				drugs++
			}
		}
		assert.Equal(t, step.drugs, drugs, "step %d: %v", i, typesOf(t, s))
		spec := must(s.index().Spec(t.Context(), out.manifest.Spec))(t)
		assert.True(t, out.planned.Unchanged || spec.ApplyTo() == step.apply, "step %d: the settings are not as asked", i)
	}
}

// What is left as it was survives a rollback, a branch and another installation; a purge finds what was paid by an
// earlier request, and so does the account of what the index cost.
func TestEarlierRequestsAreKept(t *testing.T) {
	s, paid := evolving(t)
	s.night(t)
	s.wants("new", "Drug")
	second, _, _ := s.estimatedNight(t, paid)
	third := s.changed(t)
	must(s.act(t, "rollback", second.manifest.Generation))(t)
	s.wants("", "Drug")
	before := len(paid.asked)
	for _, where := range []*site{s, s.copied(t)} {
		restart(where)
		where.spec.Corpus = s.spec.Corpus
		out := where.night(t)
		require.NotNil(t, out.manifest.Extraction)
		assert.True(t, out.manifest.Extraction.Same(*second.manifest.Extraction) && third.manifest != nil, "%+v", out)
	}
	assert.Len(t, paid.asked, before, "what was paid for is paid for again")
	in := s.estimating()
	in.Accounts = true
	spent := estimated(t, in).IndexTokens
	assert.Equal(t, 10*s.current(t).Counts.Chunks, spent.Prompt, "what earlier requests cost is not counted")
	s.purge(t, "drug1.txt")
	restart(s)
	s.night(t)
	assert.Empty(t, s.holding(t, "Pharmakon1"))
}

// A run that goes on, or begins anew, chooses as it began, whatever others paid for meanwhile.
// Promises: 151.
func TestWhatOthersPayForDecidesNothing(t *testing.T) {
	s, paid := evolving(t)
	s.night(t)
	s.write(t, map[string]string{"late.txt": "Tarde is a drug, too.\n"})
	other := *s // another index of the store that asks the late passage by the earlier request
	other.spec.Index, other.spec.Extraction, other.runs = "other", nil, 0
	s.wants("new", "Drug")
	once := sync.OnceFunc(func() { other.night(t) })
	s.before = func(stage string) {
		if stage == "extract" {
			s.before = nil
			once()
		}
	}
	out := s.night(t)
	types := typesOf(t, s)
	assert.Equal(t, "Drug", types["tarde"], "%v", types)
	counts := maps.Clone(paid.asked)
	job, _ := s.leased(t)
	for _, anew := range []string{"", "untold"} {
		job.Anew, job.Rebuild = anew, anew != ""
		require.NoError(t, s.unit(t.Context(), job, "plan", func(ctx context.Context, work *upkeep.Run) error {
			planned, err := work.Plan(ctx)
			assert.Empty(t, planned.Spec, "the run goes on by other settings than were asked for")
			fixed := must(work.ReadPlan(ctx))(t)
			assert.True(t, fixed.Extraction.Same(*out.manifest.Extraction), "%q: %+v", anew, fixed.Extraction)
			return err
		}))
	}
	assert.Equal(t, counts, paid.asked)
}

// A build that trusts nothing of its parent leaves passages as they were all the same, but for those whose former
// extraction cannot be read: these are asked by the current request.
func TestARebuildLeavesPassagesAsTheyWere(t *testing.T) {
	s, paid := evolving(t)
	s.shard = 5
	s.night(t)
	s.wants("new", "Drug")
	before := len(paid.asked)
	restart(s)
	must(s.try(t, &how{rebuild: true}))(t)
	assert.Len(t, paid.asked, before)
	lost := s.current(t).Segments.Extract[0]
	must(blob.Write(t.Context(), s.Artifacts, s.index().SegmentKey(lost.SHA256), make([]byte, lost.Bytes), blob.Cond{}))(t)
	s.write(t, map[string]string{"drug0.txt": "Pharmakon0 is a drug against number 9.\n"})
	restart(s)
	way := &how{}
	out := must(s.try(t, way))(t)
	asked := int64(len(paid.asked) - before)
	assert.True(t, asked > 1 && asked <= lost.Rows+1 && !out.manifest.Extraction.IsEmpty(), "%d asked, %+v", asked, way)
}

// What keeps an earlier request is in no batch, and is not paid for again.
func TestBatchesHaveWhatIsAskedNowAlone(t *testing.T) {
	s := batchSite(t, 20, modeltest.BatchFaults{})
	s.night(t)
	s.wants("new", "Drug")
	for i := range 3 {
		s.write(t, map[string]string{fmt.Sprintf("late%d.md", i): fmt.Sprintf("# Late %d\n\nThe barge Alma%d carried rye.\n", i, i)})
	}
	out := s.night(t)
	stats := s.server.Stats()
	assert.True(t, out.batched.Requests == 3 && stats.Extract == 23 && stats.Duplicates == 0, "%+v, %+v", out.batched, stats)
}
