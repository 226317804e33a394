package pipeline_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

var years = regexp.MustCompile(`19\d\d`)

// typing gives a site a chat model that names the years of a text. Which type a year has depends on the text, so that
// the type of a class may change with no other change of it.
func typing(t *testing.T, s *site) {
	steady(s)
	chat := &stagetest.Chat{Free: true, Answer: func(call model.Call) (model.Reply, error) {
		if call.Task != model.Extract {
			return builtin.Chat{}.Complete(t.Context(), call)
		}
		list := []map[string]string{}
		for _, year := range slices.Compact(slices.Sorted(slices.Values(years.FindAllString(call.Input, -1)))) {
			kind := []string{"early", "Late", "golden"}[len(call.Input)%3]
			list = append(list, map[string]string{"name": year, "description": "", "type": kind})
		}
		raw, err := json.Marshal(map[string]any{"entities": list})
		return model.Reply{Text: string(raw)}, err
	}}
	s.Models = func(core.Spec, model.Meter) (model.Set, error) {
		embedder := &stagetest.Embedder{Dim: 8, Free: true}
		return model.Set{Chat: chat, Classes: embedder, Chunks: embedder}, nil
	}
}

// typesOf returns the types of the classes that are served.
func typesOf(t *testing.T, s *site) map[string]string {
	generation := openGeneration(t, s)
	defer generation.Close()
	out := map[string]string{}
	for i := range generation.Live.Names() {
		out[generation.Live.Name(i)] = generation.Live.TypeAt(generation.Live.PlaceByName(i))
	}
	return out
}

// Nights of an index with types come to what a build from nothing comes to, also where nothing of a class changes but
// its type, and after the types have changed.
// Promises: 150.
func TestNightsOfTypesComeToWhatABuildFromNothingComesTo(t *testing.T) {
	h := &history{site: newSite(t, nil), random: rand.New(rand.NewPCG(7, 1)), files: map[string]string{}}
	typing(t, h.site)
	h.spec.Gate.MaxRemoved, h.spec.Chunking.MaxTokens, h.shard = 1, 200, 7
	h.spec.Extraction = &core.Extraction{Share: 1, Types: []string{"Early", "Late"}}
	for range 15 {
		h.add(t)
	}
	h.night(t)
	before, turned := typesOf(t, h.site), 0
	for night := range longtest.Count(8, 30) {
		if night == 5 {
			h.spec.Extraction = &core.Extraction{Share: 1, Types: []string{"Early", "Golden"}}
		}
		h.change(t)
		out := h.night(t)
		if out.planned.Unchanged || out.manifest.Generation != fmt.Sprintf("g%03d", h.runs) {
			continue
		}
		fresh := h.freshSite(t)
		typing(t, fresh)
		sameGeneration(t, night, out.manifest, fresh.night(t).manifest)
		now := typesOf(t, h.site)
		assert.Equal(t, typesOf(t, fresh), now, "night %d", night)
		for name, kind := range now {
			if night < 5 && before[name] != "" && kind != before[name] {
				turned++
			}
		}
		before = maps.Clone(now)
	}
	assert.NotZero(t, turned, "no class got another type: nothing was shown")
}
