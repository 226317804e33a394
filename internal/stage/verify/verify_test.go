package verify_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/verify"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/records/bolt"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

const dim = 8

// counting are the classes and chunks that count, in the order of ids.
type counting struct {
	Classes []liveset.Class
	Chunks  []liveset.Chunk
}

// FindClass implements verify.Table.
func (c counting) FindClass(id core.ID) (segments.Class, bool) {
	at := slices.IndexFunc(c.Classes, func(class liveset.Class) bool { return class.ID == id })
	if at < 0 {
		return segments.Class{}, false
	}
	return segments.Class{Vector: c.Classes[at].Vector.Prefix(), Record: c.Classes[at].Record}, true
}

// FindChunk implements verify.Table.
func (c counting) FindChunk(id core.ID) (segments.Chunk, bool) {
	at := slices.IndexFunc(c.Chunks, func(chunk liveset.Chunk) bool { return chunk.ID == id })
	if at < 0 {
		return segments.Chunk{}, false
	}
	return segments.Chunk{Digest: c.Chunks[at].Digest, Windows: int(c.Chunks[at].Windows)}, true
}

// bench is a generation in artifacts and, at first, nothing in the stores.
type bench struct {
	*testing.T
	art      artifact.Index
	classes  *bolt.Store
	vectors  *files.Store
	manifest *core.Manifest
	records  []records.Record
	live     counting
	folder   string // of vectors
}

