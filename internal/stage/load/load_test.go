package load_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/records/bolt"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

const (
	scratch = "i/runs/g"
	dim     = 8
)

var storeID = strings.Repeat("ab", 16)

type bench struct {
	*testing.T
	art     artifact.Index
	classes *bolt.Store
	vectors *files.Store
}

func newBench(t *testing.T) bench {
	t.Helper()
	store := stagetest.Must(dir.Open(t.TempDir()))
	classes := stagetest.Must(bolt.Open(filepath.Join(t.TempDir(), "classes")))
	rows := stagetest.Must(files.Open(t.TempDir()))
	t.Cleanup(func() { _, _ = classes.Close(), rows.Close() })
	stagetest.Ok(t, rows.Create(t.Context(), "c", dim))
	stagetest.Ok(t, rows.Create(t.Context(), "k", dim))
	return bench{t, artifact.Index{Store: store, Name: "i"}, classes, rows}
}

func (b bench) in(embedder *stagetest.Embedder, part stage.Part) load.In {
	return load.In{
		Env: join.Env{
			Spec: core.Spec{Index: "i", Embedding: core.EmbedModel{MaxInputTokens: 400}}, Artifacts: b.art, Store: storeID,
			Class: core.Fingerprint{Dimension: dim}, Chunk: core.Fingerprint{Dimension: dim},
			Collections: core.Collections{Classes: "c", Chunks: "k"},
		},
		Scratch: scratch, Part: part, Classes: b.classes, Vectors: b.vectors,
		Source: embed.Source{Embedder: embedder, Ledger: ledger.New(b.art.Store, memory.NewClaims())},
	}
}

func free() *stagetest.Embedder { return &stagetest.Embedder{Free: true, Dim: dim} }

// partition writes reduced classes; texts differ by name.
func (b bench) partition(names ...string) stage.Part {
	slices.SortFunc(names, func(x, y string) int {
		p, q := core.ClassID(x), core.ClassID(y)
		return bytes.Compare(p[:], q[:])
	})
	var list []stagetest.Row
	for _, name := range names {
		id := core.ClassID(name)
		class := rows.Reduced{
			Name: name, Descriptions: []string{"Is " + name + "."}, Mentions: 1, ChunkTotal: 1, Text: core.Sum("text", name),
		}
		list = append(list, stagetest.Row{Key: string(id[:]), Value: string(class.Encode())})
	}
	stagetest.Rows(b, b.art, "s/reduced", list...)
	stagetest.Rows(b, b.art, "s/short")
	return stage.Part{Kind: stage.Classes, Number: 3, Partition: stage.Partition{Reduced: "s/reduced", Short: "s/short"}}
}

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("Class ", i)
	}
	return names
}

// segmentRows reads a vectors segment.
func (b bench) segmentRows(segment core.Segment) map[string][]float32 {
	b.Helper()
	raw, _, err := blob.Read(b.Context(), b.art.Store, b.art.SegmentKey(segment.SHA256))
	stagetest.Ok(b, err)
	list := stagetest.Must(parquet.Read[stage.VectorRow](bytes.NewReader(raw), int64(len(raw))))
	out := map[string][]float32{}
	for _, row := range list {
		out[row.Key] = slices.Clone(row.Vector)
	}
	return out
}

func (b bench) count(collection string) int64 {
	return stagetest.Must(b.vectors.Count(b.Context(), collection))
}

