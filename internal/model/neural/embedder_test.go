package neural

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model"
)

// While all cores are taken a passage waits, with signs of life, and a question does not.
func TestAQuestionDoesNotWaitForPassages(t *testing.T) {
	e := randomModels()[0].open(t)
	for range cap(cores) {
		cores <- struct{}{}
	}
	freed := false
	free := func() {
		for range cap(cores) {
			<-cores
		}
		freed = true
	}
	defer func() {
		if !freed {
			free()
		}
	}()
	_, _, err := e.Questions().Embed(t.Context(), []string{"the river"})
	require.NoError(t, err)
	signs := make(chan struct{}, 100)
	waiting, cancel := context.WithCancel(model.WithSign(t.Context(), func() { signs <- struct{}{} }))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, _, err := e.Embed(waiting, []string{"the river"})
		ended <- err
	}()
	<-signs
	<-signs // it waits, and lives
	select {
	case err := <-ended:
		t.Fatalf("a passage did not wait: %v", err)
	default:
	}
	free()
	assert.NoError(t, <-ended)
}

func TestQuestionsAndPassagesHaveTheirPrefix(t *testing.T) {
	e := randomModels()[0].open(t)
	bare := e
	bare.prefix = ""
	vector := func(e model.Embedder, text string) []float32 {
		vectors, _, err := e.Embed(t.Context(), []string{text})
		require.NoError(t, err)
		return vectors[0]
	}
	assert.True(t, slices.Equal(vector(e, "a"), vector(bare, "passage: a")) &&
		slices.Equal(vector(model.ForQuestions(e), "a"), vector(bare, "query: a")), "e5 requires its prefixes")
	// Decorators are passed through.
	set := model.Set{Chunks: e, Classes: e}.WithSign(func() {})
	assert.True(t, slices.Equal(vector(model.ForQuestions(set.Chunks), "a"), vector(bare, "query: a")),
		"a decorator hides questions")
	minilm := randomModels()[1].open(t)
	assert.True(t, slices.Equal(vector(minilm, "a"), vector(minilm.Questions(), "a")), "minilm has none")
}

func TestAModelThatIsDescribedMeasuresItsSpeed(t *testing.T) {
	made, directory := randomModels()[0], t.TempDir()
	described, err := Describe(made.name, directory)
	require.NoError(t, err)
	_, err = described.Speed(t.Context())
	require.Error(t, err, "there are no weights")
	openMu.Lock()
	opened[described.model.Identity()+" "+directory] = made.open(t).loaded
	openMu.Unlock()
	speed, err := described.Speed(t.Context())
	assert.True(t, err == nil && speed > 0, "%g tokens a second, %v", speed, err)
}

func TestIdentityNamesAllWeights(t *testing.T) {
	for _, m := range Models {
		other := m
		other.Files = slices.Clone(m.Files)
		other.Files[len(other.Files)-1].SHA256 = "00"
		assert.True(t, other.Identity() != m.Identity(), "%s: other weights have the same fingerprint", m.Name)
	}
}