func newBench(t *testing.T, classes, chunks int) *bench {
	b := &bench{T: t, art: artifact.Index{Store: stagetest.Must(dir.Open(t.TempDir())), Name: "i"}}
	b.manifest = &core.Manifest{
		Index: "i", Store: strings.Repeat("ab", 16), Collections: core.Collections{Classes: "c", Chunks: "k"},
		Class: core.Fingerprint{Dimension: dim}, Chunk: core.Fingerprint{Dimension: dim},
	}
	b.wipe()
	b.addClasses(classes)
	var rows []stage.VectorRow
	for i := range chunks {
		chunk := liveset.Chunk{ID: core.ChunkID("d", fmt.Sprint(i), 0), Digest: core.Sum("chunk", fmt.Sprint(i)), Windows: 2}
		b.live.Chunks = append(b.live.Chunks, chunk)
		for window := range 2 {
			rows = append(rows, stage.VectorRow(row(core.ChunkRow(chunk.ID, window, chunk.Digest))))
		}
	}
	slices.SortFunc(b.live.Chunks, func(x, y liveset.Chunk) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	b.manifest.Segments.ChunkVecs = []core.Segment{stagetest.Vectors(t, b.art, rows...)}
	return b
}

// filled is a generation of classes alone, which the stores have.
func filled(t *testing.T, classes int) *bench {
	b := newBench(t, classes, 0)
	b.all()
	return b
}

func row(key string) vectors.Row { return vectors.Row{Key: key, Vector: stagetest.Vector(key, dim)} }

func (b *bench) addClasses(n int) {
	var list []stagetest.Row
	var vecs []stage.VectorRow
	for i := range n {
		id := core.ClassID(fmt.Sprint("class ", i))
		class := rows.Class{
			Record: rows.Record{ID: id, Name: fmt.Sprint("Class ", i), Text: "text"}.Encode(),
			Vector: core.Sum("vector", fmt.Sprint(i)),
		}
		list = append(list, stagetest.Row{Key: string(id[:]), Value: string(class.Encode())})
		vecs = append(vecs, stage.VectorRow(row(core.ClassRow(id, class.Vector))))
		key := core.RecordKey(b.manifest.Store, "i", id, rows.RecordDigest(class.Record))
		b.records = append(b.records, records.Record{Key: key, Value: class.Record})
		b.live.Classes = append(b.live.Classes, liveset.Class{ID: id, Vector: class.Vector})
	}
	slices.SortFunc(list, func(x, y stagetest.Row) int { return strings.Compare(x.Key, y.Key) })
	slices.SortFunc(b.live.Classes, func(x, y liveset.Class) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	b.manifest.Segments.Classes = []core.Segment{stagetest.Segment(b, b.art, list...)}
	b.manifest.Segments.ClassVecs = []core.Segment{stagetest.Vectors(b, b.art, vecs...)}
}

// wipe gives the generation stores without memory.
func (b *bench) wipe() {
	b.classes = stagetest.Must(bolt.Open(filepath.Join(b.TempDir(), "classes")))
	b.folder = b.TempDir()
	b.vectors = stagetest.Must(files.Open(b.folder))
	classes, rows := b.classes, b.vectors
	b.Cleanup(func() { _, _ = classes.Close(), rows.Close() })
}

func (b *bench) in(unit verify.Unit) verify.In {
	return verify.In{Artifacts: b.art, Manifest: b.manifest, Unit: unit, Classes: b.classes, Vectors: b.vectors}
}

func (b *bench) run(in verify.In) verify.Result { return stagetest.Must(verify.Run(b.Context(), in)) }

// all checks every unit of the generation.
func (b *bench) all() (sum verify.Result) {
	for _, unit := range verify.Units(b.manifest) {
		res := b.run(b.in(unit))
		sum.Checked += res.Checked
		sum.Rewritten += res.Rewritten
	}
	return sum
}

func (b *bench) count(collection string) int64 {
	return stagetest.Must(b.vectors.Count(b.Context(), collection))
}

func (b *bench) classUnit(kind verify.Kind) verify.Unit {
	return verify.Unit{Kind: kind, Segment: b.manifest.Segments.ClassVecs[0], Collection: "c", Dimension: dim}
}

func TestStoresThatLostTheirMemoryGetEverythingBackFromSegments(t *testing.T) {
	b := newBench(t, 2300, 700)
	const total = 2300 + 2300 + 1400 // records, class rows, chunk rows
	require.Equal(t, verify.Result{Checked: total, Rewritten: total}, b.all(), "wiped stores")
	assert.True(t, b.count("c") == 2300 && b.count("k") == 1400, "%d and %d rows", b.count("c"), b.count("k"))
	for _, record := range b.records {
		got, err := b.classes.GetRecords(t.Context(), []string{record.Key})
		require.True(t, err == nil && bytes.Equal(got[0], record.Value), "record %s: %v", record.Key, err)
	}
	key := core.ClassRow(b.live.Classes[9].ID, b.live.Classes[9].Vector)
	got, err := b.vectors.Fetch(t.Context(), "c", []string{key})
	assert.True(t, err == nil && slices.Equal(got[0], row(key).Vector), "vector of %s: %v", key, err)
	assert.Equal(t, verify.Result{Checked: total}, b.all(), "whole stores")
	t.Run("one of them alone too", func(t *testing.T) {
		rows := b.vectors
		b.wipe()
		b.vectors = rows
		assert.Equal(t, verify.Result{Checked: total, Rewritten: 2300}, b.all())
	})
}

func TestWhatIsMissingAmongTheRestIsWrittenAgain(t *testing.T) {
	b := filled(t, 2300)
	keys := make([]string, 0, 3)
	for _, i := range []int{0, 1100, 2299} {
		keys = append(keys, core.ClassRow(b.live.Classes[i].ID, b.live.Classes[i].Vector))
	}
	stagetest.Ok(t, b.vectors.Delete(t.Context(), "c", keys))
	stagetest.Ok(t, b.classes.DeleteRecords(t.Context(), []string{b.records[5].Key, b.records[6].Key}))
	// a record that another program spoilt
	stagetest.Ok(t, b.classes.PutRecords(t.Context(), []records.Record{{Key: b.records[7].Key, Value: []byte("spoilt")}}))
	assert.Equal(t, int64(6), b.all().Rewritten)
	for _, key := range keys {
		got, err := b.vectors.Fetch(t.Context(), "c", []string{key})
		assert.True(t, err == nil && slices.Equal(got[0], row(key).Vector), "vector of %s: %v", key, err)
	}
	assert.Zero(t, b.all().Rewritten, "a second look")
}

// spoil replaces vectors of stored rows; at are their places in the segment.
func (b *bench) spoil(vector func(key string) []float32, at ...int) {
	b.Helper()
	for _, i := range at {
		key := core.ClassRow(core.ClassID(fmt.Sprint("class ", i)), core.Sum("vector", fmt.Sprint(i)))
		stagetest.Ok(b, b.vectors.Delete(b.Context(), "c", []string{key}))
		stagetest.Ok(b, b.vectors.Upsert(b.Context(), "c", []vectors.Row{{Key: key, Vector: vector(key)}}))
	}
}

func TestAWrongVectorIsFoundByItsNeighbourhoodAndMended(t *testing.T) {
	other := func(key string) []float32 { return stagetest.Vector("other "+key, dim) }
	t.Run("one among the first of a batch has all compared", func(t *testing.T) {
		b := filled(t, 1300)
		b.spoil(other, 1003, 500, 77)
		assert.Equal(t, int64(3), b.run(b.in(b.classUnit(verify.Vectors))).Rewritten)
		got := b.run(b.in(b.classUnit(verify.Vectors)))
		assert.True(t, got.Rewritten == 0 && b.count("c") == 1300, "a second look: %+v, %d rows", got, b.count("c"))
		key := core.ClassRow(core.ClassID("class 500"), core.Sum("vector", "500"))
		if got, err := b.vectors.Fetch(t.Context(), "c", []string{key}); err != nil ||
			!slices.Equal(got[0], row(key).Vector) {
			t.Errorf("vector of %s: %v", key, err)
		}
	})
	t.Run("one far from the first of a batch is found where all are compared", func(t *testing.T) {
		b := filled(t, 1300)
		b.spoil(other, 500)
		look := b.in(b.classUnit(verify.Vectors))
		look.Compare, look.ReadOnly = true, true
		var found []verify.Finding
		look.Found = func(one verify.Finding) { found = append(found, one) }
		key := core.ClassRow(core.ClassID("class 500"), core.Sum("vector", "500"))
		if got := b.run(look); got.Checked != 1300 || got.Differing != 1 || len(found) != 1 ||
			found[0] != (verify.Finding{Key: key, Wrong: true}) {
			t.Errorf("%+v, %v", got, found)
		}
		look.ReadOnly = false
		assert.Equal(t, int64(1), b.run(look).Rewritten)
		got := b.run(look)
		assert.True(t, got.Rewritten == 0 && b.count("c") == 1300, "a second look: %+v, %d rows", got, b.count("c"))
	})
	t.Run("one that is only rounded is right", func(t *testing.T) {
		b := filled(t, 10)
		b.spoil(func(key string) []float32 {
			vector := stagetest.Vector(key, dim)
			vector[0] += 0.001
			return vector
		}, 0, 5)
		assert.Zero(t, b.run(b.in(b.classUnit(verify.Vectors))).Rewritten)
	})
	t.Run("and missing ones beside it", func(t *testing.T) {
		b := filled(t, 100)
		b.spoil(other, 3)
		gone := core.ClassRow(core.ClassID("class 50"), core.Sum("vector", "50"))
		stagetest.Ok(t, b.vectors.Delete(t.Context(), "c", []string{gone}))
		got := b.run(b.in(b.classUnit(verify.Vectors)))
		assert.True(t, got.Rewritten == 2 && b.count("c") == 100, "%+v, %d rows", got, b.count("c"))
	})
}

// away answers no more after some calls.
type away struct {
	vectors.Store
	fetches int
}

func (a *away) Fetch(ctx context.Context, collection string, keys []string) ([][]float32, error) {
	if a.fetches--; a.fetches < 0 {
		return nil, fault.StoreDown.At("fetch", collection).Because("it is away")
	}
	return a.Store.Fetch(ctx, collection, keys)
}

// Promises: 52.
func TestAWrongRowStaysUntilItIsWrittenAgain(t *testing.T) {
	b := filled(t, 1300)
	b.spoil(func(key string) []float32 { return stagetest.Vector("other "+key, dim) }, 77)
	look := b.in(b.classUnit(verify.Vectors))
	look.Compare, look.Vectors = true, &away{b.vectors, 1}
	_, err := verify.Run(t.Context(), look)
	assert.True(t, fault.Is(err, fault.StoreDown) && b.count("c") == 1300, "%v, %d rows are left", err, b.count("c"))
	look.Vectors = b.vectors
	got := b.run(look)
	assert.True(t, got.Rewritten == 1 && b.count("c") == 1300, "%+v, %d rows", got, b.count("c"))
}

func TestDamagedRowsAreWrittenAgain(t *testing.T) {
	b := filled(t, 1300)
	b.vectors = b.damage(b.vectors, "c", 3, 500, 1001)
	got := b.run(b.in(b.classUnit(verify.Vectors)))
	assert.True(t, got.Rewritten == 3 && b.count("c") == 1300, "%+v, %d rows", got, b.count("c"))
	assert.Zero(t, b.run(b.in(b.classUnit(verify.Vectors))).Rewritten, "a second look")
	b.vectors = b.damage(b.vectors, "c", 30)
	assert.Equal(t, int64(1), b.run(b.in(b.classUnit(verify.Sample))).Rewritten, "a sample")
}

// damage flips a bit in the exact vectors of rows on the disk, wherever they are stored, and opens the store again.
func (b *bench) damage(store *files.Store, collection string, at ...int) *files.Store {
	b.Helper()
	stagetest.Ok(b, store.Close())
	for _, i := range at {
		key := core.ClassRow(core.ClassID(fmt.Sprint("class ", i)), core.Sum("vector", fmt.Sprint(i)))
		var exact []byte
		for _, number := range stagetest.Vector(key, dim) {
			exact = binary.LittleEndian.AppendUint32(exact, math.Float32bits(number))
		}
		parts := stagetest.Must(filepath.Glob(filepath.Join(b.folder, collection, "*.part")))
		found := false
		for _, path := range parts {
			raw := stagetest.Must(os.ReadFile(path))
			if place := bytes.Index(raw, exact); place >= 0 {
				raw[place+6] ^= 0x10
				stagetest.Ok(b, os.WriteFile(path, raw, 0o600))
				found = true
			}
		}
		require.True(b, found, "no vector of %v", key)
	}
	again := stagetest.Must(files.Open(b.folder))
	b.Cleanup(func() { _ = again.Close() })
	return again
}

func TestASampleLooksAtAllOnlyWhenARowIsMissingOrWrong(t *testing.T) {
	b := newBench(t, 1500, 0)
	sample := b.in(b.classUnit(verify.Sample))
	assert.Equal(t, verify.Result{Checked: 1500, Rewritten: 1500}, b.run(sample), "an empty collection")
	assert.Equal(t, verify.Result{Checked: 64}, b.run(sample), "a whole one")
	b.spoil(func(key string) []float32 { return stagetest.Vector("other "+key, dim) }, 30, 1400, 1001)
	assert.Equal(t, verify.Result{Checked: 1500, Rewritten: 3}, b.run(sample), "a wrong vector")
	units := verify.SampleUnits(b.manifest, "g")
	assert.True(t, len(units) == 2 && slices.Contains(units, sample.Unit) && units[0].Collection != units[1].Collection,
		"%+v", units)
}

// What another generation looks at are other rows: one that is wrong is found in some night, wherever it lies, and a
// look costs the same however long the segment is.
// Promises: 25.
func TestSamplesOfOtherGenerationsAreOfOtherRows(t *testing.T) {
	b := filled(t, 1500)
	b.spoil(func(key string) []float32 { return stagetest.Vector("other "+key, dim) }, 700)
	sample := b.in(b.classUnit(verify.Sample))
	first := verify.Result{Checked: 64}
	nights := 0
	for ; nights < 500; nights++ {
		sample.Seed = fmt.Sprint("night ", nights)
		if got := b.run(sample); got != first {
			assert.Equal(t, verify.Result{Checked: 1500, Rewritten: 1}, got)
			break
		}
	}
	assert.True(t, nights != 0 && nights != 500, "found in night %d", nights)
}

// Promises: 25.
func TestANightSamplesABoundedNumberAndAllWhereSomethingIsWrong(t *testing.T) {
	manifest := &core.Manifest{Collections: core.Collections{Classes: "c", Chunks: "k"}}
	for i := range 300 {
		segment := core.Segment{SHA256: fmt.Sprint("s", i)}
		manifest.Segments.ClassVecs = append(manifest.Segments.ClassVecs, segment)
		manifest.Segments.ChunkVecs = append(manifest.Segments.ChunkVecs, segment)
	}
	look := func(seed string, wrongAt int) map[verify.Unit]bool {
		var mu sync.Mutex
		looked := map[verify.Unit]bool{}
		check := func(_ context.Context, unit verify.Unit) (verify.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			looked[unit] = true
			if len(looked) == wrongAt {
				return verify.Result{Rewritten: 1}, nil
			}
			return verify.Result{}, nil
		}
		stagetest.Ok(t, verify.EachSample(t.Context(), verify.SampleUnits(manifest, seed), check))
		return looked
	}
	assert.Equal(t, 32, len(look("g1", 0)))
	assert.Equal(t, 600, len(look("g1", 32)))
	assert.True(t, !maps.Equal(look("g1", 0), look("g2", 0)) && maps.Equal(look("g1", 0), look("g1", 0)),
		"a generation's name does not choose what is sampled")
	all := map[verify.Unit]bool{}
	for night := range 200 {
		maps.Copy(all, look(fmt.Sprint(night), 0))
	}
	assert.Len(t, all, 600, "in 200 nights")
}

// After a sweep a vectors segment holds rows that no generation has any more. They are not lost.
func TestRowsThatAreNoLongerLiveAreNotWanted(t *testing.T) {
	b := newBench(t, 1200, 400)
	b.live.Classes = slices.DeleteFunc(b.live.Classes, func(class liveset.Class) bool { return class.ID[0] < 128 })
	changed := &b.live.Classes[0] // its text changed: the row of the old text is dead
	changed.Vector = core.Sum("another text")
	chunk := &b.live.Chunks[0] // it has one window now
	chunk.Windows = 1
	b.live.Chunks[1].Digest = core.Sum("another chunk") // and this one another text
	wantClasses, wantChunks := int64(len(b.live.Classes)-1), int64(2*400-1-2)
	require.True(t, wantClasses >= 400 && wantClasses <= 800, "%d classes are live", wantClasses)
	for _, kind := range []verify.Kind{verify.Sample, verify.Vectors} {
		b.wipe()
		in := b.in(b.classUnit(kind))
		in.Live = b.live
		got := b.run(in)
		assert.True(t, got == (verify.Result{Checked: wantClasses, Rewritten: wantClasses}) && b.count("c") == wantClasses,
			"%s: %+v, want %d; %d rows", kind, got, wantClasses, b.count("c"))
		assert.Zero(t, b.run(in).Rewritten, "%s: a second look", kind)
		in = b.in(verify.Unit{Kind: kind, Segment: b.manifest.Segments.ChunkVecs[0], Collection: "k", Dimension: dim})
		in.Live = b.live
		if got := b.run(in); got.Rewritten != wantChunks || b.count("k") != wantChunks {
			t.Errorf("%s of chunks: %+v, want %d; %d rows", kind, got, wantChunks, b.count("k"))
		}
	}
}

func TestProgressIsToldBatchByBatch(t *testing.T) {
	b := newBench(t, 2300, 0)
	for name, unit := range map[string]verify.Unit{
		"records": {Kind: verify.Records, Segment: b.manifest.Segments.Classes[0]},
		"vectors": b.classUnit(verify.Vectors),
	} {
		b.run(b.in(unit)) // rewrites, so that the second look only looks
		var reported []int64
		in := b.in(unit)
		in.OnProgress = func(p core.Progress) { reported = append(reported, p.Done) }
		b.run(in)
		assert.Equal(t, "[1000 2000 2300]", fmt.Sprint(reported), "%s: reported %v", name, reported)
	}
}

// brokenStore fails the n-th write.
type brokenStore struct {
	vectors.Store
	left atomic.Int64
}

var errBroken = fault.StoreDown.At("write", "rows")

func (s *brokenStore) Upsert(ctx context.Context, collection string, rows []vectors.Row) error {
	if s.left.Add(-1) < 0 {
		return errBroken
	}
	return s.Store.Upsert(ctx, collection, rows)
}

// lying returns a whole file whose row at a place has another vector: its pages have right sums.
func lying(t *testing.T, good []vectors.Row, at int) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := parquet.NewGenericWriter[stage.VectorRow](&out)
	for i, row := range good {
		vector := slices.Clone(row.Vector)
		if i == at {
			slices.Reverse(vector)
		}
		stagetest.Must(writer.Write([]stage.VectorRow{{Key: row.Key, Vector: vector}}))
	}
	stagetest.Ok(t, writer.Close())
	return out.Bytes()
}

// A file of a segment that is another one is no reason to write over the row of a store, or to write a row that
// is missing there.
func TestASpoiltSegmentMendsNothing(t *testing.T) {
	first := newBench(t, 6, 0)
	whole, _, err := blob.Read(t.Context(), first.art.Store, first.art.SegmentKey(
		first.classUnit(verify.Vectors).Segment.SHA256))
	stagetest.Ok(t, err)
	var good []vectors.Row
	for i := range 6 {
		text := fmt.Sprint(i)
		good = append(good, row(core.ClassRow(core.ClassID("class "+text), core.Sum("vector", text))))
	}
	const at = 2
	bad := lying(t, good, at)
	for name, c := range map[string]struct {
		kind           verify.Kind
		missing, reads bool
	}{
		"a row that differs, in a look":        {kind: verify.Vectors},
		"a row that differs, in a sample":      {kind: verify.Sample},
		"a row that is missing":                {kind: verify.Vectors, missing: true},
		"a row that differs, for who may read": {kind: verify.Vectors, reads: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 6, 0) // which makes the same file each time
			b.all()
			unit := b.classUnit(c.kind)
			object := b.art.SegmentKey(unit.Segment.SHA256)
			stagetest.Must(blob.Write(t.Context(), b.art.Store, object, bad, blob.Cond{}))
			key := good[at].Key
			if c.missing {
				stagetest.Ok(t, b.vectors.Delete(t.Context(), "c", []string{key}))
			}
			look := b.in(unit)
			look.ReadOnly = c.reads
			look.Found = func(one verify.Finding) { t.Errorf("reported %+v", one) }
			musttest.Refuse(verify.Run(t.Context(), look))(t, fault.SegmentDamage)
			has := stagetest.Must(b.vectors.Has(t.Context(), "c", []string{key}))
			assert.True(t, has[0] != c.missing, "the store has it: %t", has[0])
			if !c.missing {
				got, err := b.vectors.Fetch(t.Context(), "c", []string{key})
				assert.True(t, err == nil && slices.Equal(got[0], good[at].Vector), "the good row became %v: %v", got, err)
			}
			stagetest.Must(blob.Write(t.Context(), b.art.Store, object, whole, blob.Cond{}))
			if got := b.run(b.in(unit)); (got.Rewritten == 1) != c.missing || b.count("c") != 6 {
				t.Errorf("when it is whole again: %+v, %d rows", got, b.count("c"))
			}
		})
	}
}