func TestAPartitionIsInStoresAndSegmentsUnderOneKey(t *testing.T) {
	b := newBench(t)
	var reported core.Progress
	in := b.in(free(), b.partition(numbered(1500)...))
	in.OnProgress = func(p core.Progress) { reported = p }
	res := stagetest.Must(load.Run(t.Context(), in))
	want := core.Progress{Stage: "load", Done: 1500, Written: core.Written{Segments: 2, Records: 1500, Rows: 1500}}
	assert.True(t, res.Progress == want && res.Counts.Classes == 1500 && res.Rows.Rows == 1500 &&
		res.Vectors.Rows == 1500 && res.Rows.Part == 3 && res.Vectors.Part == 3, "%+v", res)
	assert.True(t, reported.Written.Rows == 1500 && reported.Done == 1500, "reported %+v at last", reported)
	inSegment := b.segmentRows(res.Vectors)
	for _, row := range stagetest.Read(t, b.art, b.art.SegmentKey(res.Rows.SHA256)) {
		class := stagetest.Must(rows.DecodeClass([]byte(row.Value)))
		record := stagetest.Must(rows.DecodeRecord(class.Record))
		id := core.ID([]byte(row.Key))
		stored, err := b.classes.GetRecords(
			t.Context(), []string{core.RecordKey(storeID, "i", id, rows.RecordDigest(class.Record))},
		)
		require.True(t, err == nil && bytes.Equal(stored[0], class.Record), "record of %s: %v", record.Name, err)
		key := core.ClassRow(id, class.Vector)
		vector := stagetest.Vector(record.Name+": Is "+record.Name+".", dim)
		got := musttest.Get(b.vectors.Fetch(t.Context(), "c", []string{key}))(t)
		require.True(t, slices.Equal(got[0], vector) && slices.Equal(inSegment[key], vector), "vector of %s", record.Name)
		require.True(t, class.Text == core.Sum("text", record.Name) && class.Mentions == 1 && class.Chunks == 1,
			"%s: %+v", record.Name, class)
	}
	t.Run("a repeated attempt writes the same", func(t *testing.T) {
		again := stagetest.Must(load.Run(t.Context(), in))
		assert.True(t, again.Rows == res.Rows && again.Vectors == res.Vectors && again.Hashes == res.Hashes &&
			again.Progress.Written.Segments == 0 && b.count("c") == 1500, "%+v, %d rows", again, b.count("c"))
	})
}

// after gives a build the parent that a load made.
func (b bench) after(in *load.In, collections core.Collections, res load.Result) {
	table := stagetest.Former{}
	for _, row := range stagetest.Read(b, b.art, b.art.SegmentKey(res.Rows.SHA256)) {
		class := stagetest.Must(rows.DecodeClass([]byte(row.Value)))
		table[core.ID([]byte(row.Key))] = segments.Class{
			Vector: class.Vector.Prefix(), Record: rows.RecordDigest(class.Record),
		}
	}
	in.Env.Parent, in.Env.Table = &core.Manifest{Collections: collections}, table
}

func TestANightWritesOnlyWhatItsParentDoesNotHave(t *testing.T) {
	b := newBench(t)
	in := b.in(free(), b.partition(numbered(100)...))
	first := stagetest.Must(load.Run(t.Context(), in))
	names := append(numbered(100)[5:], "New 1", "New 2") // five gone, two new
	t.Run("in the same collection", func(t *testing.T) {
		night := b.in(free(), b.partition(names...))
		b.after(&night, in.Env.Collections, first)
		res := stagetest.Must(load.Run(t.Context(), night))
		assert.True(t, res.Progress.Written == (core.Written{Segments: 2, Records: 2, Rows: 2}) && res.Counts.Classes == 97,
			"%+v", res)
		assert.True(t, len(b.segmentRows(res.Vectors)) == 2 && b.count("c") == 102,
			"%d rows in the segment, %d in the collection", len(b.segmentRows(res.Vectors)), b.count("c"))
		whole := stagetest.Must(load.Run(t.Context(), b.in(free(), b.partition(names...))))
		assert.True(t, whole.Hashes == res.Hashes && whole.Rows == res.Rows, "the night differs from a build from nothing")
	})
	t.Run("in a new collection every vector is written, and no record", func(t *testing.T) {
		stagetest.Ok(t, b.vectors.Create(t.Context(), "c2", dim))
		night := b.in(free(), b.partition(numbered(100)...))
		b.after(&night, in.Env.Collections, first)
		night.Env.Collections.Classes = "c2"
		res := stagetest.Must(load.Run(t.Context(), night))
		assert.True(t, res.Progress.Written.Records == 0 && res.Progress.Written.Rows == 100 && b.count("c2") == 100,
			"%+v", res.Progress)
	})
	t.Run("nothing new leaves no vectors segment", func(t *testing.T) {
		embedder := free()
		night := b.in(embedder, b.partition(numbered(100)...))
		b.after(&night, in.Env.Collections, first)
		res := stagetest.Must(load.Run(t.Context(), night))
		assert.True(t, res.Vectors == (core.Segment{}) && res.Progress.Written == (core.Written{}) &&
			len(embedder.Requests()) == 0, "%+v, %d requests", res, len(embedder.Requests()))
	})
}

