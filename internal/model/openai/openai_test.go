package openai_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

func server(t *testing.T, o modeltest.Options) *modeltest.Server {
	t.Helper()
	s := modeltest.New(o)
	require.NoError(t, s.Listen("127.0.0.1:0"))
	t.Cleanup(s.Close)
	return s
}

func TestEmbeddingsComeBackInTheOrderOfTheirTexts(t *testing.T) {
	texts := []string{"alpha one", "beta two", "gamma three", "delta four", "epsilon five"}
	for name, o := range map[string]modeltest.Options{
		"shuffled base64": {Shuffle: true, Dimension: 64},
		"shuffled floats": {Shuffle: true, Float: true, Dimension: 64},
	} {
		t.Run(name, func(t *testing.T) {
			embedder := openai.NewEmbedder(openai.Config{BaseURL: server(t, o).URL, APIKey: "k", Model: "m"})
			vs, usage, err := embedder.Embed(t.Context(), texts)
			require.NoError(t, err)
			for i, x := range texts {
				want := modeltest.Vector(x, 64)
				vectors.Normalise(want)
				for j := range want {
					d := want[j] - vs[i][j]
					require.True(t, d <= 1e-6 && d >= -1e-6, "text %d: component %d is %g, want %g", i, j, vs[i][j], want[j])
				}
			}
			assert.True(t, usage.Prompt != 0 && embedder.Dimension() == 64,
				"usage %d, dimension %d", usage.Prompt, embedder.Dimension())
		})
	}
}

func TestBadEmbeddingsAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		o    modeltest.Options
		dim  int
		want fault.Code
	}{
		"a vector is missing":   {modeltest.Options{Drop: 1}, 0, fault.BadEmbeddings},
		"a vector is NaN":       {modeltest.Options{NaN: true}, 0, fault.BadVector},
		"a vector is zero":      {modeltest.Options{Zero: true}, 0, fault.BadVector},
		"the dimension changed": {modeltest.Options{Dimension: 32}, 64, fault.DimensionChanged},
	} {
		t.Run(name, func(t *testing.T) {
			e := openai.NewEmbedder(openai.Config{BaseURL: server(t, c.o).URL, APIKey: "k", Model: "m", Dimension: c.dim})
			_, _, err := e.Embed(t.Context(), []string{"a b", "c d"})
			assert.True(t, fault.Is(err, c.want), "got %v, want %s", err, c.want)
		})
	}
}

func TestStatusesBecomeFaults(t *testing.T) {
	for name, c := range map[string]struct {
		o    modeltest.Options
		want fault.Code
		kind fault.Kind
	}{
		"wrong key":     {modeltest.Options{Key: "other"}, fault.ModelAuth, fault.Fatal},
		"forbidden":     {modeltest.Options{Status: 403}, fault.ModelAuth, fault.Fatal},
		"unknown model": {modeltest.Options{Model: "other"}, fault.ModelUnknown, fault.Fatal},
		"rate limit":    {modeltest.Options{P429: 1, RetryAfter: 3 * time.Second}, fault.ModelRateLimited, fault.Transient},
		"quota":         {modeltest.Options{Status: 429, ErrorCode: "insufficient_quota"}, fault.ModelQuota, fault.Fatal},
		"server error":  {modeltest.Options{Status: 500}, fault.ModelUnavailable, fault.Transient},
		"timeout":       {modeltest.Options{Status: 408}, fault.ModelUnavailable, fault.Transient},
		"too long": {
			modeltest.Options{Status: 400, ErrorCode: "context_length_exceeded"}, fault.ModelRejected, fault.Content,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c2 := openai.New(openai.Config{BaseURL: server(t, c.o).URL, APIKey: "k", Model: "m"})
			_, err := c2.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})
			assert.True(t, fault.Is(err, c.want) && fault.KindOf(err) == c.kind,
				"got %v (%s, kind %d), want %s, kind %d", err, fault.CodeOf(err), fault.KindOf(err), c.want, c.kind)
			assert.True(t, name != "rate limit" || fault.RetryAfter(err) == 3*time.Second,
				"RetryAfter %s, want 3s", fault.RetryAfter(err))
		})
	}
}

func TestAServerThatIsDownIsTransientAndNamed(t *testing.T) {
	c := openai.New(openai.Config{BaseURL: "http://127.0.0.1:1/v1", APIKey: "k", Model: "m"})
	_, err := c.Complete(context.Background(), model.Call{Task: model.Answer, User: "hello"})
	assert.True(t, fault.Is(err, fault.ModelUnavailable) && fault.As(err).Hint != "", "got %v", err)
}

func TestAHangingCallEndsWithItsTimeout(t *testing.T) {
	c := openai.New(
		openai.Config{
			BaseURL: server(t, modeltest.Options{PHang: 1}).URL,
			APIKey:  "k",
			Model:   "m",
			Timeout: 200 * time.Millisecond,
		},
	)
	_, err := c.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})
	assert.True(t, fault.Is(err, fault.ModelUnavailable), "got %v", err)
}
