package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/neural"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func inside(name string) core.Spec {
	return core.Spec{
		Index: "docs", Chat: core.ChatModel{Provider: "builtin"},
		Embedding: core.EmbedModel{Provider: "builtin", Model: name, Classes: "model", MaxInputTokens: 400},
	}
}

func insideModels(dir string) *Models {
	own := config.Default()
	own.Models.Dir = dir
	return NewModels(nil, own)
}

// Weights that are missing, damaged or of an unknown model: no lexical vectors in their place.
// Promises: 131.
func TestAModelInsideWithoutItsWeightsIsRefused(t *testing.T) {
	damaged := t.TempDir()
	e5, _ := neural.Find("e5")
	require.NoError(t, os.MkdirAll(filepath.Join(damaged, "e5"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(damaged, "e5", e5.Files[0].Name), []byte("E5S1"), 0o600))
	for name, c := range map[string]struct{ model, dir, says string }{
		"missing": {"e5", t.TempDir(), "unweaver models pull e5"},
		"damaged": {"e5", damaged, "unweaver models pull e5"},
		"unknown": {"text-embedding-3-small", damaged, "e5-en-pt"},
	} {
		t.Run(name, func(t *testing.T) {
			models, spec := insideModels(c.dir), inside(c.model)
			_, built := models.NewBuildSet(spec, nil)
			_, asked := models.Embedder(spec, Provider(spec), 0)
			for what, err := range map[string]error{"build": built, "query": asked, "check": models.Check(spec)} {
				assert.True(t, fault.IsRefusal(err) && strings.Contains(fault.As(err).Hint, c.says), "%s: %v", what, err)
			}
			_, err := models.Describe(spec)
			assert.True(t, (err == nil) == (c.model == "e5"), "an estimate needs no weights, and a model that there is: %v", err)
			err = models.UseRemote().Check(spec)
			assert.True(t, (err == nil) == (c.model == "e5"), "who starts builds elsewhere needs no weights: %v", err)
		})
	}
}

func TestClassesMayBeLexicalBesideAModelInside(t *testing.T) {
	spec := inside("minilm")
	for classes, want := range map[string]string{"model": model.Neural, "lexical": "builtin"} {
		spec.Embedding.Classes = classes
		set, err := insideModels(t.TempDir()).Describe(spec)
		assert.True(t, err == nil && set.Chunks.Info().Provider == model.Neural && set.Classes.Info().Provider == want,
			"%s: %+v, %v", classes, set.Classes.Info(), err)
	}
	lexical := inside("")
	set, err := insideModels(t.TempDir()).NewBuildSet(lexical, nil)
	assert.True(t, err == nil && set.Chunks.Info() == (builtin.Embedder{}).Info() && Provider(lexical) == "builtin",
		"nothing named is lexical vectors: %v", err)
}

// The language of an index reaches the models inside: those of a build, and those that only tell what they are.
func TestModelsInsideAreOfTheLanguageOfTheIndex(t *testing.T) {
	spec := inside("")
	spec.Retrieval.Language = "pt"
	models := insideModels(t.TempDir())
	built := musttest.Get(models.NewBuildSet(spec, nil))(t)
	described := musttest.Get(models.Describe(spec))(t)
	chat, embedder := builtin.Chat{Language: "pt"}.Info(), builtin.Embedder{Language: "pt"}.Info()
	for _, set := range []model.Set{built, described} {
		assert.True(t, set.Chat.Info() == chat && set.Chunks.Info() == embedder && set.Classes.Info() == embedder,
			"%v, %v, %v", set.Chat.Info(), set.Chunks.Info(), set.Classes.Info())
	}
}

// What lies in the user's folder is used where it is there.
func TestAModelInsideEmbedsAndIsMetered(t *testing.T) {
	for _, name := range neural.Names() {
		if neural.Verify(name, neural.Directory()) != nil {
			t.Logf("NOT TESTED: the weights of %s are not in %s; `make models` fetches them", name, neural.Directory())
			continue
		}
		counted := &countedTexts{}
		set := musttest.Get(insideModels("").NewBuildSet(inside(name), counted))(t)
		vectors, usage, err := set.Classes.Embed(t.Context(), []string{"Niels Bohr", ""})
		assert.True(t, err == nil && len(vectors) == 2 && len(vectors[0]) == set.Chunks.Dimension() && usage.Prompt != 0,
			"%s: %v", name, err)
		assert.True(t, set.Chunks.Info().Paid && counted.begun == 1, "%s: %d requests counted", name, counted.begun)
	}
}

type countedTexts struct{ begun int }

func (c *countedTexts) Begin(context.Context, string, int64) (func(model.Usage, bool), error) {
	c.begun++
	return func(model.Usage, bool) {}, nil
}
