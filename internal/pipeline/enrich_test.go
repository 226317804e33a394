package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func TestAnEnrichmentThatNobodyKnowsIsRefused(t *testing.T) {
	s := builtSite(t, sample(3))
	s.spec.Enrich = []string{"listing"}
	job, holder := s.leased(t)
	assert.ErrorContains(t, musttest.Err(s.stages(t.Context(), job, holder)), "listing")
}

// An enrichment is made once the configuration names it, leaves everything else as it was, and is that of a build from
// nothing after nights of changes; its files stay as long as a generation names them. A night pays for what changed.
// Promises: 16, 87.
func TestNightsOfEnrichmentsComeToWhatABuildFromNothingComesTo(t *testing.T) {
	for name, kinds := range map[string][]string{"gem": {"questions", "spectral", "themes"}, "facts": {"facts"}} {
		s := newSite(t, sample(30))
		steady(s)
		s.spec.Keep, s.spec.Gate.MaxRemoved = 1, 1
		plain := s.night(t).manifest
		require.Empty(t, plain.Enriched, name)
		require.Empty(t, plain.Segments.Enriched, name)
		s.spec.Enrich = []string{name}
		first := s.night(t).manifest
		made := first.Enrichment(name)
		require.True(t, made != nil && made.Counts["chunks"] == first.Counts.Chunks && first.Hashes == plain.Hashes,
			"%+v, hashes %v, without it %v", made, first.Hashes, plain.Hashes)
		for _, kind := range map[string][]string{"gem": {"questions", "themes"}, "facts": {"edges"}}[name] {
			assert.NotZero(t, made.Counts[kind], "%s of %s", kind, name)
		}
		assert.True(t, s.night(t).planned.Unchanged, "%s: the same is made again", name)
		night := s.buildFiles(t, map[string]string{
			"place-003.md": "# Harbour 3\n\nCaptain Ivar Moe closed Harbour Tangen in 1931.\n",
			"new.md":       "# Quay\n\nEngineer Ada Lund built the Quay of Skarnes.\n",
		}).manifest
		fresh := newSite(t, nil)
		steady(fresh)
		fresh.corpus, fresh.spec.Corpus, fresh.spec.Enrich = s.corpus, s.corpus, s.spec.Enrich
		from := fresh.night(t).manifest
		assert.Equal(t, from.Hashes, night.Hashes, name)
		assert.Equal(t, from.Enrichment(name).Hash, night.Enrichment(name).Hash, name)
		assert.NotEqual(t, made.Hash, night.Enrichment(name).Hash, "%s: other chunks have the same enrichment", name)
		for _, kind := range kinds {
			a, b := night.Segments.FilesOf(name, kind), from.Segments.FilesOf(name, kind)
			require.True(t, len(a) == 1 && len(b) == 1 && a[0].SHA256 == b[0].SHA256, "%s: %v, from nothing %v", kind, a, b)
			must(s.Artifacts.Stat(t.Context(), s.index().SegmentKey(a[0].SHA256)))(t)
		}
		s.spec.Enrich = nil
		without := s.night(t).manifest
		assert.True(t, len(without.Enriched)+len(without.Segments.Enriched) == 0 && without.Hashes == night.Hashes,
			"it is still there: %+v", without.Enriched)
	}
	s, asked, embedder := newSite(t, sample(12)), &atomic.Int64{}, &stagetest.Embedder{Dim: 8}
	s.spec.Embedding.Dimension, s.spec.Enrich = 8, []string{"facts"}
	s.Models = func(core.Spec, model.Meter) (model.Set, error) {
		return model.Set{Chat: paidRules{triples: asked}, Classes: embedder, Chunks: embedder}, nil
	}
	first := s.night(t).manifest
	require.Equal(t, first.Counts.Chunks, asked.Load(), "each chunk is paid for once")
	s.buildFiles(t, map[string]string{"place-003.md": "# Harbour 3\n\nPort Alma 3 belongs to Carla Ruiz.\n"})
	assert.Equal(t, first.Counts.Chunks+1, asked.Load(), "one changed chunk is paid for alone")
}

