package core_test

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
)

// A name of an index is a folder of the artifact store: it leads nowhere else, and to no folder of the store's own.
// Promises: 138.
func TestNamesOfIndexesAndGenerations(t *testing.T) {
	for name, valid := range map[string]struct{ slug, index bool }{
		"docs": {true, true}, "g001": {true, true}, "7": {true, true}, "a-b-c": {true, true},
		strings.Repeat("a", 63): {true, true}, "ledgers": {true, true}, "doctor-2": {true, true},
		"ledger": {true, false}, "doctor": {true, false},
		"": {}, "-a": {}, "_access": {}, ".": {}, "..": {}, ".tmp": {}, "a/b": {}, "../a": {}, `a\b`: {},
		"Docs": {}, "ä": {}, "a b": {}, "a\x00": {}, "a\n": {}, "a.json": {}, strings.Repeat("a", 64): {},
	} {
		assert.True(t, core.ValidSlug(name) == valid.slug && core.ValidIndex(name) == valid.index, "%q: slug %t, index %t",
			name, core.ValidSlug(name), core.ValidIndex(name))
	}
}

func TestAnEstimateNamesTheBoundsThatItMayExceed(t *testing.T) {
	expected := core.Estimate{
		Extract: core.Range{Low: 5, High: 62}, Shorten: core.Range{High: 1}, Embed: core.Range{Low: 5, High: 23},
		Tokens: core.Range{Low: 1e5, High: 4e5}, Cost: core.Range{Low: 0.01, High: 0.3},
	}
	for want, budget := range map[string]core.Budget{
		"":                        {Calls: 86, Tokens: 4e5, Money: 0.3},
		"85 calls":                {Calls: 85},
		"399999 tokens, 0.02 EUR": {Tokens: 399_999, Money: 0.02},
	} {
		assert.Equal(t, want, budget.ExceededBy(expected, "EUR"))
	}
}

func TestATrustDomainIsTheEndpointUnlessItIsNamed(t *testing.T) {
	for _, c := range []struct{ provider, named, url, want string }{
		{"openai", "", "", "https://api.openai.com/v1"},
		{"openai", "", "HTTPS://User:Secret@Models.Example:443/v1/?key=1#x", "https://models.example/v1"},
		{"openai", "", "http://models.example:8080/v1", "http://models.example:8080/v1"},
		{"openai", "", "http://[::1]:8080/v1/", "http://[::1]:8080/v1"},
		{"openai", "", "http://[::1]/v1", "http://[::1]/v1"},
		{"openai", "gateway", "http://one.example/v1", "gateway"},
		{"openai", "https://old.example/v1/", "http://new.example/v1", "https://old.example/v1"},
		{"openai", core.NoTrustDomain, "http://one.example/v1", ""},
		{"builtin", "gateway", "http://one.example/v1", ""},
		{"recorded", "", "", ""},
	} {
		chat := core.ChatModel{Provider: c.provider, TrustDomain: c.named, BaseURL: c.url}
		embedding := core.EmbedModel{Provider: c.provider, TrustDomain: c.named, BaseURL: c.url}
		assert.True(t, chat.Domain() == c.want && embedding.Domain() == c.want, "%+v: %q and %q", c, chat.Domain(),
			embedding.Domain())
	}
}

// What is not set leaves no trace in a stored configuration, so that its digest stays what it was.
func TestNewFieldsOfModelsAreNotWrittenWhereTheyAreEmpty(t *testing.T) {
	spec := core.Spec{Chat: core.ChatModel{Provider: "openai"}, Embedding: core.EmbedModel{Provider: "openai"}}
	set := spec
	set.Chat.TrustDomain, set.Embedding.TrustDomain, set.Chat.MaxTokens = "a", "b", 7
	assert.Equal(t, set.ConfigDigest(), spec.ConfigDigest(), "the digest of the configuration changed")
	raw, err := json.Marshal(spec)
	assert.True(t, err == nil && !strings.Contains(string(raw), "trust") &&
		!strings.Contains(string(raw), `"chat":{"max_tokens`), "%s %v", raw, err)
}

