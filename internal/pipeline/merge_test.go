package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// A segment whose content is that of its name, and does not fit the others of its split, is damage too.
func TestASegmentThatDoesNotFitItsSplitMendsItselfInTheSameRun(t *testing.T) {
	first := builtSite(t, sample(12))
	other := newSite(t, sample(40))
	strange := other.night(t).manifest.Segments.Mentions[0] // by chunks that the split does not have
	raw := contentOf(t, other.Artifacts, other.index().SegmentKey(strange.SHA256))
	key := first.index().SegmentKey(strange.SHA256)
	must(first.Artifacts.Put(t.Context(), key, bytes.NewReader(raw), int64(len(raw)), blob.Cond{}))(t)
	first.forge(t, func(manifest *core.Manifest) { manifest.Segments.Mentions[0] = strange })
	first.write(t, edited())
	way := &how{}
	night, err := first.try(t, way)
	require.True(t, err == nil && night.published.Status == core.StatusCompleted && way.restarted,
		"%+v, restarted %v, %v", night.published, way.restarted, err)
	first.whole(t)
}

func contentOf(t *testing.T, store blob.Store, key string) []byte {
	body, _ := must2(store.Get(t.Context(), key, blob.All))(t)
	raw, err := io.ReadAll(body)
	require.NoError(t, errors.Join(err, body.Close()))
	return raw
}

// edited returns four documents of sample(12) as they are changed.
func edited() map[string]string {
	edits := map[string]string{}
	for i := range 4 {
		name := fmt.Sprintf("place-%03d.md", i)
		edits[name] = sample(12)[name] + "\n\nMore salt of Tolmin goes to Port Alma.\n"
	}
	return edits
}

// beforeMerge returns a site with a generation whose next night merges all that it has, and what that night comes to.
func beforeMerge(t *testing.T) (*site, *core.Manifest) {
	s := builtSite(t, sample(12))
	s.write(t, edited())
	sound := s.copied(t).night(t).manifest
	require.True(t, len(sound.Segments.Tombs) == 0, "nothing was merged: %+v", sound.Segments.Tombs)
	return s, sound
}

// Two attempts of one merge at once, as where a worker was lost sight of that goes on, write the same.
func TestTwoMergesAtOnceWriteTheSame(t *testing.T) {
	s, sound := beforeMerge(t)
	again := s.copied(t)
	job, holder := s.leased(t)
	twice := false
	s.before = func(stage string) {
		if stage != "segment" || twice {
			return
		}
		twice = true
		before := s.before
		s.before = nil
		defer func() { s.before = before }()
		assert.NoError(t, parallel.Each(t.Context(), 2, 2, func(ctx context.Context, _ int) error {
			return s.unit(ctx, job, "segment", func(ctx context.Context, run *upkeep.Run) error {
				return musttest.Err(run.WriteSegments(ctx))
			})
		}))
	}
	must(s.stages(t.Context(), job, holder))(t)
	s.whole(t)
	made, alone := s.current(t), again.night(t).manifest
	assert.True(t, twice && made.Hashes == sound.Hashes && fmt.Sprint(made.Segments) == fmt.Sprint(alone.Segments),
		"twice %v, hashes equal %v:\n%+v\nwant\n%+v", twice, made.Hashes == sound.Hashes, made.Segments, alone.Segments)
}

// merging returns a site whose next night merges vectors segments.
func merging(t *testing.T) *lives {
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
	l.Artifacts, l.Records, l.Vectors = l.blobs, l.records, l.vectors
	h := &history{site: l.copied(t), random: l.random, files: l.files}
	return &lives{history: h, shop: l.shop, blobs: h.Artifacts, records: h.Records, vectors: h.Vectors}
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

// A first build of several splits and class runs writes them in units of work of their own, and comes to the bytes that
// one unit comes to.
func TestPiecesComeToWhatOneUnitOfWorkComesTo(t *testing.T) {
	setSizes(t, 100, 50, 200)
	files := map[string]string{}
	for n := range 500 {
		files[fmt.Sprintf("%03d.txt", n)] = fmt.Sprintf("%s went from %s to %s.\n", people[n%len(people)],
			places[n%len(places)], fmt.Sprintf("Harbour Number%d", n/3))
	}
	// A unit ends with the document that takes what it reads above 16 MiB.
	files["250.html"] = "<p>Nothing went anywhere.</p><!--" + strings.Repeat(" and nothing is shown", 1<<20) + "-->\n"
	one := newSite(t, files)
	steady(one)
	one.width, one.shard, one.batch = 4, 1000, 500
	several := one.copied(t)
	steady(several)
	several.batch = one.batch
	one.alone = true
	whole := one.night(t).manifest
	var pieces atomic.Int64
	several.before = func(stage string) {
		if stage == "segment" {
			pieces.Add(1)
		}
	}
	parts := several.night(t).manifest
	assert.True(t, pieces.Load() >= 6,
		"the segment stage had %d units of work, want two splits, several class runs and what joins them", pieces.Load())
	assert.True(t, len(parts.Segments.Splits) == 2 && len(parts.Segments.Runs) >= 2,
		"%d splits and %d class runs", len(parts.Segments.Splits), len(parts.Segments.Runs))
	assert.Equal(t, whole.Segments.Splits, parts.Segments.Splits,
		"splits differ:\n%+v\n%+v", whole.Segments.Splits, parts.Segments.Splits)
	assert.True(t, slices.Equal(whole.Segments.Runs, parts.Segments.Runs),
		"class runs differ:\n%+v\n%+v", whole.Segments.Runs, parts.Segments.Runs)
	assert.True(t, whole.Hashes == parts.Hashes, "hashes differ: %v, %v", whole.Hashes, parts.Hashes)
	// A night of one document is one split and one run: nothing is planned beside what joins them.
	pieces.Store(0)
	several.write(t, map[string]string{"new.txt": "Greta Lind went from Tolmin to Osk Harbour.\n"})
	if out := several.night(t); len(out.manifest.Segments.Splits) != 3 || pieces.Load() != 1 {
		t.Errorf("a night has %d splits, by %d units of work", len(out.manifest.Segments.Splits), pieces.Load())
	}
}

func TestPiecesAreAsManyAsTheRunsThatThereCanBe(t *testing.T) {
	setSizes(t, 100, 50, 2000)
	for _, rows := range [][]int64{
		{1}, {60}, {49, 2, 49, 2, 49}, {1, 1, 1, 1}, {0, 0, 7}, {400, 1, 400, 1, 400}, {50, 50},
	} {
		var classes []core.Segment
		var total int64
		for _, n := range rows {
			classes = append(classes, core.Segment{Rows: n})
			total += n
		}
		made, planned := runsOf(classes), plannedRuns(2, total, len(classes))
		assert.True(t, made <= planned, "%v makes %d runs, and %d are planned", rows, made, planned)
	}
}
