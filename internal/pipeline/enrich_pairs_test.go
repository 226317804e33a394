package pipeline_test

import (
	"context"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/methods/aliases/pairstage"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// pairJudge extracts by rule, says of pairs with Carla that they are the same, and is paid for.
type pairJudge struct {
	builtin.Chat
	bill *judged
}

// judged is what was paid for pairs.
type judged struct {
	mu    sync.Mutex
	asked map[string]int
}

func (j *judged) calls() (all, twice int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range j.asked {
		all += n
		twice += n - 1
	}
	return all, twice
}

func (p pairJudge) Info() model.Info { return model.Info{Provider: "test", Model: "judge", Paid: true} }

func (p pairJudge) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task != model.Pairs {
		return p.Chat.Complete(ctx, call)
	}
	p.bill.mu.Lock()
	defer p.bill.mu.Unlock()
	p.bill.asked[call.User]++
	if strings.Contains(call.User, "CarlaRuiz") {
		return model.Reply{Text: `{"same":true,"why":"one spelling"}`}, nil
	}
	return model.Reply{Text: `{"same":false,"why":"two things"}`}, nil
}

// pairSite has a model decide pairs of names.
func pairSite(t *testing.T, documents int) (*site, *judged) {
	t.Helper()
	files := sample(documents)
	if documents > 0 {
		files["a.md"] = "# Places\n\nThe mole of Lake Verin was raised by Carla Ruiz. The tower was built by CarlaRuiz.\n"
	}
	s, bill := newSite(t, files), &judged{asked: map[string]int{}}
	s.spec.Enrich = []string{pairstage.Enrichment}
	s.spec.Pairs = &core.Pairs{Ask: 1000, Classes: 1000, Cosine: 0.2}
	s.spec.Embedding.Dimension = 8
	s.Models = func(_ core.Spec, meter model.Meter) (model.Set, error) {
		embedder := &stagetest.Embedder{Dim: 8, Free: true}
		return model.Set{Chat: model.MeterChat(pairJudge{bill: bill}, meter), Classes: embedder, Chunks: embedder}, nil
	}
	return s, bill
}

func TestAModelDecidesPairsOfNamesAndNightsAskForNewOnes(t *testing.T) {
	s, bill := pairSite(t, 12)
	s.spec.Enrich = nil
	plain := s.night(t).manifest
	s.spec.Enrich = []string{pairstage.Enrichment}
	s.night(t)
	first := s.current(t)
	made := first.Enrichment(pairstage.Enrichment)
	if made == nil || made.Counts["asked"] < 2 || made.Counts["same"] != 1 || made.Models != "test:judge" ||
		made.Counts["different"] != made.Counts["asked"]-1 || first.Hashes != plain.Hashes {
		t.Fatalf("%+v", made)
	}
	if all, twice := bill.calls(); int64(all) != made.Counts["asked"] || twice != 0 {
		t.Errorf("%d calls of %+v", all, made.Counts)
	}
	if planned := s.night(t).planned; !planned.Unchanged {
		t.Error("the same is made again")
	}
	before, _ := bill.calls()
	s.write(t, map[string]string{"b.md": "# Quay\n\nThe quay of Lake Verin was paid by Nora Zell. Norazell was born in Bern.\n"})
	s.remove(t, "place-003.md")
	s.night(t)
	night := s.current(t)
	all, twice := bill.calls()
	if asked := night.Enrichment(pairstage.Enrichment).Counts["asked"]; all == before || int64(all-before) >= asked || twice != 0 {
		t.Errorf("a night pays for %d of %d pairs, %d twice", all-before, asked, twice)
	}
	fresh, _ := pairSite(t, 0)
	fresh.corpus, fresh.spec.Corpus = s.corpus, s.corpus
	fresh.night(t)
	from := fresh.current(t)
	file := func(m *core.Manifest) string {
		return m.Segments.FilesOf(pairstage.Enrichment, pairstage.Kind)[0].SHA256
	}
	ofNight, ofNothing := night.Enrichment(pairstage.Enrichment), from.Enrichment(pairstage.Enrichment)
	assert.True(t, ofNight.Hash == ofNothing.Hash && file(night) == file(from),
		"%+v, from nothing %+v", ofNight, ofNothing)
	s.spec.Pairs = &core.Pairs{Ask: 1, Classes: 1000, Cosine: 0.2}
	out := s.night(t)
	reasons := strings.Join(s.report(t).Reasons, " ")
	if got := out.manifest.Enrichment(pairstage.Enrichment).Counts["asked"]; got != 1 ||
		!strings.Contains(reasons, "pairs.ask 1000 → 1") {
		t.Errorf("%d asked, %q", got, reasons)
	}
	if now, _ := bill.calls(); now != all {
		t.Errorf("%d calls for pairs that were asked for before", now-all)
	}
}

