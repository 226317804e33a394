package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
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
	if made := h.current(t).Made; made.Analyser != "de/2" || made.Rules != "rules-6 de/2" || counted == 0 {
		t.Errorf("made by %+v, %d dead statistics in all", made, counted)
	}
	fresh := h.freshSite(t)
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
	if err != nil {
		t.Fatal(err)
	}
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
	if got := first.Made; got.Analyser != "en/3" || got.Rules != "rules-6" {
		t.Errorf("English was made by %+v", got)
	}
	s.spec.Retrieval.Language = "de"
	if got := worded(t, s, "Häuser"); len(got) != 0 {
		t.Fatalf("before the build %q is found", got)
	}
	restart(s)
	second := s.night(t).manifest
	reasons := strings.Join(s.report(t).Reasons, "; ")
	for _, want := range []string{"config: language", "analyser en/3 → de/2", "rules of names rules-6 → rules-6 de/2"} {
		if !strings.Contains(reasons, want) {
			t.Errorf("the reasons are %s", reasons)
		}
	}
	if got := worded(t, s, "Häuser"); !slices.Equal(got, []string{"haus.md"}) {
		t.Errorf("German finds %q", got)
	}
	if got := worded(t, s, "Entscheidungen"); !slices.Equal(got, []string{"bruecke.md"}) {
		t.Errorf("German finds %q", got)
	}
	if difference := s.difference(t, first.Generation, second.Generation); fmt.Sprint(difference) == "" {
		t.Error("there is no difference")
	}
	restart(s)
	if again := s.night(t); !again.planned.Unchanged {
		t.Errorf("the night after is not unchanged: %v", s.report(t).Reasons)
	}
	if _, err := s.act(t, "rollback", first.Generation); err != nil {
		t.Fatal(err)
	}
	if got := worded(t, s, "Häuser"); len(got) != 0 {
		t.Errorf("after a rollback English finds %q", got)
	}
	if got := worded(t, s, "Haus"); !slices.Equal(got, []string{"haus.md"}) {
		t.Errorf("after a rollback English finds %q", got)
	}
}

// A build in auto comes to what one in the language of its corpus comes to, and nights keep it whatever is added.
// Promises: 76.
func TestTheLanguageOfTheCorpusIsFoundOnceAndKept(t *testing.T) {
	documents := map[string]string{}
	for i := range 4 {
		documents[fmt.Sprintf("%d.md", i)] = fmt.Sprintf("Am Ufer stand das Haus Nummer %d, und in dem Haus war es nicht warm.\n", i)
	}
	s, named := newSite(t, documents), newSite(t, documents)
	inLanguages(s)
	inLanguages(named)
	s.spec.Retrieval.Language, named.spec.Retrieval.Language = core.LanguageAuto, "de"
	first, want := s.night(t).manifest, named.night(t).manifest
	spec, err := s.index().Spec(t.Context(), first.Spec)
	require.NoError(t, err)
	assert.Equal(t, "de", spec.Retrieval.Language)
	assert.Equal(t, want.Made, first.Made)
	assert.Equal(t, want.Hashes, first.Hashes)
	assert.Equal(t, 4, len(worded(t, s, "Häuser")))
	restart(s)
	assert.True(t, s.night(t).planned.Unchanged)
	// What was found is written again where the configuration that names it is damaged.
	_, err = blob.Write(t.Context(), s.Artifacts, s.index().SpecKey(first.Spec), []byte("{}"), blob.Cond{})
	require.NoError(t, err)
	restart(s)
	s.night(t)
	again, err := s.index().Spec(t.Context(), first.Spec)
	require.NoError(t, err)
	assert.Equal(t, spec, again)
	for i := range 9 {
		s.write(t, map[string]string{fmt.Sprintf("en%d.md", i): "It is the one that was not in the house, and it is the last of them.\n"})
	}
	restart(s)
	second := s.night(t)
	assert.Equal(t, first.Made, second.manifest.Made)
	assert.Empty(t, s.report(t).Reasons)
}