// What settings of a memory change is named with its cost, and nothing else is made again.
// Promises: 91.
func TestAChangeOfAMemorysSettingsMakesWhatItCostsAndNoMore(t *testing.T) {
	s := newSite(t, sample(30))
	steady(s)
	s.spec.Keep, s.spec.Gate.MaxRemoved = 3, 1
	s.spec.Enrich = []string{"gem"}
	set := gem.DefaultSettings
	enrich.SetSettings(&s.spec, gem.Name, set, gem.Settings{})
	s.night(t)
	first := s.current(t)
	night := func(want ...string) *core.Manifest {
		enrich.SetSettings(&s.spec, gem.Name, set, gem.Settings{})
		require.Equal(t, len(want) == 0, s.night(t).planned.Unchanged, "unchanged")
		current := s.current(t)
		if len(want) == 0 {
			return current
		}
		report := s.report(t)
		for _, part := range want {
			assert.Contains(t, strings.Join(report.Reasons, "; "), part, "reasons are %q", report.Reasons)
		}
		assert.True(t, current.Hashes == first.Hashes, "a setting of the memory changed more than the memory")
		return current
	}
	set.Questions = 2
	two := night("gem.questions 5 → 2: questions are generated again for every passage")
	made := two.Enrichment("gem")
	assert.True(t, made.Counts["questions"] <= 2*made.Counts["chunks"], "%+v", made)
	set.Themes = 1
	made = night("gem.themes 12 → 1", "no question is generated again").Enrichment("gem")
	assert.True(t, made.Counts["themes"] == 1, "%+v", made)
	set.Neighbours = 3
	night("gem.neighbours 20 → 3")
	night()

	s.buildFiles(t, map[string]string{"new.md": "# Quay\n\nEngineer Ada Lund built the Quay of Skarnes.\n"})
	made = s.current(t).Enrichment("gem")
	assert.Equal(t, made.Counts["chunks"], made.Counts["spectrum"], "%+v", made)
	fresh := newSite(t, nil)
	steady(fresh)
	fresh.corpus, fresh.spec.Corpus, fresh.spec.Enrich = s.corpus, s.corpus, s.spec.Enrich
	fresh.spec.EnrichSettings = s.spec.EnrichSettings
	fresh.night(t)
	assert.Equal(t, made.Hash, fresh.current(t).Enrichment("gem").Hash, "%+v, from nothing", made)
}

// Chunks for which the model has no questions are counted in the report; a night leaves them, and a round of
// retry-failed asks for them again, and for nothing else.
// Promises: 94.
func TestQuestionsThatFailAreToldAndAskedForAgainByARetry(t *testing.T) {
	s := newSite(t, sample(6))
	steady(s)
	s.spec.Enrich = []string{"gem"}
	var fails atomic.Bool
	var asked atomic.Int64
	fails.Store(true)
	usual := s.Models
	s.Models = func(spec core.Spec, meter model.Meter) (model.Set, error) {
		set, err := usual(spec, meter)
		set.Chat = model.MeterChat(&stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
			if !strings.Contains(string(call.Schema), `"questions"`) {
				return builtin.Chat{}.Complete(t.Context(), call)
			}
			asked.Add(1)
			if fails.Load() && strings.Contains(call.User, "Harbour 3") {
				return model.Reply{Text: "I cannot."}, nil
			}
			return model.Reply{Text: `{"questions":["What is ` + core.Sum(call.Input).Short(8) + `?"]}`}, nil
		}}, meter)
		return set, err
	}
	s.night(t)
	made, report := s.current(t).Enrichment("gem"), s.report(t)
	require.True(t, made.Counts["failed"] == 1 && made.Counts["by_text"] == 1 && len(report.Enriched) == 1 &&
		report.Enriched[0].Counts["failed"] == 1, "%+v, report %+v", made, report.Enriched)
	before := asked.Load()
	if planned := s.night(t).planned; !planned.Unchanged || asked.Load() != before {
		t.Errorf("unchanged: %v, %d questions more", planned.Unchanged, asked.Load()-before)
	}
	fails.Store(false)
	s.attempt = 1
	s.night(t)
	reasons := s.report(t).Reasons
	assert.True(t, slices.Contains(reasons, "enrich: gem: 1 chunks without a usable answer are retried"), "%q", reasons)
	summaries := made.Counts["themes"]
	if again := s.current(t).Enrichment("gem"); again.Counts["failed"] != 0 || asked.Load()-before > 1+summaries {
		t.Errorf("%+v, %d calls", again, asked.Load()-before)
	}
}

// memorySite returns a fillingSite with the enrichment gem, whose model asks questions.
func memorySite(t *testing.T, refuse func(key string) error) (*site, *bill) {
	s, owed := fillingSite(t, refuse)
	s.spec.Enrich = []string{"gem"}
	usual := s.Models
	s.Models = func(spec core.Spec, meter model.Meter) (model.Set, error) {
		set, err := usual(spec, meter)
		set.Chat = model.MeterChat(&stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
			if !strings.Contains(string(call.Schema), `"questions"`) {
				return owed.answer(call)
			}
			owed.pay(call.System + call.User)
			return model.Reply{Text: `{"questions":["What is ` + core.Sum(call.Input).Short(8) + `?","Where is it?"]}`}, nil
		}}, meter)
		return set, err
	}
	return s, owed
}

