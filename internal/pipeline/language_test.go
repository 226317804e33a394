package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// inLanguages gives a site built-in models by the language of its configuration, and vectors that do not depend on what
// else is in the corpus.
func inLanguages(s *site) {
	steady(s)
	s.Models = func(spec core.Spec, _ model.Meter) (model.Set, error) {
		embedder := &stagetest.Embedder{Dim: 8, Free: true}
		return model.Set{Chat: builtin.Chat{Language: spec.Retrieval.Language}, Classes: embedder, Chunks: embedder}, nil
	}
}

// Promises: 76.
func TestNightsInALanguageComeToWhatABuildFromNothingComesTo(t *testing.T) {
	h := &history{site: newSite(t, nil), random: rand.New(rand.NewPCG(3, 1)), files: map[string]string{}}
	inLanguages(h.site)
	h.spec.Retrieval.Language = "de"
	h.spec.Gate.MaxRemoved, h.spec.Shortening.Threshold, h.spec.Chunking.MaxTokens = 1, 500, 200
	h.shard = 7
	for range 15 {
		h.add(t)
	}
	h.night(t)
	counted := 0
	for range longtest.Count(10, 40) {
		h.change(t)
		counted += len(h.night(t).manifest.Segments.DeadStats)
	}
	if made := h.current(t).Made; made.Analyser != "de/2" || made.Rules != "rules-3 de/2" || counted == 0 {
		t.Errorf("made by %+v, %d dead statistics in all", made, counted)
	}
	fresh := h.anew(t)
	inLanguages(fresh)
	sameGeneration(t, h.runs, h.current(t), fresh.night(t).manifest)
	sameAnswers(t, h.site, fresh, 0, 30)
}

// worded gives the documents that hold words of a question, by the path of queries.
func worded(t *testing.T, s *site, question string) (out []string) {
	t.Helper()
	generation := openGeneration(t, s)
	defer generation.Close()
	result, err := retrieve.Searcher{Vectors: s.Vectors, Records: s.Records}.Run(t.Context(), generation, retrieve.Query{
		Text: question, Method: "bm25", TopChunks: 8,
	})
	require.NoError(t, err)
	for _, chunk := range result.Chunks {
		if !chunk.Filled {
			out = append(out, generation.Live.Key(int(chunk.Live.Document)))
		}
	}
	return out
}

// A change of the language is for the next generation; the one that is served is asked by the language that it has.
// Promises: 76.
func TestAnotherLanguageCountsFromTheNextGenerationOn(t *testing.T) {
	s := newSite(t, map[string]string{
		"haus.md":    "# Eins\n\nAm Ufer stand ein altes Haus mit Garten.\n",
		"bruecke.md": "# Zwei\n\nEine Entscheidung fiel am Abend in Ulm.\n",
		"drei.md":    "# Drei\n\nEs regnete den ganzen Tag.\n",
	})
	inLanguages(s)
	first := s.night(t).manifest
	if got := worded(t, s, "Häuser"); len(got) != 0 {
		t.Fatalf("English finds %q", got)
	}
	if got := first.Made; got.Analyser != "en/3" || got.Rules != "rules-3" {
		t.Errorf("English was made by %+v", got)
	}
	s.spec.Retrieval.Language = "de"
	if got := worded(t, s, "Häuser"); len(got) != 0 {
		t.Fatalf("before the build %q is found", got)
	}
	restart(s)
	second := s.night(t).manifest
	reasons := strings.Join(s.report(t).Reasons, "; ")
	for _, want := range []string{"config: language", "analyser en/3 → de/2", "rules of names rules-3 → rules-3 de/2"} {
		assert.Contains(t, reasons, want, "the reasons")
	}
	assert.Equal(t, []string{"haus.md"}, worded(t, s, "Häuser"), "German finds")
	assert.Equal(t, []string{"bruecke.md"}, worded(t, s, "Entscheidungen"), "German finds")
	if difference := s.difference(t, first.Generation, second.Generation); fmt.Sprint(difference) == "" {
		t.Error("there is no difference")
	}
	restart(s)
	if again := s.night(t); !again.planned.Unchanged {
		t.Errorf("the night after is not unchanged: %v", s.report(t).Reasons)
	}
	_, err := s.act(t, "rollback", first.Generation)
	require.NoError(t, err)
	if got := worded(t, s, "Häuser"); len(got) != 0 {
		t.Errorf("after a rollback English finds %q", got)
	}
	assert.Equal(t, []string{"haus.md"}, worded(t, s, "Haus"), "after a rollback English finds")
}
