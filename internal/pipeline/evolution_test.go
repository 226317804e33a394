package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
)

// chemist is a paid model that counts what it is asked, and knows drugs and cities where the prompt asks for them.
type chemist struct {
	mu    sync.Mutex
	asked map[string]int // by prompt and text
}

func (c *chemist) Info() model.Info { return model.Info{Provider: "openai", Model: "m", Paid: true} }

func (c *chemist) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task != model.Extract {
		return builtin.Chat{}.Complete(ctx, call)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[call.System+"\n"+call.Input]++
	name, _, _ := strings.Cut(call.Input, " ")
	entity := map[string]string{"name": name, "type": "none"}
	for _, kind := range []string{"Drug", "City"} {
		if strings.Contains(call.System, kind) && strings.Contains(call.Input, strings.ToLower(kind)) {
			entity["type"] = kind
		}
	}
	raw, err := json.Marshal(map[string]any{"entities": []any{entity}})
	return model.Reply{Text: string(raw), Usage: model.Usage{Prompt: 10, Completion: 5}}, err
}

// evolving gives a site the model, and 13 documents of one passage each: of drugs, cities and neither.
func evolving(t *testing.T) (*site, *chemist) {
	files := map[string]string{"seven.txt": "Heptan is named by an example.\n"}
	for i := range 4 {
		files[fmt.Sprintf("drug%d.txt", i)] = fmt.Sprintf("Pharmakon%d is a drug against number %d.\n", i, i)
		files[fmt.Sprintf("city%d.txt", i)] = fmt.Sprintf("Urbs%d is a city with %d gates.\n", i, i)
		files[fmt.Sprintf("rest%d.txt", i)] = fmt.Sprintf("Res%d is neither, number %d.\n", i, i)
	}
	s, paid := newSite(t, files), &chemist{asked: map[string]int{}}
	steadyBy(s, paid)
	s.spec.Chat, s.spec.Gate.MaxRemoved = core.ChatModel{Provider: "openai", Model: "m"}, 1
	return s, paid
}

func (s *site) wants(apply string, types ...string) {
	s.spec.Extraction = &core.Extraction{
		Share: 1, Types: types, Apply: apply,
		Examples: `[{"text":"a","entities":[{"name":"Heptan","type":"Drug","description":""}]}]`,
	}
}

// estimatedNight builds what is configured, as it was estimated, and returns the calls, and those of each choice.
func (s *site) estimatedNight(t *testing.T, paid *chemist) (out outcome, calls int, choices string) {
	t.Helper()
	restart(s)
	before, expected := len(paid.asked), estimated(t, s.estimating()).Estimate
	out = s.night(t)
	calls = len(paid.asked) - before
	assert.Equal(t, float64(calls), expected.Extract.High, "the estimate differs from the build")
	for asked, times := range paid.asked {
		assert.Equal(t, 1, times, "paid twice: %s", asked)
	}
	if expected.ApplyTo == nil {
		return out, calls, "-"
	}
	return out, calls, fmt.Sprintf("%+v", *expected.ApplyTo)
}

// Types may come, go and change, from now on, where they are named, or everywhere: each choice costs what the estimate
// says, nothing is paid for twice, and nights leave it at what was chosen.
// Promises: 151.
func TestTypesEvolve(t *testing.T) {
	s, paid := evolving(t)
	s.night(t)
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
		_, calls, choices := s.estimatedNight(t, paid)
		assert.True(t, calls == step.calls && choices == step.choices, "step %d: %d calls, %s", i, calls, choices)
		drugs := 0
		for _, kind := range typesOf(t, s) {
			drugs += strings.Count(kind, "Drug")
		}
		assert.Equal(t, step.drugs, drugs, "step %d: %v", i, typesOf(t, s))
	}
}

// What is left as it was survives a rollback and another installation; a purge finds what was paid by an earlier
// request, and so does the account of what the index cost.
func TestEarlierRequestsAreKept(t *testing.T) {
	s, paid := evolving(t)
	s.night(t)
	s.wants("new", "Drug")
	second, _, _ := s.estimatedNight(t, paid)
	s.changed(t)
	must(s.act(t, "rollback", second.manifest.Generation))(t)
	s.wants("", "Drug")
	before := len(paid.asked)
	for _, where := range []*site{s, s.copied(t)} {
		restart(where)
		assert.True(t, where.night(t).manifest.Extraction.Same(*second.manifest.Extraction))
	}
	assert.Len(t, paid.asked, before, "what was paid for is paid for again")
	in := s.estimating()
	in.Accounts = true
	assert.Equal(t, 10*s.current(t).Counts.Chunks, estimated(t, in).IndexTokens.Prompt)
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
	s.before = func(stage string) {
		if stage == "extract" {
			s.before = nil
			other.night(t)
		}
	}
	out := s.night(t)
	assert.Equal(t, "Drug", typesOf(t, s)["tarde"])
	asked := len(paid.asked)
	job, _ := s.leased(t)
	for _, anew := range []string{"", "untold"} {
		job.Anew, job.Rebuild = anew, anew != ""
		require.NoError(t, s.unit(t.Context(), job, "plan", func(ctx context.Context, work *upkeep.Run) error {
			planned, err := work.Plan(ctx)
			fixed := must(work.ReadPlan(ctx))(t)
			assert.True(t, planned.Spec == "" && fixed.Extraction.Same(*out.manifest.Extraction), "%+v", fixed.Extraction)
			return err
		}))
	}
	assert.Len(t, paid.asked, asked)
}