// shard writes documents and an extract segment that follows them.
func (b bench) shard(docs ...stagetest.Document) stage.Part {
	return stage.Part{Kind: stage.Chunks, Number: 2, Shard: stagetest.Shard(b, b.art, scratch, 4, docs...)}
}

func TestChunksOfAShardHaveAVectorForEachWindow(t *testing.T) {
	b := newBench(t)
	long := make([]string, 380)
	for i := range long {
		long[i] = fmt.Sprint("w", i)
	}
	docs := []stagetest.Document{
		{Key: "a", Title: "A", Chunks: []string{"One. ", "Two."}},
		{Key: "b", Title: "B", Chunks: []string{strings.Join(long, " ")}},
	}
	res := stagetest.Must(load.Run(t.Context(), b.in(free(), b.shard(docs...))))
	assert.True(t, res.Counts.Chunks == 3 && res.Counts.Windows >= 5 && res.Vectors.Rows == res.Counts.Windows &&
		res.Rows == (core.Segment{}) && b.count("k") == res.Counts.Windows, "%+v, %d rows", res, b.count("k"))
	list := stagetest.Read(t, b.art, b.art.SegmentKey(res.Chunks.SHA256))
	for i, want := range []struct {
		document   string
		ordinal    int
		start, end int
	}{{"a", 0, 0, 5}, {"a", 1, 5, 9}, {"b", 0, 0, len(strings.Join(long, " "))}} {
		chunk := stagetest.Must(rows.DecodeSplitChunk([]byte(list[i].Value)))
		assert.True(t, chunk.Document == want.document && chunk.Ordinal == want.ordinal && chunk.Start == want.start &&
			chunk.End == want.end, "chunk %d: %+v", i, chunk)
		for window := range chunk.Windows {
			key := core.ChunkRow(core.ID([]byte(list[i].Key)), window, chunk.Digest)
			has, err := b.vectors.Has(t.Context(), "k", []string{key})
			assert.True(t, err == nil && has[0], "chunk %d has no row for window %d: %v", i, window, err)
		}
	}
	assert.Len(t, list, 3)
}

func TestLoadTakesWhatEmbedPaidForAndPaysNothing(t *testing.T) {
	b := newBench(t)
	paid := &stagetest.Embedder{Dim: dim}
	part := b.partition(numbered(300)...)
	in := b.in(paid, part)
	for texts, err := range embed.CutBatches(part.NewTexts(t.Context(), in.Env, scratch)) { // as the embed stage does
		stagetest.Ok(t, err)
		stagetest.Ok(t, in.Source.Pay(t.Context(), texts))
	}
	requests := len(paid.Requests())
	res := stagetest.Must(load.Run(t.Context(), b.in(paid, part)))
	assert.True(t, len(paid.Requests()) == requests && b.count("c") == 300,
		"%d requests, then %d; %d rows", requests, len(paid.Requests()), b.count("c"))
	if p := res.Progress; p.Calls != (core.Calls{}) || p.Hits != (core.Calls{}) || p.Cost != 0 {
		t.Errorf("load accounts for what embed did: %+v", p)
	}
	store := b.art.Store
	for info, err := range store.List(t.Context(), "ledger/embed/loose/", "") {
		stagetest.Ok(t, err)
		raw, _, err := blob.Read(t.Context(), store, info.Key)
		stagetest.Ok(t, err)
		raw[len(raw)-1] ^= 1 // its texts still read: embed counts them as found
		stagetest.Must(blob.Write(t.Context(), store, info.Key, raw, blob.Cond{}))
	}
	res = stagetest.Must(load.Run(t.Context(), b.in(paid, part)))
	assert.EqualValues(t, -300, res.Progress.Hits.Embed, "they were paid for")
}

