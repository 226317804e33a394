package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// probing has nights ask probe questions.
func (s *site) probing(t *testing.T, lines ...string) {
	sum := must(s.index().PutProbes(t.Context(), []byte(strings.Join(lines, "\n"))))(t)
	s.spec.Gate.Probes = core.SentFile + sum
}

func probeOf(place int) string {
	return fmt.Sprintf(`{"question":"Who built the harbour of Port Alma %d?","documents":["place-%03d.md"]}`, place, place)
}

// A night on which the answers of some documents went is held by the questions that ask for them, can be asked and
// compared, and is served once somebody says so; what it paid is paid once.
// Promises: 4, 38.
func TestANightWhoseRecallFellIsHeldUntilSomebodyApproves(t *testing.T) {
	s := newSite(t, sample(12))
	s.spec.Gate.MaxRecallDrop = 0.2
	s.probing(t, probeOf(1), probeOf(2), probeOf(3), probeOf(4))
	first := s.night(t)
	require.True(t, first.published.Status == core.StatusCompleted,
		"a first build has nothing to be compared with: %+v, %q", first.published, s.report(t).Detail)
	found := s.report(t).Probes
	require.True(t, found != nil && found.Asked == 4 && found.Recall == 1 && found.Before == nil && found.Chunks == 5,
		"%+v", found)
	for place := 1; place <= 2; place++ { // within max_removed
		require.NoError(t, os.Remove(filepath.Join(s.corpus, fmt.Sprintf("place-%03d.md", place))))
	}
	night := s.night(t)
	require.True(t, night.published.Status == core.StatusHeld && night.published.Reason == "recall" &&
		s.pointer(t).Generation == "g001", "%+v", night.published)
	report := s.report(t)
	for _, part := range []string{
		"fell from 1.000 to 0.500", "the accepted drop is 0.2", "Port Alma 1?; Who built the harbour of Port Alma 2?",
	} {
		assert.Contains(t, report.Detail, part)
	}
	assert.True(t, report.Probes != nil && *report.Probes.Before == 1 && report.Probes.Recall == 0.5 &&
		report.ContentHash != "", "%+v", report.Probes)
	if _, err := s.act(t, core.ActionPublish, "g002"); err != nil || s.pointer(t).Generation != "g002" {
		t.Errorf("approved: %v, %s is served", err, s.pointer(t).Generation)
	}
	// The next one is compared with what was approved. The file now names what neither generation has.
	if night := s.changed(t); night.published.Reason != "probes_invalid" ||
		!strings.Contains(s.report(t).Detail, "line 1: place-001.md; line 2: place-002.md") {
		t.Errorf("%+v, %q", night.published, s.report(t).Detail)
	}
	s.probing(t, probeOf(3), probeOf(4))
	s.spec.Chunking.MaxTokens = 900
	night = s.night(t)
	assert.True(t, night.published.Status == core.StatusCompleted, "%+v, %q", night.published, s.report(t).Detail)
}

// The generation before can be asked its questions though the chat server that it was made with is no
// longer configured: only its embedders are asked.
func TestProbesNeedNoModelButTheEmbedders(t *testing.T) {
	s := newSite(t, sample(8))
	s.probing(t, probeOf(3), probeOf(4))
	const gone = "http://gone.example/v1"
	former, refused := s.Models, false
	s.Models = func(spec core.Spec, meter model.Meter) (model.Set, error) {
		if refused && spec.Chat.BaseURL != "" {
			return model.Set{}, fault.EndpointRefused.At("use models.chat.base_url", gone)
		}
		spec.Chat.BaseURL = ""
		return former(spec, meter)
	}
	s.spec.Chat.BaseURL = gone
	s.night(t)
	s.spec.Chat.BaseURL, refused = "", true
	night := s.changed(t)
	report := s.report(t)
	assert.True(t, night.published.Status == core.StatusCompleted && report.Probes != nil && report.Probes.Before != nil,
		"%+v, %q", night.published, report.Detail)
}

// Promises: 38.
func TestAProbeFileThatNamesMissingDocumentsHoldsAlsoAFirstBuild(t *testing.T) {
	s := newSite(t, sample(6))
	s.probing(t, probeOf(1), "", `{"question":"Where is Atlantis?","documents":["place-002.md","atlantis.md"]}`)
	night := s.night(t)
	assert.True(t, night.published.Reason == "probes_invalid" &&
		strings.Contains(s.report(t).Detail, "its parent: line 3: atlantis.md (indexes.docs.gate.probes)"),
		"%+v, %q", night.published, s.report(t).Detail)
}

// Promises: 38.
func TestAParentThatCannotBeAskedItsProbesHoldsTheNight(t *testing.T) {
	s := newSite(t, sample(3))
	s.spec.Retrieval.Method = "of-a-later-version"
	s.night(t)
	s.spec.Retrieval.Method = "hybrid"
	s.probing(t, probeOf(1))
	night := s.changed(t)
	assert.True(t, night.published.Reason == "probes_invalid" &&
		strings.Contains(s.report(t).Detail, "the parent generation cannot answer"), "%+v", night.published)
}

