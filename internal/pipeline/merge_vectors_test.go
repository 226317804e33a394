package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
)

// merging returns a site whose next night merges vectors segments.
func merging(t *testing.T) *lives {
	t.Helper()
	h := &history{site: newSite(t, sample(12)), random: rand.New(rand.NewPCG(7, 7)), files: map[string]string{}}
	l := &lives{
		history: h, shop: &shop{sold: map[string]int{}}, blobs: h.Artifacts, records: h.Records, vectors: h.Vectors,
	}
	h.spec.Chat = core.ChatModel{Provider: "openai", Model: "chat-0"}
	h.spec.Embedding = core.EmbedModel{Provider: "openai", Model: "embedder-0", Dimension: 8}
	l.survive(t, 0)
	for night := range 6 {
		h.put(t, fmt.Sprintf("new-%d.md", night), h.document())
		out, _ := l.survive(t, 0)
		vectors := out.manifest.Segments.ChunkVecs
		require.True(t, len(vectors) == night+2, "night %d: %d vectors segments", night, len(vectors))
	}
	h.put(t, "new-6.md", h.document())
	return l
}

// again returns the same site in a copy of its stores.
func (l *lives) again(t *testing.T) *lives {
	t.Helper()
	l.Artifacts, l.Records, l.Vectors = l.blobs, l.records, l.vectors
	h := &history{site: l.copied(t), random: l.random, files: l.files}
	return &lives{history: h, shop: l.shop, blobs: h.Artifacts, records: h.Records, vectors: h.Vectors}
}

// A night in which vectors segments are merged may die at any of its writes, of which every third is tried: it comes to
// what it comes to undisturbed, every row that counts is in the segments, and what the store loses afterwards is
// written again from them. Nothing is paid for.
func TestADeathAmidAMergeOfVectorsLosesNothing(t *testing.T) {
	l := merging(t)
	calm, _ := l.again(t).survive(t, 0)
	if vectors := calm.manifest.Segments.ChunkVecs; len(vectors) > 3 {
		t.Fatalf("%d vectors segments of chunks: nothing was merged", len(vectors))
	}
	_, paid := l.shop.twice()
	deaths := 0
	for left := 1; ; left += 3 {
		one := l.again(t)
		one.begin(0, 0)
		job, holder := one.leased(t)
		one.begin(left, float64(left%2))
		out, err := one.stages(t.Context(), job, holder)
		if one.now.alive() == nil {
			require.NoError(t, err)
			break
		}
		deaths++
		one.begin(0, 0)
		if !out.collects {
			_, err = one.stages(t.Context(), job, holder)
			require.NoError(t, err, "death %d", left)
		}
		err = one.unit(t.Context(), job, "end", func(ctx context.Context, work *upkeep.Run) error {
			return work.End(ctx, holder, run.Ending{Status: core.StatusCompleted})
		})
		require.NoError(t, err)
		got := one.current(t)
		sameGeneration(t, left, got, calm.manifest)
		if classes, chunks := wholeVectors(t, one.site, got); chunks != len(calm.manifest.Segments.ChunkVecs) ||
			classes != len(calm.manifest.Segments.ClassVecs) {
			t.Errorf("death %d: %d and %d vectors segments", left, classes, chunks)
		}
		if deaths%8 != 0 {
			continue
		}
		one.vectors = vectorsmemory.New()
		one.begin(0, 0)
		night, _ := one.survive(t, 0)
		assert.True(t, night.planned.Repair != 0, "death %d: the lost vectors were not noticed", left)
		count, err := one.vectors.Count(t.Context(), got.Collections.Chunks)
		assert.True(t, err == nil && count == got.Counts.Windows,
			"death %d: %d of %d rows came back: %v", left, count, got.Counts.Windows, err)
	}
	if _, all := l.shop.twice(); all != paid {
		t.Errorf("%d answers were paid for", all-paid)
	}
	t.Logf("%d deaths", deaths)
	assert.True(t, deaths >= 20, "only %d deaths: too few to prove anything", deaths)
}

// A vectors segment that is damaged is not merged into one that looks like a good one: everything is made
// again from what is paid for.
func TestADamagedVectorsSegmentIsNotMerged(t *testing.T) {
	l := merging(t)
	calm := l.again(t)
	after, _ := calm.survive(t, 0)
	var victims []core.Segment // those that are merged
	for _, one := range l.current(t).Segments.ChunkVecs {
		if !slices.Contains(after.manifest.Segments.ChunkVecs, one) {
			victims = append(victims, one)
		}
	}
	require.True(t, len(victims) >= 4, "%d vectors segments were merged", len(victims))
	for damage, do := range damages {
		one := l.again(t)
		do(t, one.Artifacts, one.index().SegmentKey(victims[1].SHA256))
		one.begin(0, 0)
		out, steps := one.heal(t)
		require.True(t, out.manifest != nil, "%s: %+v after %q", damage, out.published, steps)
		one.whole(t)
		one.Vectors = calm.vectors
		wholeVectors(t, one.site, out.manifest)
		fresh := one.freshSite(t)
		fresh.Models = (&shop{sold: map[string]int{}}).models
		fresh.write(t, sample(12))
		sameGeneration(t, 0, out.manifest, fresh.night(t).manifest)
	}
}