// Each id is in exactly one part, and in the range that the part's bounds give.
// Promises: 50.
func TestThePartsOfAWholeHoldEachIDOnce(t *testing.T) {
	ids := []string{strings.Repeat("\x00", 16), strings.Repeat("\xff", 16), "\x55\x55\x55\x55\x55\x55\x55\x55\xff", // 1/3
		"\x55\x55\x55\x55\x55\x55\x55\x56", "\x80\x00\x00\x00\x00\x00\x00\x00", "\x7f\xff\xff\xff\xff\xff\xff\xff\xff"}
	for i := range 1000 {
		sum := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
		ids = append(ids, string(sum[:]))
	}
	for _, parts := range []int{1, 2, 3, 7, 10_000} {
		for _, id := range ids {
			held := 0
			for part := 1; part <= parts; part++ {
				sample := core.Sample{Part: part, Of: parts}
				from, to := sample.Bounds()
				if within := id >= from && (to == "" || id < to); within != sample.Holds([]byte(id)) {
					t.Fatalf("%s and %x: within its bounds %v, held %v", sample, id, within, !within)
				}
				if sample.Holds([]byte(id)) {
					held++
				}
			}
			require.True(t, held == 1, "%x is in %d of %d parts", id, held, parts)
		}
	}
}

func TestASampleIsReadAndWritten(t *testing.T) {
	for text, valid := range map[string]bool{
		"1/1": true, "3/7": true, "7/7": true, "0/7": false, "8/7": false, "1": false, "1/": false, "a/b": false,
		"-1/7": false, "1/7x": false, "1/10001": false, "": false,
	} {
		sample, err := core.ParseSample(text)
		assert.True(t, (err == nil) == valid && (!valid || sample.String() == text), "%q: %v, %v", text, sample, err)
	}
	assert.True(t, core.Everything.IsValid() && core.Everything.IsWhole() && !(core.Sample{Part: 1, Of: 2}).IsWhole(),
		"everything is not the whole, or a half is")
}

func TestACourseStaysBoundedAndOfTheWholeRun(t *testing.T) {
	var course []core.Moment
	for second := range 5000 {
		course = core.MergeMoments(course, core.Moment{Seconds: float64(second), Share: float64(second) / 5000})
		require.True(t, len(course) <= 240, "%d moments after %d", len(course), second)
	}
	first, last := course[0], course[len(course)-1]
	assert.True(t, first.Seconds == 0 && last.Seconds == 4999, "from %v to %v", first.Seconds, last.Seconds)
	for i := 1; i < len(course); i++ {
		require.True(t, course[i].Seconds > course[i-1].Seconds, "moment %d: %v after %v", i, course[i].Seconds,
			course[i-1].Seconds)
	}
	assert.Len(t, core.MergeMoments(course, course...), len(course), "reported twice")
}

func TestMomentsOfALongRunAreFewer(t *testing.T) {
	for sofar, want := range map[time.Duration]time.Duration{
		time.Second: 5 * time.Second, 10 * time.Minute: 5 * time.Second, 12 * time.Hour: 6 * time.Minute,
	} {
		assert.Equal(t, want, core.MomentEvery(sofar), "after %s every", sofar)
	}
}

func TestWhatANightComesTo(t *testing.T) {
	report := core.Report{
		Run: "docs/a", Documents: 98, Seconds: 60, IdleSeconds: 20, Calls: core.Calls{Extract: 8, Embed: 2},
		Tokens: core.Tokens{Prompt: 70, Completion: 30}, Cost: 2,
		Diff: core.Diff{Added: 1, Changed: 5, Removed: 3},
		Planned: &core.Estimate{
			Extract: core.Range{Low: 5, High: 6}, Embed: core.Range{Low: 1, High: 2},
			Tokens: core.Range{Low: 90, High: 110},
			Cost:   core.Range{Low: 3, High: 4}, Seconds: core.Range{Low: 10, High: 20},
		},
	}
	night := report.ToNight()
	assert.True(t, night.Changed == 9 && night.Share == 9.0/101 && night.Seconds == 40 && night.Calls == 10 &&
		night.Tokens == 100, "%+v", night)
	want := (core.Missed{Calls: 0.2, Tokens: 0, Cost: -1.0 / 3, Seconds: 0.5})
	assert.True(t, *night.Planned == want, "missed by %+v, want %+v", *night.Planned, want)
}