// The store goes away at writes of an enrichment in turn: what is resumed comes to the same files, and pays for nothing
// twice.
// Promises: 87.
func TestAMemoryWhoseStoreFailsAtAnyWriteIsThatOfAnUndisturbedBuild(t *testing.T) {
	var count, first, last atomic.Int64
	undisturbed, _ := memorySite(t, func(key string) error {
		at := count.Add(1)
		if strings.Contains(key, "ledger/questions") || strings.Contains(key, "enrich") {
			first.CompareAndSwap(0, at)
			last.Store(at)
		}
		return nil
	})
	built(t, undisturbed, func(err error, _ func() error) { t.Fatal(err) })
	want := undisturbed.current(t).Segments.Enriched
	require.True(t, len(want) == 4 && first.Load() != 0 && last.Load()-first.Load() >= 8,
		"%v, writes %d to %d", want, first.Load(), last.Load())
	for at := first.Load(); at <= last.Load(); at += 3 {
		var written atomic.Int64
		var mended atomic.Bool
		s, owed := memorySite(t, func(key string) error {
			if written.Add(1) >= at && !mended.Load() {
				return fault.StoreDown.At("write", key)
			}
			return nil
		})
		s.Ledger.Patience = 30 * time.Millisecond
		halts := 0
		built(t, s, func(err error, _ func() error) {
			halts++
			require.True(t, halts <= 1 && fault.Is(err, fault.StoreDown), "write %d: halt %d is %v", at, halts, err)
			mended.Store(true)
		})
		got := s.current(t).Segments.Enriched
		assert.True(t, slices.Equal(got, want) && owed.twice == 0 && halts == 1,
			"write %d: %v, want %v; paid twice %d, %d halts", at, got, want, owed.twice, halts)
	}
}

// paidRules are the built-in rules as a model that is paid for.
type paidRules struct {
	builtin.Chat
	triples *atomic.Int64
}

func (p paidRules) Info() model.Info { return model.Info{Provider: "test", Model: "rules", Paid: true} }

func (p paidRules) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task == model.Triples {
		p.triples.Add(1)
	}
	return p.Chat.Complete(ctx, call)
}

// asker answers what enrichments ask, too: a question has the first words of its text.
type asker struct{ chat }

func (a asker) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task == model.Pairs {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls[model.Pairs]++
		return model.Reply{Text: `{"same":false,"why":"two things"}`, Usage: model.Usage{Prompt: 10, Completion: 5}}, nil
	}
	if !strings.Contains(string(call.Schema), `"questions"`) {
		return a.chat.Complete(ctx, call)
	}
	a.mu.Lock()
	a.calls["questions"]++
	a.mu.Unlock()
	words := strings.Fields(call.Input)
	raw, err := json.Marshal(map[string]any{"questions": []string{
		"Who says: " + strings.Join(words[:min(40, len(words))], " ") + "?",
		"What is " + core.Sum(call.Input).Short(8) + "?",
	}})
	return model.Reply{Text: string(raw), Usage: model.Usage{Prompt: 10, Completion: 5}}, err
}

// enriching has a site make every enrichment with models that are paid for.
func enriching(s *site) *seller {
	sold := paying(s)
	s.Models = func(core.Spec, model.Meter) (model.Set, error) {
		return model.Set{Chat: asker{chat{sold}}, Classes: sold, Chunks: sold}, nil
	}
	s.spec.Enrich = []string{"gem", "facts", "aliases"}
	enrich.SetSettings(&s.spec, aliases.Enrichment,
		aliases.Settings{Ask: 50, Classes: 1000, Cosine: 0.5}, aliases.DefaultSettings)
	s.spec.Embedding.Dimension = 16
	s.spec.Gate.MaxRemoved = 1
	return sold
}

// bought gives the calls and texts that were sold since the last time.
func (s *seller) bought(before map[string]int) (calls, texts int) {
	for _, n := range s.calls {
		calls += n
	}
	clear(s.calls)
	for text, n := range s.texts {
		texts += n - before[text]
	}
	return calls, texts
}

func everyIndex(t *testing.T, s *site) (out []artifact.Index) {
	names := must(artifact.ListIndexes(t.Context(), s.Artifacts))(t)
	slices.Sort(names)
	for _, name := range names {
		out = append(out, artifact.Index{Store: s.Artifacts, Name: name})
	}
	return out
}