// What is wrong with a probe file is known before anything is read or paid for.
// Promises: 38.
func TestABadProbeFileEndsARunBeforeItReadsTheCorpus(t *testing.T) {
	s := newSite(t, sample(6))
	probes := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(probes, "good.jsonl"), []byte(probeOf(1)), 0o600))
	corpora := s.Corpora
	s.Corpora = func(ctx context.Context, uri string) (blob.Store, error) {
		if uri == "s3://probes/docs/" {
			return corpora(ctx, probes)
		}
		return corpora(ctx, uri)
	}
	for where, says := range map[string]string{
		"/etc/hosts": "neither an object of a bucket", "s3://probes/docs/none.jsonl": "the object does not exist",
		"s3://probes/docs/":       "neither an object of a bucket",
		core.SentFile + "00":      "the object does not exist",
		core.SentFile + "../../x": "",
	} {
		s.spec.Gate.Probes = where
		_, err := s.try(t, &how{})
		assert.True(t, err != nil && strings.Contains(err.Error(), says) && (says == "" || fault.Is(err, fault.BadConfig)),
			"%s: %v", where, err)
	}
	s.probing(t, `{"question":"x"}`)
	refused(s.try(t, &how{}))(t, fault.BadConfig, "line 1", "without documents")
	s.spec.Gate.Probes = "s3://probes/docs/good.jsonl"
	if night := s.night(t); night.published.Status != core.StatusCompleted || s.report(t).Probes.Recall != 1 {
		t.Errorf("%+v", night.published)
	}
}

// Promises: 38.
func TestARunOutOfProportionIsHeld(t *testing.T) {
	s := newPaidSite(t, 10, calm)
	s.spec.Gate.MaxSizeChange = 0.25
	s.night(t)
	for i := range 4 {
		s.write(t, map[string]string{fmt.Sprintf("more-%d.md", i): fmt.Sprintf("# More %d\n\nThe ferry goes to Tolmin.\n", i)})
	}
	if night := s.night(t); night.published.Reason != "size_jump" ||
		!strings.Contains(s.report(t).Detail, "14 passages, the generation before had 10 (+40 %)") {
		t.Errorf("%+v, %q", night.published, s.report(t).Detail)
	}
	s.spec.Gate.MaxSizeChange, s.spec.Gate.MaxCost = 0, 1e-6
	s.write(t, map[string]string{"dear.md": "# Dear\n\nThe train goes to Most na Soči.\n"})
	assert.Equal(t, "cost_jump", s.night(t).published.Reason, s.report(t).Detail)
}

// askedEmbedder embeds questions otherwise than passages, and records them.
type askedEmbedder struct {
	model.Embedder
	mu    *sync.Mutex
	asked *[]string
}

func (e askedEmbedder) Questions() model.Embedder {
	return recordedQuestions(e)
}

type recordedQuestions askedEmbedder

func (e recordedQuestions) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	e.mu.Lock()
	*e.asked = append(*e.asked, texts...)
	e.mu.Unlock()
	return e.Embedder.Embed(ctx, texts)
}

// Probe questions are embedded as questions, with what their method reads of them.
func TestProbesAreReadAndEmbeddedAsQueriesAre(t *testing.T) {
	const question = "Where does the canal of Port Alma 3 lead?"
	for method, enrichment := range map[string]string{"unweaver": "", "vector": "", "apr": "facts"} {
		t.Run(method, func(t *testing.T) {
			s := newSite(t, sample(6))
			var asked []string
			var mu sync.Mutex
			plain := s.Models
			s.Models = func(spec core.Spec, meter model.Meter) (model.Set, error) {
				set, err := plain(spec, meter)
				if err == nil {
					set.Classes = askedEmbedder{set.Classes, &mu, &asked}
					set.Chunks = askedEmbedder{set.Chunks, &mu, &asked}
				}
				return set, err
			}
			s.spec.Retrieval.Method = method
			read := enrichment != ""
			if read {
				s.spec.Enrich = []string{enrichment}
			}
			s.probing(t, `{"question":"`+question+`","documents":["place-003.md"]}`)
			require.Equal(t, core.StatusCompleted, s.night(t).published.Status, "%q", s.report(t).Detail)
			assert.True(t, slices.Contains(asked, question), "asked as questions: %q", asked)
			others := slices.DeleteFunc(asked, func(text string) bool { return text == question })
			assert.Equal(t, read, len(others) > 0, "read of the question: %q", others)
			assert.True(t, !read || strings.Contains(strings.Join(others, "\n"), "Port Alma"), "%q", others)
		})
	}
}