func TestNightsHoldEachRunOnceAndLetTheOldestGo(t *testing.T) {
	began := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	var nights core.Nights
	for number := range core.MostNights + 5 {
		run := began.AddDate(0, 0, number)
		nights.Add(core.Night{Run: run.Format("docs/20060102"), RunID: "one", Started: run})
	}
	newest := nights.Nights[len(nights.Nights)-1]
	newest.Status = core.StatusHeld
	nights.Add(newest)
	assert.True(t, len(nights.Nights) == core.MostNights && nights.Nights[0].Run == "docs/20260106" &&
		nights.Nights[len(nights.Nights)-1].Status == core.StatusHeld, "%d nights, from %s", len(nights.Nights),
		nights.Nights[0].Run)
}

func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	assert.False(t, math.Abs(got-want) > 0.01*math.Max(1, math.Abs(want)), "%s: %g, want %g", what, got, want)
}

func TestTimeLeftGoesByWhatWasMeasured(t *testing.T) {
	state := core.RunState{Stage: core.StageChunk}
	_, left := state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 60})
	assert.True(t, left == 0, "a first build that still cuts chunks: %g s left, of stages that were not seen", left)
	state = core.RunState{Stage: core.StageExtract, Paid: true}
	share, left := state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 70})
	about(t, "half of extraction", share, 0.39)
	about(t, "its other half, and 26 hundredths of all after it", left, 70+26*140/70.0)
	state.Stage = core.StageLoad
	state.Report.Stages = []core.StageProgress{{Name: core.StageExtract, Seconds: 140}}
	_, left = state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 3})
	about(t, "after extraction, by its pace", left, 3+4*140/70.0)
}

// An embedder inside takes most of a build, which stays far from its end until that has embedded.
func TestABuildIsAsFarAsItsEmbedderInside(t *testing.T) {
	state := core.RunState{Stage: core.StageEmbed, Inside: true}
	share, _ := state.EstimateProgress(core.Pace{})
	later, _ := state.EstimateProgress(core.Pace{Share: 0.5})
	assert.True(t, share < 0.2 && later > 0.4 && later < 0.6, "%.2f, half embedded %.2f", share, later)
}

func TestTimeLeftGoesByTheRunBeforeScaledByChunks(t *testing.T) {
	state := core.RunState{
		Stage: core.StageChunk, ExpectedChunks: 100,
		Expected: []core.StageProgress{
			{Name: core.StagePlan, Seconds: 10}, {Name: core.StageChunk, Seconds: 30},
			{Name: core.StageExtract, Seconds: 50}, {Name: core.StageLoad, Seconds: 10},
		},
	}
	share, left := state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 20})
	about(t, "share by seconds", share, 0.25)
	about(t, "left", left, 20+60)
	state.Report.Chunks = 300
	_, left = state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 20})
	about(t, "left of three times as many chunks", left, 20+180)
	stopped := time.Now()
	state.Stopped = &stopped
	_, left = state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 20})
	assert.True(t, left == 0, "a run that pauses: %g s left", left)
	_, left = state.EstimateProgress(core.Pace{Share: 0.5})
	assert.True(t, left == 0, "nothing moves: %g s left", left)
}

func TestARestoreIsAsFarAsItsParts(t *testing.T) {
	state := core.RunState{Stage: core.StageRestore}
	share, left := state.EstimateProgress(core.Pace{Share: 0.25, Seconds: 30})
	assert.True(t, share == 0.25 && left == 30, "%g, %g s left", share, left)
}

