package answer

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/neural"
)

// insideAsker embeds questions by other vectors than passages.
type insideAsker struct{ model.Embedder }

func (a insideAsker) Questions() model.Embedder { return insideQuestion(a) }

type insideQuestion struct{ model.Embedder }

func (q insideQuestion) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	for i := range texts {
		texts[i] = "query: " + texts[i]
	}
	return q.Embedder.Embed(ctx, texts)
}

// Promises: 131.
func TestAQuestionIsEmbeddedAsOneByTheWeightsOfItsGeneration(t *testing.T) {
	described, err := neural.Describe("e5", t.TempDir())
	require.NoError(t, err)
	made := core.Fingerprint{Provider: model.Neural, Model: described.Info().Model}
	asked, err := asQuestions(insideAsker{described}, made)
	_, is := asked.(insideQuestion)
	assert.True(t, err == nil && is, "%T, %v", asked, err)
	for _, other := range []string{strings.Replace(made.Model, "1571", "1572", 1), made.Model + "1", "minilm"} {
		made.Model = other
		_, err := asQuestions(described, made)
		assert.True(t, fault.Is(err, fault.EmbedderDown) && strings.Contains(fault.As(err).Hint, "index again"),
			"vectors of %s are compared with those of %s: %v", other, described.Info().Model, err)
	}
}