func TestWhatGoesWrongIsTold(t *testing.T) {
	t.Run("a store that fails is not a damaged segment, and the unit may be repeated", func(t *testing.T) {
		b := newBench(t, 9000, 0)
		in := b.in(b.classUnit(verify.Vectors))
		store := &brokenStore{Store: b.vectors}
		store.left.Store(1)
		in.Vectors = store
		res, err := verify.Run(t.Context(), in)
		assert.True(t, fault.Is(err, fault.StoreDown) && res.Rewritten == b.count("c") && res.Rewritten != 0,
			"%v: %+v, %d rows", err, res, b.count("c"))
		b.run(b.in(b.classUnit(verify.Vectors)))
		assert.Equal(t, int64(9000), b.count("c"))
	})
	t.Run("a segment that is gone", func(t *testing.T) {
		b := newBench(t, 1, 0)
		for _, unit := range []verify.Unit{
			{Kind: verify.Records, Segment: core.Segment{SHA256: "gone", Bytes: 100}},
			{Kind: verify.Vectors, Segment: core.Segment{SHA256: "gone", Bytes: 100}, Collection: "c", Dimension: dim},
		} {
			_, err := verify.Run(t.Context(), b.in(unit))
			assert.True(t, fault.Is(err, fault.NotFound) || fault.Is(err, fault.SegmentDamage), "%s: %v", unit.Kind, err)
		}
	})
	for name, spoil := range map[string]func(raw []byte) []byte{
		"a segment whose end is lost":      func(raw []byte) []byte { clear(raw[len(raw)-50:]); return raw },
		"a segment whose middle is zeroed": func(raw []byte) []byte { clear(raw[4 : len(raw)/2]); return raw },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 3000, 0)
			unit := b.classUnit(verify.Vectors)
			key := b.art.SegmentKey(unit.Segment.SHA256)
			raw, _, err := blob.Read(t.Context(), b.art.Store, key)
			stagetest.Ok(t, err)
			stagetest.Must(blob.Write(t.Context(), b.art.Store, key, spoil(raw), blob.Cond{}))
			_, err = verify.Run(t.Context(), b.in(unit))
			assert.True(t, fault.Is(err, fault.SegmentDamage) && fault.As(err).Hint != "", "got %v", err)
		})
	}
	t.Run("a segment that gives fewer rows than it has", func(t *testing.T) {
		b := newBench(t, 20, 0)
		for _, unit := range verify.Units(b.manifest)[:2] {
			unit.Segment.Rows++
			musttest.Code(t, musttest.Err(verify.Run(t.Context(), b.in(unit))), fault.SegmentDamage, unit.Kind)
		}
	})
	t.Run("a unit that is nothing", func(t *testing.T) {
		musttest.Refuse(verify.Run(t.Context(), newBench(t, 1, 0).in(verify.Unit{})))(t, fault.Internal)
	})
}