func TestPausesDoNotCountAndAStageThatWasCancelledIsNotDone(t *testing.T) {
	begin := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	state := core.RunState{Stage: core.StageExtract, Total: 100, StageAt: begin}
	state.Stop(begin.Add(10 * time.Second))
	state.Stop(begin.Add(20 * time.Second)) // reported again
	run, _ := state.IdleSeconds(begin.Add(40 * time.Second))
	assert.True(t, run == 30, "idle for %g s so far", run)
	state.GoOn(begin.Add(70 * time.Second))
	state.GoOn(begin.Add(80 * time.Second))
	state.Close(begin.Add(90*time.Second), 37)
	want := core.StageProgress{Name: core.StageExtract, Done: 37, Total: 100, Seconds: 30}
	if got := state.Report.Stages[0]; got != want || state.Report.IdleSeconds != 60 {
		t.Errorf("%+v, idle for %g s; want %+v", got, state.Report.IdleSeconds, want)
	}
}

func TestEventsThatAreToldAgainAreOneAndTheFirstAndLastOfManyStay(t *testing.T) {
	var report core.Report
	report.AddEvent(core.Event{Kind: core.EventStarted})
	for tries := range 5 {
		report.AddEvent(core.Event{Kind: core.EventWaiting, Code: "store_unavailable", Count: tries + 1})
	}
	assert.True(t, len(report.Events) == 2 && report.Events[1].Count == 5, "%+v", report.Events)
	for range 300 {
		report.AddEvent(core.Event{Kind: core.EventPaused})
		report.AddEvent(core.Event{Kind: core.EventResumed})
	}
	report.AddEvent(core.Event{Kind: core.EventEnded})
	n := len(report.Events)
	assert.True(t, n <= 200 && report.Events[0].Kind == core.EventStarted && report.Events[n-1].Kind == core.EventEnded,
		"%d events, the first %+v, the last %+v", n, report.Events[0], report.Events[n-1])
}

func TestProbesAreReadLineByLine(t *testing.T) {
	got, err := core.ReadProbes(strings.NewReader(
		`{"question":" Who signed? ","documents":["a.md","b.md"]}`+"\n\n"+
			`{"question":"When?","documents":["c.md"],"id":17,"labels":"x"}`),
		true)
	assert.True(t, err == nil && len(got) == 2 && got[0].Question == "Who signed?" && len(got[0].Documents) == 2 &&
		got[1].Line == 3, "%+v, %v", got, err)
	for text, says := range map[string]string{
		"":     "no question",
		"\n\n": "no question",
		`{"question":"a","documents":["d"]}` + "\n{":                         "line 2",
		`{"documents":["d"]}`:                                                "line 1: it has no question",
		`{"question":"a"}`:                                                   "line 1: it names no document",
		`{"question":"a","documents":[""]}`:                                  "line 1: it names no document",
		`{"question":"` + strings.Repeat("é", 8193) + `","documents":["d"]}`: "more than 8192 characters",
		strings.Repeat(`{"question":"a","documents":["d"]}`+"\n", 2001):      "more than 2000 questions",
		strings.Repeat(strings.Repeat(" ", 1<<20)+"\n", 3) + "{}":            "question",
	} {
		_, err := core.ReadProbes(strings.NewReader(text), true)
		assert.True(t, err != nil && strings.Contains(err.Error(), says), "%.40q: %v, want %q", text, err, says)
	}
	got, err = core.ReadProbes(strings.NewReader(`{"question":"a"}`), false)
	assert.True(t, err == nil && len(got) == 1, "where documents are not asked for: %v, %v", got, err)
}

func TestSizesAreDecimal(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 27_883_292: "28 MB", 5_250_000: "5.2 MB", 3_200_000_000_000_000: "3200 TB",
	} {
		got := core.FormatSize(bytes)
		assert.True(t, got == want, "%d: %s, want %s", bytes, got, want)
	}
}

func TestFilesOfOtherTypesAreCountedByTheirExtensions(t *testing.T) {
	var list, all core.LeftOut
	for _, object := range []string{"a.PNG", "b.png", "bin/tool", "odd.", "v1.2 of the report"} {
		list.AddOtherType(object)
	}
	all.AddOtherTypes(list)
	all.AddOtherTypes(list)
	want := map[string]int64{".png": 4, "no extension": 6}
	assert.True(t, all.OtherTypes == 10 && maps.Equal(all.Extensions, want), "%+v, want %v", all, want)
}

