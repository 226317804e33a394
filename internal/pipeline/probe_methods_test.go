package pipeline_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
)

// askedEmbedder embeds questions otherwise than passages, and records them.
type askedEmbedder struct {
	model.Embedder
	mu    *sync.Mutex
	asked *[]string
}

func (e askedEmbedder) Questions() model.Embedder {
	return recordedQuestions{e.Embedder, e.mu, e.asked}
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