func TestForAnImportRowsAreOnlyInTheSegment(t *testing.T) {
	b := newBench(t)
	in := b.in(free(), b.partition(numbered(50)...))
	in.Import = true
	res := stagetest.Must(load.Run(t.Context(), in))
	assert.True(t, b.count("c") == 0 && len(b.segmentRows(res.Vectors)) == 50 && res.Progress.Written.Rows == 50,
		"%d rows in the collection; %+v", b.count("c"), res)
}

func TestAVectorOfAnotherDimensionIsRefusedBeforeItIsWritten(t *testing.T) {
	b := newBench(t)
	in := b.in(&stagetest.Embedder{Free: true, Dim: dim + 1}, b.partition("X"))
	_, err := load.Run(t.Context(), in)
	assert.True(t, fault.Is(err, fault.DimensionChanged) && b.count("c") == 0, "%v, %d rows", err, b.count("c"))
	in.Import = true // no store looks at the row before the segment is imported
	if res, err := load.Run(t.Context(), in); !fault.Is(err, fault.DimensionChanged) || res.Vectors.SHA256 != "" {
		t.Errorf("for an import: %v, %+v", err, res.Vectors)
	}
}

// fullRecords takes no more than a number of writes, which come side by side, and counts what it took.
type fullRecords struct {
	records.Store
	left  atomic.Int64
	taken atomic.Int64
}

func (s *fullRecords) PutRecords(ctx context.Context, list []records.Record) error {
	if s.left.Add(-1) < 0 {
		return fault.StoreFull.At("write", "records")
	}
	s.taken.Add(int64(len(list)))
	return s.Store.PutRecords(ctx, list)
}

type fullVectors struct{ vectors.Store }

func (fullVectors) Upsert(context.Context, string, []vectors.Row) error {
	return fault.StoreFull.At("write", "rows")
}

func TestWhatAStoreDidNotTakeIsNotCountedAsWritten(t *testing.T) {
	b := newBench(t)
	in := b.in(free(), b.partition(numbered(2500)...))
	full := &fullRecords{Store: b.classes}
	full.left.Store(2)
	in.Classes = full
	res, err := load.Run(t.Context(), in)
	taken := full.taken.Load()
	assert.True(t, fault.Is(err, fault.StoreFull) && taken != 0 && taken != 2500 && res.Progress.Written.Records == taken,
		"%v: %+v, of %d that were taken", err, res.Progress, taken)
	in = b.in(free(), b.partition(numbered(10)...))
	in.Vectors = fullVectors{b.vectors}
	res, err = load.Run(t.Context(), in)
	assert.True(t, fault.Is(err, fault.StoreFull) && res.Progress.Written.Rows == 0 && res.Vectors == (core.Segment{}),
		"%v: %+v", err, res)
}

func rewriting() load.Rewriting {
	return load.Rewriting{
		Artifacts: artifact.Index{Store: blobmemory.New(), Name: "docs"}, Alive: func() {},
		Counts: func(key string) bool { return !strings.HasPrefix(key, "dead") },
	}
}

func row(key string, first float32) stage.VectorRow {
	return stage.VectorRow{Key: key, Vector: []float32{first, 2, 3}}
}