// What is asked follows from the parent, the request and the choice; a request that did not change goes on as it was.
func TestWhatPassagesAreAskedFollowsFromTheParentAndTheChoice(t *testing.T) {
	of := func(kind string) core.Request { return core.Request{Types: strings.Fields(kind)} }
	asked := func(kind, apply string, earlier ...string) (out core.Asked) {
		out = core.Asked{Request: of(kind), Apply: apply}
		for _, one := range earlier {
			out.Earlier = append(out.Earlier, of(one))
		}
		return out
	}
	for name, c := range map[string]struct {
		before core.Asked
		kind   string
		apply  string
		want   core.Asked
	}{
		"the first types, unchosen":    {asked("", ""), "A", "", asked("A", "")},
		"the first types, from now on": {asked("", ""), "A", "new", asked("A", "new", "")},
		"other types, unchosen":        {asked("A", "new", ""), "B", "", asked("B", "")},
		"other types, from now on":     {asked("A", "new", ""), "B", "new", asked("B", "new", "A", "")},
		"the night after, unchosen":    {asked("A", "new", ""), "A", "", asked("A", "new", "")},
		"the night after, from now on": {asked("A", "mentions", ""), "A", "new", asked("A", "mentions", "")},
		"then what names them":         {asked("A", "new", ""), "A", "mentions", asked("A", "mentions", "")},
		"then everything":              {asked("A", "new", ""), "A", "all", asked("A", "")},
		"no types any more":            {asked("A", ""), "", "new", asked("", "new", "A")},
		"types that were there before": {asked("B", "new", "A", "C"), "A", "new", asked("A", "new", "B", "C")},
		"more than are remembered":     {asked("E", "new", "D", "C", "B", "A"), "F", "new", asked("F", "new", "E", "D", "C", "B")},
	} {
		got := core.AskOver(c.before, of(c.kind), c.apply)
		assert.True(t, got.Same(c.want) && got.Request.Digest() == c.want.Request.Digest(), "%s: %+v", name, got)
	}
	assert.Equal(t, []string{"B", "A"}, of("B C").Changed(of("A C")))
	guided := core.Request{Types: []string{"B", "C"}, Guidance: "g"}
	assert.Equal(t, []string{"B", "C", "A"}, guided.Changed(of("A C")), "guidance changed, too")
	spec := core.Spec{}
	assert.Equal(t, spec.ConfigDigest(), spec.WithApply(core.ApplyNew).ConfigDigest(), "a choice rebuilds")
}

func TestALongSettingIsShownByItsBeginning(t *testing.T) {
	spec := core.Spec{Index: "docs", Extraction: &core.Extraction{Examples: strings.Repeat("é", 60_000)}}
	differs := spec.ListDifferences(core.Spec{Index: "docs", Extraction: &core.Extraction{}})
	assert.True(t, len(differs) == 1 && len(differs[0]) < 300 && strings.Contains(differs[0], "(60000 characters)"), differs)
}

func TestASetHashIsTheSumOfItsEntries(t *testing.T) {
	one, two := core.Sum("one"), core.Sum("two")
	var set core.SetHash
	set.Add(one)
	assert.Equal(t, one, set.Digest(), "of one entry its digest")
	set.Add(two)
	set.Sub(one)
	assert.Equal(t, two, set.Digest(), "what was taken out left no trace")
	var read core.SetHash
	require.NoError(t, read.UnmarshalText([]byte(two.String())))
	assert.Equal(t, set, read)
}

func TestEveryKindOfSegmentIsListed(t *testing.T) {
	one := core.Segment{SHA256: "a"}
	segments := core.Segments{
		Splits: []core.Split{{Segment: one}}, Runs: []core.Run{{Segment: one}}, Tombs: []core.Tomb{{Segment: one}},
		DeadStats: []core.DeadStat{{Segment: one}}, Enriched: []core.EnrichedFile{{Segment: one}},
	}
	assert.Len(t, segments.All(), 5)
}