// What was decided comes with what is suggested: the same first, and what is different last.
func TestDecisionsComeWithSuggestions(t *testing.T) {
	s, _ := pairSite(t, 6)
	s.night(t)
	list, err := release.ListAliases(t.Context(), s.Cache, artifact.New(s.Artifacts, "docs"), s.Vectors,
		&release.Suggest{Classes: 1000, Cosine: 0.2})
	require.True(t, err == nil && len(list.Suggested) >= 2 && len(list.Decided) == len(list.Suggested),
		"%+v, %v", list, err)
	first, last := list.Suggested[0], list.Suggested[len(list.Suggested)-1]
	if first.Name != "CarlaRuiz" || first.Verdict != pairstage.Same || first.Why != "one spelling" || last.Verdict != pairstage.Different {
		t.Errorf("%+v to %+v", first, last)
	}
	list, err = release.ListAliases(t.Context(), s.Cache, artifact.New(s.Artifacts, "docs"), s.Vectors, nil)
	assert.True(t, err == nil && len(list.Decided) >= 2 && len(list.Suggested) == 0, "%+v, %v", list, err)
}

// Rows that the store of vectors has lost, and a damaged file of the generation before, make no difference.
func TestPairsComeToTheSameWhateverWasLost(t *testing.T) {
	whole, _ := pairSite(t, 8)
	whole.night(t)
	more := map[string]string{"b.md": "# Quay\n\nThe quay of Lake Verin was paid by Nora Zell. Norazell was born in Bern.\n"}
	whole.write(t, more)
	whole.night(t)
	want := whole.current(t).Enrichment(pairstage.Enrichment)
	for damage, do := range damages {
		s, _ := pairSite(t, 8)
		s.night(t)
		sha := s.current(t).Segments.FilesOf(pairstage.Enrichment, pairstage.Kind)[0].SHA256
		do(t, s.Artifacts, s.index().SegmentKey(sha))
		s.Cache.Drop(sha)
		s.write(t, more)
		s.before = func(stage string) {
			if stage != "enrich" {
				return
			}
			manifest := s.current(t)
			table, err := segments.OpenClasses(t.Context(), s.Cache, s.index(), manifest)
			require.NoError(t, err)
			defer table.Release()
			var keys []string
			for id, class := range table.ClassesIn("", "") {
				keys = append(keys, core.ClassRowOf(id, class.Vector))
			}
			if err := s.Vectors.Delete(t.Context(), manifest.Collections.Classes, keys); err != nil || len(keys) < 9 {
				t.Fatalf("%d keys, %v", len(keys), err)
			}
		}
		s.night(t)
		assert.Equal(t, want, s.current(t).Enrichment(pairstage.Enrichment), "%s", damage)
	}
}

func TestABuildThatIsKilledWhileItDecidesPairsPaysForNothingTwice(t *testing.T) {
	whole, bill := pairSite(t, 8)
	whole.night(t)
	want := whole.current(t)
	calls, _ := bill.calls()
	died := 0
	for kill := int64(0); kill < 40; kill += 3 {
		s, bill := pairSite(t, 8)
		store := &dying{Store: s.Artifacts}
		store.left.Store(math.MaxInt64)
		s.Artifacts = store
		armed := false
		s.before = func(stage string) {
			if stage == "enrich" && !armed {
				armed = true
				store.left.Store(kill)
			}
		}
		job, holder := s.leased(t)
		_, err := s.stages(t.Context(), job, holder)
		if err != nil {
			died++
			store.left.Store(math.MaxInt64)
			// Behind the flip the engine repeats the publication alone, never the plan.
			pointer, _, reading := s.index().ReadPointer(t.Context())
			if reading == nil && pointer.Generation == job.Generation {
				continue
			}
			_, err = s.stages(t.Context(), job, holder)
		}
		require.NoError(t, err, "killed at write %d", kill)
		got := s.current(t)
		assert.True(t, reflect.DeepEqual(got.Enriched, want.Enriched) && got.Hashes == want.Hashes,
			"killed at write %d: %+v, want %+v", kill, got.Enriched, want.Enriched)
		if all, _ := bill.calls(); all > 2*calls { // what was in flight when it died may be asked for again
			t.Errorf("killed at write %d: %d calls of %d", kill, all, calls)
		}
	}
	assert.True(t, died >= 3, "it died %d times: the test says little", died)
}
