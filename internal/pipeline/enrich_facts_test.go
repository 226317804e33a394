package pipeline_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// paidRules are the built-in rules as a model that is paid for.
type paidRules struct {
	builtin.Chat
	triples *atomic.Int64
}

func (p paidRules) Info() model.Info { return model.Info{Provider: "test", Model: "rules", Paid: true} }

func (p paidRules) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task == model.Triples {
		p.triples.Add(1)
	}
	return p.Chat.Complete(ctx, call)
}

// factSite makes facts by rules that are paid for, and counts what was asked.
func factSite(t *testing.T, documents int) (s *site, asked *atomic.Int64, embedder *stagetest.Embedder) {
	t.Helper()
	s, asked, embedder = newSite(t, sample(documents)), &atomic.Int64{}, &stagetest.Embedder{Dim: 8}
	s.spec.Embedding.Dimension = 8
	s.spec.Enrich = []string{"facts"}
	s.Models = func(core.Spec, model.Meter) (model.Set, error) {
		return model.Set{Chat: paidRules{triples: asked}, Classes: embedder, Chunks: embedder}, nil
	}
	return s, asked, embedder
}

func TestFactsFollowTheGenerationAndNightsPayForWhatChanged(t *testing.T) {
	s, asked, _ := factSite(t, 20)
	s.night(t)
	first := s.current(t)
	made := first.Enrichment("facts")
	if made == nil || made.Counts["chunks"] != first.Counts.Chunks || made.Counts["edges"] == 0 || made.Models == "" ||
		asked.Load() != first.Counts.Chunks {
		t.Fatalf("%+v, %d calls", made, asked.Load())
	}
	s.write(t, map[string]string{"place-003.md": "# Harbour 3\n\nPort Alma 3 belongs to Carla Ruiz.\n"})
	before := asked.Load()
	s.night(t)
	night := s.current(t)
	assert.Equal(t, int64(1), asked.Load()-before, "a night of one changed chunk pays for")
	fresh, _, _ := factSite(t, 0)
	fresh.corpus, fresh.spec.Corpus = s.corpus, s.corpus
	fresh.night(t)
	from := fresh.current(t)
	if got, want := night.Enrichment("facts"), from.Enrichment("facts"); got.Hash != want.Hash || got.Hash == made.Hash ||
		night.Hashes != from.Hashes {
		t.Errorf("%+v, from nothing %+v", got, want)
	}
	if got, want := night.Segments.FilesOf("facts", "facts"), from.Segments.FilesOf("facts", "facts"); len(got) != 1 ||
		got[0].SHA256 != want[0].SHA256 {
		t.Errorf("files %v, from nothing %v", got, want)
	}
	s.spec.Enrich = nil
	if plain := s.night(t).manifest; len(plain.Enriched) != 0 || plain.Hashes != night.Hashes {
		t.Errorf("without facts: %+v", plain.Enriched)
	}
}

func TestABuildThatIsKilledWhileItIsEnrichedComesToTheSame(t *testing.T) {
	whole, asked, vectors := factSite(t, 12)
	whole.night(t)
	want, calls := whole.current(t), asked.Load()
	texts := 0
	for _, request := range vectors.Requests() {
		texts += len(request)
	}
	died := 0
	for kill := int64(0); kill < 60; kill += 7 {
		s, asked, vectors := factSite(t, 12)
		store := &dying{Store: s.Artifacts}
		store.left.Store(math.MaxInt64)
		s.Artifacts = store
		armed := false
		s.before = func(stage string) {
			if stage == "enrich" && !armed {
				armed = true
				store.left.Store(kill)
			}
		}
		job, holder := s.leased(t)
		_, err := s.stages(t.Context(), job, holder)
		if err != nil {
			died++
			store.left.Store(math.MaxInt64)
			_, err = s.stages(t.Context(), job, holder)
		}
		require.NoError(t, err, "killed at write %d", kill)
		got := s.current(t)
		if got.Enrichment("facts").Hash != want.Enrichment("facts").Hash || got.Hashes != want.Hashes {
			t.Errorf("killed at write %d: %+v, want %+v", kill, got.Enrichment("facts"), want.Enrichment("facts"))
		}
		again := 0
		for _, request := range vectors.Requests() {
			again += len(request)
		}
		// What was in flight when the process died may be asked for again.
		assert.True(t, asked.Load() <= 2*calls && again <= 2*texts,
			"killed at write %d: %d calls, %d texts; a whole build has %d and %d", kill, asked.Load(), again, calls, texts)
	}
	assert.True(t, died >= 3, "it died %d times: the test says little", died)
}
