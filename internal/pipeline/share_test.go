package pipeline_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/sampling"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// Which chunks a model gets depends on nothing but the chunks and the share: nights on which documents come and go, and
// nights after the share was changed, come to what a build from nothing comes to.
// Promises: 78.
func TestNightsOfAShareComeToWhatABuildFromNothingComesTo(t *testing.T) {
	var sent atomic.Int64
	spared := int64(0)
	h := &history{site: newSite(t, nil), random: rand.New(rand.NewPCG(5, 1)), files: map[string]string{}}
	sharing := func(s *site) {
		steady(s)
		chat := &stagetest.Chat{Free: true, Answer: func(call model.Call) (model.Reply, error) {
			if call.Task != model.Extract {
				return builtin.Chat{}.Complete(t.Context(), call)
			}
			if !sampling.ShouldSend(call.Input, s.spec.ExtractionShare()) {
				return model.Reply{}, fmt.Errorf("a chunk was sent that is not of the share: %.40q", call.Input)
			}
			sent.Add(1)
			raw, err := json.Marshal(map[string]any{"entities": []map[string]string{
				{"name": "Ledger of " + call.Input[:12], "description": "as the model says"},
				{"name": pick(rand.New(rand.NewPCG(uint64(len(call.Input)), 3)), places), "description": "a place"},
			}})
			return model.Reply{Text: string(raw)}, err
		}}
		s.Models = func(core.Spec, model.Meter) (model.Set, error) {
			embedder := &stagetest.Embedder{Dim: 8, Free: true}
			return model.Set{Chat: chat, Classes: embedder, Chunks: embedder}, nil
		}
	}
	sharing(h.site)
	h.spec.Gate.MaxRemoved, h.spec.Chunking.MaxTokens, h.shard = 1, 200, 7
	h.spec.Extraction = &core.Extraction{Share: 0.3}
	for range 15 {
		h.add(t)
	}
	h.night(t)
	for night := range longtest.Count(6, 20) {
		if night%5 == 3 { // the dial is turned, back and forth
			h.spec.Extraction = &core.Extraction{Share: 1 - h.spec.ExtractionShare()}
		}
		h.change(t)
		out := h.night(t)
		if out.planned.Unchanged || out.manifest.Generation != fmt.Sprintf("g%03d", h.runs) {
			continue
		}
		fresh := h.freshSite(t)
		sharing(fresh)
		before := sent.Load()
		want := fresh.night(t)
		spared += want.manifest.Counts.Chunks - (sent.Load() - before)
		sameGeneration(t, night, out.manifest, want.manifest)
	}
	assert.True(t, sent.Load() != 0 && spared != 0,
		"%d chunks were sent and %d were not: nothing was shown", sent.Load(), spared)
}
