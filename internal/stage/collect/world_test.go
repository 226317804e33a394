package collect_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
	"github.com/unweaver/unweaver/internal/text"
)

const (
	storeID    = "0123456789abcdef0123456789abcdef"
	collPrefix = "uw_test_"
)

// day returns when the n-th day of a test begins.
func day(n int) time.Time { return time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC).AddDate(0, 0, n) }

// memoryRecords is a store of class records whose deletes can fail.
type memoryRecords struct {
	*recordsmemory.Store
	fail func(op string) error
}

func (m memoryRecords) DeleteRecords(ctx context.Context, keys []string) error {
	if err := m.fail("delete records"); err != nil {
		return err
	}
	return m.Store.DeleteRecords(ctx, keys)
}

// memoryVectors is a store of vectors whose deletes can fail.
type memoryVectors struct {
	*vectorsmemory.Store
	fail func(op string) error
}

func (m memoryVectors) Delete(ctx context.Context, collection string, keys []string) error {
	if err := m.fail("delete rows"); err != nil {
		return err
	}
	return m.Store.Delete(ctx, collection, keys)
}

func (m memoryVectors) Drop(ctx context.Context, collection string) error {
	if err := m.fail("drop"); err != nil {
		return err
	}
	return m.Store.Drop(ctx, collection)
}

// leases are the generations that readers use.
type leases map[string]bool

func (l leases) ListLeased(context.Context, string) (map[string]bool, error) { return l, nil }

// content is what a generation holds: texts of classes and of chunks, by name. A text may end in "*n": n windows.
type content struct {
	classes map[string]string
	chunks  map[string]string
	// collections, where they are not the usual ones
	collections core.Collections
	state       string // published, where it is empty
	parent      string // generation
}

// world is an index with its stores.
type world struct {
	t        *testing.T
	dir      string
	store    *artifacttest.Memory
	index    artifact.Index
	records  records.Store
	vectors  memoryVectors
	leases   leases
	now      time.Time
	keep     int
	guard    func(context.Context) error
	fence    int64
	manifest map[string]string // by generation
	seq      int64
	asking   sync.Mutex
	fail     func(op string) error // asked before every change of any store, one question at a time
	loaded   map[string]bool       // what the last build wrote or found written, as a build sees its parent
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, dir: t.TempDir(), store: artifacttest.New(), leases: leases{}, now: day(0), keep: 1,
		manifest: map[string]string{},
	}
	w.index = artifact.Index{Store: w.store, Name: "docs"}
	w.store.Now = func() time.Time { return w.now }
	w.store.Fail = func(op artifacttest.Op, key string) error {
		if op == artifacttest.Put || op == artifacttest.Delete {
			return w.change(string(op) + " " + key)
		}
		return nil
	}
	w.records = memoryRecords{recordsmemory.New(), w.change}
	w.vectors = memoryVectors{vectorsmemory.New(), w.change}
	return w
}

func (w *world) change(op string) error {
	w.asking.Lock()
	defer w.asking.Unlock()
	if w.fail == nil {
		return nil
	}
	return w.fail(op)
}

func (w *world) check(err error) { require.NoError(w.t, err) }

func classOf(name, text string) liveset.Class {
	id := core.ClassID(name)
	record := rows.Record{ID: id, Name: name, Text: text}.Encode()
	return liveset.Class{ID: id, Record: rows.RecordDigest(record), Vector: core.Sum("vector", name, text)}
}

func chunkOf(name, text string) liveset.Chunk {
	windows := 1
	if _, n, ok := strings.Cut(text, "*"); ok {
		_, _ = fmt.Sscan(n, &windows)
		text, _, _ = strings.Cut(text, "*")
	}
	return liveset.Chunk{ID: core.ChunkID("d", name, 0), Digest: core.Sum("chunk", name, text), Windows: uint32(windows)}
}

func sorted[T any](of map[string]string, make func(name, text string) T, id func(T) core.ID) []T {
	var out []T
	for name, text := range of {
		out = append(out, make(name, text))
	}
	slices.SortFunc(out, func(a, b T) int {
		x, y := id(a), id(b)
		return bytes.Compare(x[:], y[:])
	})
	return out
}

func (w *world) segment(write func(*artifact.File) error) core.Segment {
	file := stagetest.Must(artifact.NewFile())
	defer file.Discard()
	w.check(write(file))
	seg, _, err := file.PutSegment(context.Background(), w.index)
	w.check(err)
	return seg
}