// A build over a damaged parent leaves passages as they were all the same, but for those whose former extraction cannot
// be found: these are asked by the current request.
func TestADamagedParentLeavesPassagesAsTheyWere(t *testing.T) {
	for _, damaged := range []string{"extract", "split", "tomb"} {
		s, paid := evolving(t)
		s.shard = 5
		s.night(t)
		s.wants("new", "Drug")
		s.night(t)
		s.buildFiles(t, map[string]string{"city0.txt": "Urbs0 is a city with 99 gates.\n"})
		of, before := s.current(t).Segments, len(paid.asked)
		sum, size, most := of.Tombs[0].SHA256, of.Tombs[0].Bytes, 0
		switch damaged {
		case "extract":
			sum, size, most = of.Extract[0].SHA256, of.Extract[0].Bytes, int(of.Extract[0].Rows)
		case "split":
			sum, size, most = of.Splits[0].SHA256, of.Splits[0].Bytes, 12
		}
		must(blob.Write(t.Context(), s.Artifacts, s.index().SegmentKey(sum), make([]byte, size), blob.Cond{}))(t)
		models := s.Models
		s.cache = t.TempDir()
		s.open(t, s.Artifacts.(*blobmemory.Store), s.Records.(*recordsmemory.Store), s.Vectors.(*vectorsmemory.Store))
		s.Models = models
		must(s.try(t, &how{}))(t)
		asked := len(paid.asked) - before
		assert.True(t, asked <= most && (asked > 0 || most == 0), "%s: %d of %d", damaged, asked, most)
	}
}

// A backfill pays by the request that its build asks by.
func TestABackfillPaysAsItsBuildAsks(t *testing.T) {
	s := newPaidSite(t, 3, calm)
	long := strings.Repeat("## Part\n\n"+strings.Repeat("The quay of Old Verin was built by Dora Sanz. ", 20)+"\n\n", 9)
	s.buildFiles(t, map[string]string{"old/a.md": long + "End.\n"})
	s.wants("new", "Drug")
	s.night(t)
	before := s.server.Stats().Extract
	s.write(t, map[string]string{"old/a.md": long + "Changed.\n"})
	f := s.fills(t, "old", core.BackfillChoice{Prefix: "old/"})
	f.open(t)
	require.NoError(t, f.pay(t.Context(), 0, noOtherBuild))
	f.publish(t)
	assert.Equal(t, 1, int(s.server.Stats().Extract-before))
}

var years = regexp.MustCompile(`19\d\d`)

// typing gives a site a chat model that names the years of a text. Which type a year has depends on the text, so that
// the type of a class may change with no other change of it.
func typing(t *testing.T, s *site) {
	chat := &stagetest.Chat{Free: true, Answer: func(call model.Call) (model.Reply, error) {
		if call.Task != model.Extract {
			return builtin.Chat{}.Complete(t.Context(), call)
		}
		list := []map[string]string{}
		for _, year := range slices.Compact(slices.Sorted(slices.Values(years.FindAllString(call.Input, -1)))) {
			kind := []string{"early", "Late", "golden"}[len(call.Input)%3]
			list = append(list, map[string]string{"name": year, "description": "", "type": kind})
		}
		raw, err := json.Marshal(map[string]any{"entities": list})
		return model.Reply{Text: string(raw)}, err
	}}
	steadyBy(s, chat)
}

// typesOf returns the types of the classes that are served.
func typesOf(t *testing.T, s *site) map[string]string {
	generation := openGeneration(t, s)
	defer generation.Close()
	out := map[string]string{}
	for i := range generation.Live.Names() {
		out[generation.Live.Name(i)] = generation.Live.TypeAt(generation.Live.PlaceByName(i))
	}
	return out
}

// Nights of an index with types come to what a build from nothing comes to, also where nothing of a class changes but
// its type, and after the types have changed.
// Promises: 150.
func TestNightsOfTypesComeToWhatABuildFromNothingComesTo(t *testing.T) {
	h := newHistory(t, rand.New(rand.NewPCG(7, 1)), 15)
	typing(t, h.site)
	h.spec.Extraction = &core.Extraction{Share: 1, Types: []string{"Early", "Late"}}
	h.night(t)
	before, turned := typesOf(t, h.site), 0
	for night := range longtest.Count(8, 30) {
		if night == 5 {
			h.spec.Extraction = &core.Extraction{Share: 1, Types: []string{"Early", "Golden"}}
		}
		h.change(t)
		out := h.night(t)
		if out.planned.Unchanged || out.manifest.Generation != fmt.Sprintf("g%03d", h.runs) {
			continue
		}
		fresh := h.freshSite(t)
		typing(t, fresh)
		sameGeneration(t, night, out.manifest, fresh.night(t).manifest)
		now := typesOf(t, h.site)
		assert.Equal(t, typesOf(t, fresh), now, "night %d", night)
		for name, kind := range now {
			if night < 5 && before[name] != "" && kind != before[name] {
				turned++
			}
		}
		before = maps.Clone(now)
	}
	assert.NotZero(t, turned, "no class got another type: nothing was shown")
}

