package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/config"
)

func TestAModelInsideHasItsOwnLongestInput(t *testing.T) {
	for setting, want := range map[string]int{
		"models.embedding.max_input_tokens=8192": 400, "models.embedding.max_input_tokens=0": 400,
		"models.embedding.max_input_tokens=300": 300,
	} {
		cfg := must(config.Load(config.Source{Set: []string{"models.embedding.model=e5", setting}}))(t)
		spec, err := cfg.Spec("docs", "")
		assert.True(t, err == nil && spec.Embedding.MaxInputTokens == want && spec.Embedding.IsInside(),
			"%s: %d tokens, want %d, %v", setting, spec.Embedding.MaxInputTokens, want, err)
	}
	cfg := must(config.Load(config.Source{}))(t)
	if spec, err := cfg.Spec("docs", ""); err != nil || spec.Embedding.IsInside() || spec.Embedding.MaxInputTokens != 8192 {
		t.Errorf("the default is lexical vectors: %+v, %v", spec.Embedding, err)
	}
}

func TestClassesAreLexicalBesideAModelInsideUnlessItIsSaid(t *testing.T) {
	for want, set := range map[string][]string{
		"lexical": {"models.embedding.model=e5"},
		"model":   {"models.embedding.model=e5", "models.embedding.classes=model"},
		"model ":  {"models.embedding.provider=openai", "models.embedding.model=server"},
	} {
		cfg := must(config.Load(config.Source{Set: set}))(t)
		spec := must(cfg.Spec("docs", ""))(t)
		assert.Equal(t, strings.TrimSpace(want), spec.Embedding.Classes, "%v", set)
	}
}

func TestAModelInsideIsOneThatThereIs(t *testing.T) {
	for says, set := range map[string][]string{
		"not a built-in model": {"models.embedding.model=e6"},
		"want 0 or 384":        {"models.embedding.model=minilm", "models.embedding.dimension=512"},
	} {
		_, err := config.Load(config.Source{Set: set})
		assert.True(t, err != nil && strings.Contains(err.Error(), says), "%v: %v", set, err)
	}
}