func (w *world) rowSegment(fill func(*artifact.Rows)) core.Segment {
	out := stagetest.Must(artifact.NewRows())
	defer out.Discard()
	fill(out)
	seg, _, err := out.StoreSegment(context.Background(), w.index, 0)
	w.check(err)
	return seg
}

// extractKey and shortenKey are the ledger keys that a chunk and a class list.
func extractKey(name, text string) core.Digest {
	text, _, _ = strings.Cut(text, "*")
	return ledger.Key(ledger.Extract, "p", "m", "", "s", name+text)
}

func shortenKey(name, text string) core.Digest {
	return ledger.Key(ledger.Shorten, "p", "m", "", "s", name+text)
}

// build writes a generation as a build does, without making it the current one.
func (w *world) build(gen string, c content) {
	ctx := context.Background()
	if c.collections == (core.Collections{}) {
		c.collections = core.Collections{Classes: collPrefix + "classes_0", Chunks: collPrefix + "chunks_0"}
	}
	classes := sorted(c.classes, classOf, func(x liveset.Class) core.ID { return x.ID })
	chunks := sorted(c.chunks, chunkOf, func(x liveset.Chunk) core.ID { return x.ID })
	w.seq++
	manifest := &core.Manifest{
		Format: core.ManifestFormat, Index: "docs", Generation: gen, Seq: w.seq, Store: storeID, Collections: c.collections,
		Parent: w.manifest[c.parent],
	}
	w.tables(&manifest.Segments, classes, chunks)
	manifest.Segments.Extract = []core.Segment{w.rowSegment(func(out *artifact.Rows) {
		for name, text := range ordered(c.chunks) {
			id := core.ChunkID("d", name, 0)
			out.Append(string(id[:]), rows.Extract{Key: extractKey(name, text)}.Encode())
		}
	})}
	manifest.Segments.Classes = []core.Segment{w.rowSegment(func(out *artifact.Rows) {
		for name, text := range ordered(c.classes) {
			class := classOf(name, text)
			row := rows.Class{
				Record: rows.Record{ID: class.ID, Name: name, Text: text}.Encode(), Vector: class.Vector,
				Keys: []core.Digest{shortenKey(name, text)},
			}
			out.Append(string(class.ID[:]), row.Encode())
		}
	})}
	w.check(w.vectors.Create(ctx, c.collections.Classes, 2))
	w.check(w.vectors.Create(ctx, c.collections.Chunks, 2))
	w.load(ctx, classes, chunks, c.collections)
	sha := stagetest.Must(w.index.PutManifest(ctx, manifest))
	w.manifest[gen] = sha
	state := c.state
	if state == "" {
		state = "published"
	}
	ref := core.GenerationRef{Manifest: sha, Seq: w.seq, State: state}
	for file, v := range map[string]any{"manifest.json": ref, "report.json": ref} {
		stagetest.Must(blob.WriteJSON(ctx, w.store, w.index.GenerationKey(gen, file), v, blob.Cond{}))
	}
}

// tables writes the split and the class run of what a generation holds.
func (w *world) tables(into *core.Segments, classes []liveset.Class, chunks []liveset.Chunk) {
	documents, run := split.NewWriter(), classrun.NewWriter()
	defer documents.Close()
	defer run.Close()
	w.check(documents.BeginDocument(split.Row{Key: "d"}))
	for _, chunk := range chunks {
		w.check(documents.AddChunk(split.Chunk{ID: chunk.ID, Digest: chunk.Digest, Windows: chunk.Windows}, nil))
	}
	for _, class := range classes {
		w.check(run.Add(classrun.Row{ID: class.ID, Vector: class.Vector.Prefix(), Record: class.Record}, "", "", nil))
	}
	made := w.segment(func(file *artifact.File) error { return musttest.Err(documents.Write(file, text.Analyser, "en")) })
	into.Splits = []core.Split{{Segment: made, Documents: 1, Chunks: int64(len(chunks))}}
	made = w.segment(func(file *artifact.File) error { return musttest.Err(run.Write(file, text.Analyser, "en")) })
	made.Rows = int64(len(classes))
	into.Runs = []core.Run{{Segment: made}}
}

func ordered(of map[string]string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		var names []string
		for name := range of {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if !yield(name, of[name]) {
				return
			}
		}
	}
}

