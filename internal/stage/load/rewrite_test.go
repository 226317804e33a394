package load_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func rewriting() load.Rewriting {
	return load.Rewriting{
		Artifacts: artifact.Index{Store: blobmemory.New(), Name: "docs"}, Alive: func() {},
		Counts: func(key string) bool { return !strings.HasPrefix(key, "dead") },
	}
}

// vectorsOf stores a vectors segment.
func vectorsOf(t *testing.T, r load.Rewriting, rows ...load.VectorRow) core.Segment {
	t.Helper()
	file := stagetest.Must(artifact.NewFile())
	defer file.Discard()
	writer := parquet.NewGenericWriter[load.VectorRow](file)
	stagetest.Must(writer.Write(rows))
	require.NoError(t, writer.Close())
	segment, _, err := file.PutSegment(t.Context(), r.Artifacts)
	require.NoError(t, err)
	segment.Rows = int64(len(rows))
	return segment
}

func row(key string, first float32) load.VectorRow {
	return load.VectorRow{Key: key, Vector: []float32{first, 2, 3}}
}

func TestMergedVectorsAreThoseThatCountEachOnce(t *testing.T) {
	r := rewriting()
	var many []load.VectorRow // more than are read at once
	for i := range 3000 {
		many = append(many, row(fmt.Sprintf("many-%04d", i), float32(i)))
	}
	list := []core.Segment{
		vectorsOf(t, r, row("a", 1), row("dead-b", 2), row("c", 3)), vectorsOf(t, r, many...), vectorsOf(t, r, row("dead-d", 1)),
		vectorsOf(t, r, row("a", 1), row("e", 5)),
	}
	for i, want := range []int64{1, 0, 1, 0} {
		dead, err := r.CountDead(t.Context(), list[i])
		assert.True(t, err == nil && dead == want, "segment %d: %d rows are dead, want %d (%v)", i, dead, want, err)
	}
	out, fresh, err := r.Merge(t.Context(), list)
	require.True(t, err == nil && fresh && out.Rows == 3003, "%+v, %v, %v", out, fresh, err)
	raw, _, err := blob.Read(t.Context(), r.Artifacts.Store, r.Artifacts.SegmentKey(out.SHA256))
	require.NoError(t, err)
	got, err := parquet.Read[load.VectorRow](bytes.NewReader(raw), int64(len(raw)))
	want := slices.Concat([]load.VectorRow{row("a", 1), row("c", 3)}, many, []load.VectorRow{row("e", 5)})
	if err != nil || !slices.EqualFunc(got, want, func(a, b load.VectorRow) bool {
		return a.Key == b.Key && slices.Equal(a.Vector, b.Vector)
	}) {
		t.Errorf("%d rows, want %d: %v", len(got), len(want), err)
	}
	again, fresh, err := r.Merge(t.Context(), list)
	assert.True(t, err == nil && !fresh && again == out, "a second time: %+v, fresh %v, %v", again, fresh, err)
	none, _, err := r.Merge(t.Context(), list[2:3])
	assert.True(t, err == nil && none.SHA256 == "", "of nothing that counts: %+v, %v", none, err)
	for i, rows := range []int64{2, 3000, 0, 2} {
		stays, _, err := r.DropDead(t.Context(), list[i])
		assert.True(t, err == nil && stays.Rows == rows && (stays == list[i]) == (i%2 == 1),
			"segment %d without what is dead: %+v, %v", i, stays, err)
	}
}

// A file of which nothing counts is left out of the generation, so that it must be the very file that is named.
func TestADamagedVectorsSegmentIsNotTakenForOneOfWhichNothingCounts(t *testing.T) {
	r := rewriting()
	segment := vectorsOf(t, r, row("live-a", 1), row("live-b", 2))
	dead := vectorsOf(t, r, row("dead-a", 1), row("dead-b", 2))
	raw, _, err := blob.Read(t.Context(), r.Artifacts.Store, r.Artifacts.SegmentKey(dead.SHA256))
	require.True(t, err == nil && int64(len(raw)) == segment.Bytes, "%d bytes, want %d: %v", len(raw), segment.Bytes, err)
	key := r.Artifacts.SegmentKey(segment.SHA256)
	stagetest.Must(blob.Write(t.Context(), r.Artifacts.Store, key, raw, blob.Cond{}))
	out, _, err := r.DropDead(t.Context(), segment)
	assert.True(t, fault.Is(err, fault.SegmentDamage), "%+v, %v", out, err)
	if out, _, err := r.DropDead(t.Context(), dead); err != nil || out.SHA256 != "" {
		t.Errorf("one of which nothing counts: %+v, %v", out, err)
	}
}

// The library panics on some damaged files: to who counts what is dead each is a damaged segment, or is as it was.
func TestADamagedVectorsSegmentIsNoPanic(t *testing.T) {
	r := rewriting()
	segment := vectorsOf(t, r, row("a", 1), row("dead-b", 2), row("c", 3))
	key := r.Artifacts.SegmentKey(segment.SHA256)
	raw, _, err := blob.Read(t.Context(), r.Artifacts.Store, key)
	require.NoError(t, err)
	for bit := 0; bit < 8*len(raw); bit += 3 {
		spoiled := bytes.Clone(raw)
		spoiled[bit/8] ^= 1 << (bit % 8)
		stagetest.Must(blob.Write(t.Context(), r.Artifacts.Store, key, spoiled, blob.Cond{}))
		_, err := r.CountDead(t.Context(), segment)
		require.True(t, err == nil || fault.Is(err, fault.SegmentDamage), "bit %d of byte %d: %v", bit%8, bit/8, err)
	}
}

// Parquet has sums of its pages alone: whichever bit is another one, the segment is refused, and what would come of it
// does not exist under another name.
func TestADamagedVectorsSegmentIsNotWrittenAgain(t *testing.T) {
	r := rewriting()
	segment := vectorsOf(t, r, row("a", 1), row("dead-b", 2), row("c", 3))
	key := r.Artifacts.SegmentKey(segment.SHA256)
	raw, _, err := blob.Read(t.Context(), r.Artifacts.Store, key)
	require.NoError(t, err)
	for at := range raw {
		spoiled := bytes.Clone(raw)
		spoiled[at] ^= 1
		stagetest.Must(blob.Write(t.Context(), r.Artifacts.Store, key, spoiled, blob.Cond{}))
		out, _, err := r.Merge(t.Context(), []core.Segment{segment})
		require.True(t, fault.Is(err, fault.SegmentDamage), "byte %d of %d: %+v, %v", at, len(raw), out, err)
	}
	segment.Rows++
	stagetest.Must(blob.Write(t.Context(), r.Artifacts.Store, key, raw, blob.Cond{}))
	_, _, err = r.Merge(t.Context(), []core.Segment{segment})
	assert.True(t, fault.Is(err, fault.SegmentDamage), "one row fewer than it has: %v", err)
}
