package pipeline_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// A memory is that of a build from nothing after nights of changes, leaves everything else as it was, and answers.
// Promises: 87.
func TestNightsOfAMemoryComeToWhatABuildFromNothingComesTo(t *testing.T) {
	s := newSite(t, sample(30))
	steady(s)
	s.spec.Keep, s.spec.Gate.MaxRemoved = 2, 1
	plain := s.night(t).manifest
	s.spec.Enrich = []string{"gem"}
	s.night(t)
	first := s.current(t)
	made := first.Enrichment("gem")
	if made == nil || made.Counts["chunks"] != first.Counts.Chunks || made.Counts["questions"] == 0 ||
		made.Counts["themes"] == 0 || first.Hashes != plain.Hashes {
		t.Fatalf("%+v, hashes %v, without it %v", made, first.Hashes, plain.Hashes)
	}
	if planned := s.night(t).planned; !planned.Unchanged {
		t.Error("the same is made again")
	}
	s.write(t, map[string]string{
		"place-003.md": "# Harbour 3\n\nCaptain Ivar Moe closed Harbour Tangen in 1931.\n",
		"new.md":       "# Quay\n\nEngineer Ada Lund built the Quay of Skarnes.\n",
	})
	s.night(t)
	night := s.current(t)
	fresh := newSite(t, nil)
	steady(fresh)
	fresh.corpus, fresh.spec.Corpus = s.corpus, s.corpus
	fresh.spec.Enrich = s.spec.Enrich
	fresh.night(t)
	from := fresh.current(t)
	if night.Enrichment("gem").Hash != from.Enrichment("gem").Hash || night.Hashes != from.Hashes {
		t.Errorf("%+v, from nothing %+v", night.Enrichment("gem"), from.Enrichment("gem"))
	}
	assert.True(t, night.Enrichment("gem").Hash != made.Hash, "other chunks have the same memory")
	for _, kind := range []string{"questions", "spectral", "themes"} {
		a, b := night.Segments.FilesOf("gem", kind), from.Segments.FilesOf("gem", kind)
		assert.True(t, len(a) == 1 && len(b) == 1 && a[0].SHA256 == b[0].SHA256, "%s: %v, from nothing %v", kind, a, b)
	}
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
		t.Helper()
		enrich.SetSettings(&s.spec, gem.Name, set, gem.Settings{})
		planned := s.night(t).planned
		require.Equal(t, len(want) == 0, planned.Unchanged, "unchanged")
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
	if made := two.Enrichment("gem"); made.Counts["questions"] > 2*made.Counts["chunks"] {
		t.Errorf("%+v", made)
	}
	set.Themes = 1
	if made := night("gem.themes 12 → 1", "no question is generated again").Enrichment("gem"); made.Counts["themes"] != 1 {
		t.Errorf("%+v", made)
	}
	set.Neighbours = 3
	night("gem.neighbours 20 → 3")
	night()

	s.write(t, map[string]string{"new.md": "# Quay\n\nEngineer Ada Lund built the Quay of Skarnes.\n"})
	s.night(t)
	made := s.current(t).Enrichment("gem")
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
	if made.Counts["failed"] != 1 || made.Counts["by_text"] != 1 || len(report.Enriched) != 1 ||
		report.Enriched[0].Counts["failed"] != 1 {
		t.Fatalf("%+v, report %+v", made, report.Enriched)
	}
	before := asked.Load()
	if planned := s.night(t).planned; !planned.Unchanged || asked.Load() != before {
		t.Errorf("unchanged: %v, %d questions more", planned.Unchanged, asked.Load()-before)
	}
	fails.Store(false)
	s.attempt = 1
	s.night(t)
	if reasons := s.report(t).Reasons; !slices.Contains(reasons,
		"enrich: gem: 1 chunks without a usable answer are retried") {
		t.Errorf("%q", reasons)
	}
	summaries := made.Counts["themes"]
	if again := s.current(t).Enrichment("gem"); again.Counts["failed"] != 0 || asked.Load()-before > 1+summaries {
		t.Errorf("%+v, %d calls", again, asked.Load()-before)
	}
}