// load writes what the build before did not have.
func (w *world) load(ctx context.Context, classes []liveset.Class, chunks []liveset.Chunk, in core.Collections) {
	var all []records.Record
	var classRows, chunkRows []vectors.Row
	now := map[string]bool{}
	fresh := func(key string) bool {
		now[key] = true
		return !w.loaded[key]
	}
	for _, class := range classes {
		if key := core.RecordKey(storeID, "docs", class.ID, class.Record); fresh(key) {
			all = append(all, records.Record{Key: key, Value: []byte("record")})
		}
		if key := core.ClassRow(class.ID, class.Vector); fresh(in.Classes + key) {
			classRows = append(classRows, vectors.Row{Key: key, Vector: []float32{1, 0}})
		}
	}
	for _, chunk := range chunks {
		for window := range chunk.Windows {
			if key := core.ChunkRow(chunk.ID, int(window), chunk.Digest); fresh(in.Chunks + key) {
				chunkRows = append(chunkRows, vectors.Row{Key: key, Vector: []float32{0, 1}})
			}
		}
	}
	w.loaded = now
	w.check(w.records.PutRecords(ctx, all))
	w.check(w.vectors.Upsert(ctx, in.Classes, classRows))
	w.check(w.vectors.Upsert(ctx, in.Chunks, chunkRows))
}

// publish builds a generation and makes it the current one.
func (w *world) publish(gen string, c content) {
	w.build(gen, c)
	w.point(gen, w.seq)
}

// point makes a generation the current one.
func (w *world) point(gen string, seq int64) {
	current, _, err := w.index.ReadPointer(context.Background())
	w.check(err)
	next := core.Pointer{Generation: gen, Manifest: w.manifest[gen], Seq: seq, Epoch: current.Epoch + 1}
	stagetest.Must(blob.WriteJSON(context.Background(), w.store, w.index.CurrentKey(), next, blob.Cond{}))
}

func (w *world) in() collect.In {
	return collect.In{
		Artifacts: w.index, Keep: w.keep, Grace: 24 * time.Hour, Fence: w.fence, Readers: w.leases, Records: w.records,
		Vectors: w.vectors, Collections: collPrefix, OpenTable: w.open, Guard: w.guard, Now: w.now,
	}
}

func (w *world) open(ctx context.Context, manifest *core.Manifest) (*segments.Table, error) {
	cache, err := localfile.New(w.dir, 0)
	if err != nil {
		return nil, err
	}
	return segments.OpenTable(ctx, cache, w.index, manifest)
}

// collect runs the stage on a day.
func (w *world) collect(on int) collect.Result {
	w.now = day(on)
	return stagetest.Must(collect.Run(context.Background(), w.in()))
}

// state returns every key of every store.
func (w *world) state() []string {
	all := w.store.Keys("docs/")
	w.check(w.records.ScanRecords(context.Background(), "", func(keys []string) error {
		for _, key := range keys {
			all = append(all, "record "+key)
		}
		return nil
	}))
	for _, collection := range stagetest.Must(w.vectors.List(context.Background(), "")) {
		all = append(all, "collection "+collection)
		for _, key := range w.vectors.Keys(collection) {
			all = append(all, "row "+collection+" "+key)
		}
	}
	slices.Sort(all)
	return all
}

// missing names what a generation of this content needs and the stores do not have.
func (w *world) missing(gen string, c content) []string {
	var out []string
	manifest, err := w.index.Manifest(context.Background(), w.manifest[gen])
	if err != nil {
		return []string{err.Error()}
	}
	for _, seg := range manifest.Segments.All() {
		if len(w.store.Keys(w.index.SegmentKey(seg.SHA256))) == 0 {
			out = append(out, "segment "+seg.SHA256)
		}
	}
	all := w.state()
	has := func(entry string) {
		if _, ok := slices.BinarySearch(all, entry); !ok {
			out = append(out, entry)
		}
	}
	for name, text := range c.classes {
		class := classOf(name, text)
		has("record " + core.RecordKey(storeID, "docs", class.ID, class.Record))
		has("row " + manifest.Collections.Classes + " " + core.ClassRow(class.ID, class.Vector))
	}
	for name, text := range c.chunks {
		chunk := chunkOf(name, text)
		for window := range chunk.Windows {
			has("row " + manifest.Collections.Chunks + " " + core.ChunkRow(chunk.ID, int(window), chunk.Digest))
		}
	}
	return out
}

// worldOf returns a world in which generations g1, g2 and so on were published.
func worldOf(t *testing.T, generations ...content) *world {
	w := newWorld(t)
	for i, c := range generations {
		w.publish(fmt.Sprint("g", i+1), c)
	}
	return w
}

// collectNights runs the stage on each of the days from one to before another.
func (w *world) collectNights(from, to int) {
	for night := from; night < to; night++ {
		w.collect(night)
	}
}