func TestMergedVectorsAreThoseThatCountEachOnce(t *testing.T) {
	r := rewriting()
	var many []stage.VectorRow // more than are read at once
	for i := range 3000 {
		many = append(many, row(fmt.Sprintf("many-%04d", i), float32(i)))
	}
	list := []core.Segment{
		stagetest.Vectors(t, r.Artifacts, row("a", 1), row("dead-b", 2), row("c", 3)), stagetest.Vectors(t, r.Artifacts, many...), stagetest.Vectors(t, r.Artifacts, row("dead-d", 1)),
		stagetest.Vectors(t, r.Artifacts, row("a", 1), row("e", 5)),
	}
	for i, want := range []int64{1, 0, 1, 0} {
		dead, err := r.CountDead(t.Context(), list[i])
		assert.True(t, err == nil && dead == want, "segment %d: %d rows are dead, want %d (%v)", i, dead, want, err)
	}
	out, fresh, err := r.Merge(t.Context(), list)
	require.True(t, err == nil && fresh && out.Rows == 3003, "%+v, %v, %v", out, fresh, err)
	raw, _ := musttest.Get2(blob.Read(t.Context(), r.Artifacts.Store, r.Artifacts.SegmentKey(out.SHA256)))(t)
	got, err := parquet.Read[stage.VectorRow](bytes.NewReader(raw), int64(len(raw)))
	want := slices.Concat([]stage.VectorRow{row("a", 1), row("c", 3)}, many, []stage.VectorRow{row("e", 5)})
	if err != nil || !slices.EqualFunc(got, want, func(a, b stage.VectorRow) bool {
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
	segment := stagetest.Vectors(t, r.Artifacts, row("live-a", 1), row("live-b", 2))
	dead := stagetest.Vectors(t, r.Artifacts, row("dead-a", 1), row("dead-b", 2))
	raw, _, err := blob.Read(t.Context(), r.Artifacts.Store, r.Artifacts.SegmentKey(dead.SHA256))
	require.True(t, err == nil && int64(len(raw)) == segment.Bytes, "%d bytes, want %d: %v", len(raw), segment.Bytes, err)
	stagetest.Must(blob.Write(t.Context(), r.Artifacts.Store, r.Artifacts.SegmentKey(segment.SHA256), raw, blob.Cond{}))
	out, _, err := r.DropDead(t.Context(), segment)
	assert.True(t, fault.Is(err, fault.SegmentDamage), "%+v, %v", out, err)
	out, _, err = r.DropDead(t.Context(), dead)
	assert.True(t, err == nil && out.SHA256 == "", "one of which nothing counts: %+v, %v", out, err)
}

// Parquet has sums of its pages alone: whichever bit is another one, the segment is refused, and what would come of it
// does not exist under another name.
func TestADamagedVectorsSegmentIsNotWrittenAgain(t *testing.T) {
	r := rewriting()
	segment := stagetest.Vectors(t, r.Artifacts, row("a", 1), row("dead-b", 2), row("c", 3))
	key := r.Artifacts.SegmentKey(segment.SHA256)
	raw, _, err := blob.Read(t.Context(), r.Artifacts.Store, key)
	require.NoError(t, err)
	for bit := 0; bit < 8*len(raw); bit += 3 {
		spoiled := bytes.Clone(raw)
		spoiled[bit/8] ^= 1 << (bit % 8)
		stagetest.Must(blob.Write(t.Context(), r.Artifacts.Store, key, spoiled, blob.Cond{}))
		_, err = r.CountDead(t.Context(), segment) // on some of these the library panics
		require.True(t, err == nil || fault.Is(err, fault.SegmentDamage), "bit %d of byte %d: %v", bit%8, bit/8, err)
		if bit%8 > 2 {
			continue // once for each byte
		}
		out, _, err := r.Merge(t.Context(), []core.Segment{segment})
		require.True(t, fault.Is(err, fault.SegmentDamage), "bit %d of byte %d: %+v, %v", bit%8, bit/8, out, err)
	}
	segment.Rows++
	stagetest.Must(blob.Write(t.Context(), r.Artifacts.Store, key, raw, blob.Cond{}))
	_, _, err = r.Merge(t.Context(), []core.Segment{segment})
	assert.True(t, fault.Is(err, fault.SegmentDamage), "one row fewer than it has: %v", err)
}