// What enrichments paid for is packed, stays as long as a generation lists it, vectors too, and goes when none does.
// Promises: 88.
func TestWhatEnrichmentsPaidForIsPackedAndStaysWhileItIsListed(t *testing.T) {
	s := newSite(t, sample(9))
	sold := enriching(s)
	s.night(t)
	calls, texts := sold.bought(nil)
	sold.calls["questions"] = 0
	require.True(t, calls >= 20 && texts >= 20, "%d calls, %d texts: nothing is enriched", calls, texts)
	stray := core.Sum("of a build that was never published")
	for _, task := range ledger.OfEnrichments() {
		must(s.Ledger.Put(t.Context(), task, stray, 0, ledger.Result{Value: []byte("{}")}))(t)
	}
	upkeep := func(at time.Time) map[string]ledger.Kept {
		restart(s)
		out := map[string]ledger.Kept{}
		for _, task := range ledger.Tasks() {
			kept := must(s.Ledger.RunUpkeep(t.Context(), task, collect.ListKeys(t.Context(), everyIndex(t, s), task), at))(t)
			out[task] = kept
		}
		return out
	}
	upkeep(time.Now())
	for day := range 40 { // one at a time, as a clock that jumps drops nothing
		upkeep(time.Now().Add(time.Duration(day) * 24 * time.Hour))
	}
	for _, task := range ledger.OfEnrichments() {
		entry, err := s.Ledger.Get(t.Context(), task, stray, 0)
		assert.True(t, entry == nil && err == nil, "%s: what nothing lists is still there: %v", task, err)
		packed := 0
		for info := range musttest.All(t, s.Artifacts.List(t.Context(), "ledger/"+task+"/", "")) {
			if strings.Contains(info.Key, "/packs/") || strings.Contains(info.Key, "/merged/") {
				packed++
			}
			assert.False(t, strings.Contains(info.Key, "/loose/"), "%s lies loose", info.Key)
		}
		assert.True(t, packed != 0, "%s: nothing is packed", task)
	}
	before := maps.Clone(sold.texts)
	s.spec.Index = "other"
	s.night(t)
	if calls, texts := sold.bought(before); calls != 0 || texts != 0 {
		t.Errorf("another index pays for %d calls and %d texts that the first one paid for", calls, texts)
	}
	got, want := len(s.current(t).Segments.FilesOf("gem", core.EnrichedLedger)), 1
	assert.True(t, got == want, "%d lists", got)
}

// A purge takes what enrichments paid for the document out of the ledger, what themes say of it too, and nothing of
// other documents and indexes.
// Promises: 88.
func TestAPurgeTakesWhatEnrichmentsPaidForTheDocumentAlone(t *testing.T) {
	s := newSite(t, sample(9))
	sold := enriching(s)
	s.buildFiles(t, map[string]string{"secret.md": secretDocument(0)})
	apart := *s
	other := newSite(t, map[string]string{})
	for n := range 6 {
		other.write(t, map[string]string{
			fmt.Sprintf("hill-%d.md", n): fmt.Sprintf("# Hill %d\n\nMount Orr %d was climbed by Ida Falk.\n", n, n),
		})
	}
	apart.spec.Index, apart.corpus, apart.spec.Corpus = "apart", other.corpus, other.corpus
	apart.night(t)
	s.runs = apart.runs
	s.buildFiles(t, map[string]string{"secret.md": secretDocument(1)})
	words := []string{"Quastenberg", "Zuckmayer", "Tiberius", "in opals"} // that no other document has
	where := s.holding(t, words...)
	for _, task := range []string{"ledger/questions/", "ledger/triples/"} {
		require.True(t, slices.ContainsFunc(where, func(one string) bool { return strings.HasPrefix(one, task) }),
			"%s says nothing of the document: %q", task, where)
	}
	purge := s.purge(t, "secret.md")
	s.night(t)
	assert.Empty(t, s.holding(t, words...), "still stored")
	done := s.purged(t, purge.ID)
	assert.True(t, done.State == core.PurgeDone && len(done.Forgotten) <= 0 && done.Gone.Ledger != 0, "%+v", done)
	sold.bought(nil)
	before := maps.Clone(sold.texts)
	restart(s)
	for _, one := range []string{"fresh", "apart-fresh"} {
		again := *s
		if again.spec.Index = one; one == "apart-fresh" {
			again.corpus, again.spec.Corpus = other.corpus, other.corpus
		} else {
			again.corpus = t.TempDir()
			again.spec.Corpus = again.corpus
			again.write(t, sample(9))
		}
		again.night(t)
		s.runs = again.runs
		if calls, texts := sold.bought(before); calls != 0 || texts != 0 {
			t.Errorf("%s: %d calls and %d texts of what stays are paid for again", one, calls, texts)
		}
	}
}