// configured gives a site the models of a configuration.
func configured(t *testing.T, s *site, set ...string) {
	t.Helper()
	cfg := musttest.Get(config.Load(config.Source{Set: set}))(t)
	spec := musttest.Get(cfg.Spec(s.spec.Index, s.corpus))(t)
	s.spec.Chat, s.spec.Roles, s.spec.Limits = spec.Chat, spec.Roles, spec.Limits
	models := app.NewModels(s.Coordination, cfg)
	s.Models = func(spec core.Spec, meter model.Meter) (model.Set, error) { return models.NewBuildSet(spec, meter) }
}

// A change of the model of a role pays for that role and what is made of it; no other role, and no answer, rebuilds.
func TestAChangeOfARoleIsPaidForThatRoleAlone(t *testing.T) {
	t.Parallel()
	a, b := modeltest.Start(t, modeltest.Options{}), modeltest.Start(t, modeltest.Options{})
	s := newSite(t, sample(12))
	s.spec.Shortening.Threshold = 200
	general := []string{
		"models.chat.provider=openai", "models.chat.model=m", "models.chat.base_url=" + a.URL, "models.chat.api_key_env=",
		"models.chat.price.prompt=1000000",
	}
	role := func(role string) []string {
		return append(general, "models."+role+".model=n", "models."+role+".base_url="+b.URL,
			"models."+role+".api_key_env=", "models."+role+".price.completion=1000000")
	}
	for _, step := range []struct {
		name               string
		set                []string
		extracts, shortens bool // at the server of the step
		atB                bool
		models             map[string]string
	}{
		{"a first build", general, true, true, false, nil},
		{"another model answers", role("answer"), false, false, true, map[string]string{"answer": "openai:n"}},
		{"it has another key", append(role("answer"), "models.answer.api_key_env=PATH"), false, false, true,
			map[string]string{"answer": "openai:n"}},
		{"another model finds triples", role("triples"), false, false, true, map[string]string{"triples": "openai:n"}},
		{"as at first", general, false, false, false, nil},
		{"another model shortens", role("shortening"), false, true, true, map[string]string{"shortening": "openai:n"}},
		{"another model extracts", role("extraction"), true, false, true, map[string]string{
			"shortening": "openai:m", "triples": "openai:m", "answer": "openai:m",
		}},
	} {
		configured(t, s, step.set...)
		due := estimated(t, s.estimating())
		expected := due.Estimate
		if strings.HasPrefix(step.name, "it has") { // queries read the settings of the published generation
			assert.True(t, !due.Unchanged && slices.Contains(due.Reasons, "settings of the model of answer"), "%+v", due.Reasons)
		}
		beforeA, beforeB := a.Stats(), b.Stats()
		out := s.night(t)
		paidA, paidB := since(a, beforeA), since(b, beforeB)
		paid, other := paidA, paidB
		if step.atB {
			paid, other = paidB, paidA
		}
		assert.Equal(t, step.extracts, paid["extract"].Calls > 0, "%s: %v", step.name, paid)
		assert.Equal(t, step.shortens, paid["shorten"].Calls > 0, "%s: %v", step.name, paid)
		assert.Zero(t, other["extract"].Calls, "%s: %v", step.name, other)
		assert.InDelta(t, float64(paidA["extract"].Calls+paidB["extract"].Calls), expected.Extract.High, 0, step.name)
		if !step.extracts && !step.shortens {
			assert.Zero(t, expected.Shorten.High+expected.Cost.High, step.name)
		}
		report := s.report(t)
		price := float64(paidA["extract"].Prompt + paidA["shorten"].Prompt +
			paidB["extract"].Completion + paidB["shorten"].Completion)
		assert.InDelta(t, price, report.Cost, 1e-6, "%s: the price of each role", step.name)
		if out.manifest != nil {
			assert.Equal(t, step.models, out.manifest.Models.Roles, step.name)
		}
	}
}

// since gives what was paid for at a server after a moment, by task.
func since(server *modeltest.Server, before modeltest.Stats) map[string]modeltest.Cost {
	out := map[string]modeltest.Cost{}
	for task, now := range server.Stats().Tasks {
		was := before.Tasks[task]
		out[strings.ToLower(task)] = modeltest.Cost{
			Calls: now.Calls - was.Calls, Prompt: now.Prompt - was.Prompt, Completion: now.Completion - was.Completion,
		}
	}
	return out
}
