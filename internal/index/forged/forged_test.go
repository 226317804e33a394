// Package forged_test reads files of every format that somebody forged: the content is another, the checksums are
// right.
// A reader refuses such a file or makes something of it; it does not panic, loop, or take memory without measure.
package forged_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/idf"
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/live"
	"github.com/unweaver/unweaver/internal/index/search"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
	"github.com/unweaver/unweaver/internal/testkit/mappedtest"
	"github.com/unweaver/unweaver/internal/text"
)

// forgeries of each format are read; UNWEAVER_TEST_FORGED asks for more.
func forgeries(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("UNWEAVER_TEST_FORGED")); err == nil {
		return n
	}
	if testing.Short() {
		return 100
	}
	return 400
}

// format is one kind of file: a whole one, and a reader that looks at everything in it.
type format struct {
	whole []byte
	forge func(whole []byte, random *rand.Rand) []byte
	read  func(ctx context.Context, path string) error
}

// sample is what the stored segments were written from: 6 documents, 9 chunks, 12 classes.
var sample = search.Expect{Analyser: text.Analyser, Documents: 6, Chunks: 9, Classes: 12}

func formats(t testing.TB) map[string]format {
	t.Helper()
	stored := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join("../../stage/segment/testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var table bytes.Buffer
	err := idf.Learn(context.Background(), &table, text.In(""), 3, func(yield func(string, error) bool) {
		_ = yield("the river rises", nil) && yield("the river falls", nil) && yield("a mountain stands", nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]format{
		"live":     {stored("live.segment"), mappedtest.Forge, readLive},
		"search":   {stored("search.2.segment"), mappedtest.Forge, readSearch},
		"search 1": {stored("search.segment"), mappedtest.Forge, readSearch},
		"idf":      {table.Bytes(), mappedtest.Forge, readIDF},
		"rows":     {rowsWhole(t), forgeRows, readRows},
		"text":     {textWhole(t), forgeRows, readText},
		"split":    {splitWhole(), mappedtest.Forge, readSplit(runWhole())},
		"classrun": {runWhole(), mappedtest.Forge, readRun(splitWhole())},

		"classrun 3": {earlier(t, "classrun.3.segment"), mappedtest.Forge, readRun(splitWhole())},
		"split 2":    {earlier(t, "split.2.segment"), mappedtest.Forge, readSplit(earlier(t, "classrun.2.segment"))},
		"classrun 2": {earlier(t, "classrun.2.segment"), mappedtest.Forge, readRun(earlier(t, "split.2.segment"))},
		"split 1":    {earlier(t, "split.1.segment"), mappedtest.Forge, readSplit(earlier(t, "classrun.1.segment"))},
		"classrun 1": {earlier(t, "classrun.1.segment"), mappedtest.Forge, readRun(earlier(t, "split.1.segment"))},
	}
}

func readLive(_ context.Context, path string) error {
	table, err := live.Open(path)
	if err != nil {
		return err
	}
	defer table.Close()
	for i := range table.Classes {
		table.Class(table.Classes[i].ID)
	}
	for i := range table.Chunks {
		chunk := &table.Chunks[i]
		table.Chunk(chunk.ID)
		table.ByNumber(int(chunk.Number))
		table.Key(int(chunk.Document))
		table.Place(chunk)
	}
	for i := range table.Documents {
		table.Document(table.Key(i))
		table.DocumentFrom(table.Key(i))
		for n := range table.Documents[i].Count {
			table.ByNumber(int(table.Documents[i].Chunks + n))
		}
	}
	for i := range table.Names() {
		table.NamedFrom(table.Name(i))
		table.ByName(i)
	}
	return nil
}

// words are those of the stored search segment's sides.
var words = [][]string{{"capital", "oslo", "norway", "ship"}, {"fram", "nansen", "expedition", "city"}}

func readSearch(_ context.Context, path string) error {
	file, err := search.Open(path, sample)
	if err != nil {
		return err
	}
	defer file.Close()
	for i := range file.Graph.Classes() {
		for _, chunk := range file.Graph.ChunksOf(uint32(i)) {
			file.Graph.ClassesOf(chunk)
		}
	}
	for i := range sample.Documents {
		file.Document(i)
	}
	for _, index := range []*lexical.Index{lexical.New(file.Chunks), lexical.New(file.Classes)} {
		for _, terms := range words {
			hits := index.Search(terms, 5, nil, nil)
			var docs []uint32
			for _, hit := range hits {
				docs = append(docs, hit.Doc)
			}
			index.Score(terms, docs)
		}
	}
	graph := &walk.Graph{Adjacency: *file.Graph}
	start := walk.Start{Classes: []walk.Weighted{{ID: 3, Weight: 1}}, Chunks: []walk.Weighted{{ID: 1, Weight: 0.5}}}
	graph.Run(start, 0.5, 1e-6, walk.View{})
	graph.RunToChunks(start, 0.5, 1e-6, walk.Steps{})
	return nil
}

func readIDF(_ context.Context, path string) error {
	table, err := idf.Open(path)
	if err != nil {
		return err
	}
	defer table.Close()
	for _, stem := range []string{"river", "rise", "mountain", "zzz", ""} {
		table.Weight(stem)
	}
	table.Total()
	return nil
}

// guarded reads a file and tells of a panic; a reader that does not end fails the whole test.
func guarded(t *testing.T, read func(context.Context, string) error, path string) (panicked any, err error) {
	t.Helper()
	timer := time.AfterFunc(20*time.Second, func() { panic("a reader does not end: " + path) })
	defer timer.Stop()
	defer func() {
		if panicked = recover(); panicked != nil {
			t.Logf("%v\n%s", panicked, debug.Stack())
		}
	}()
	return nil, read(t.Context(), path)
}

func TestForgedFilesAreRefusedOrReadWithoutAPanic(t *testing.T) {
	for name, format := range formats(t) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			random := rand.New(rand.NewPCG(8, uint64(len(name))))
			if err := os.WriteFile(path, format.whole, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := guarded(t, format.read, path); err != nil {
				t.Fatal("a whole file: ", err)
			}
			refused, other, panics := 0, 0, 0
			var before, after runtime.MemStats
			for i := range forgeries(t) {
				forged := format.forge(format.whole, random)
				if err := os.WriteFile(path, forged, 0o600); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&before)
				panicked, err := guarded(t, format.read, path)
				runtime.ReadMemStats(&after)
				switch {
				case panicked != nil:
					t.Errorf("forgery %d: %v", i, panicked)
					if panics++; panics > 5 {
						t.FailNow()
					}
				case fault.Is(err, fault.SegmentDamage), fault.Is(err, fault.FormatUnknown):
					refused++
				case err != nil:
					t.Errorf("forgery %d: refused without its code: %v", i, err)
				default:
					other++
				}
				if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
					t.Errorf("forgery %d of %d bytes took %d MiB", i, len(forged), took>>20)
				}
			}
			t.Logf("%d refused, %d read", refused, other)
			if refused == 0 {
				t.Error("nothing was refused: the forgeries change nothing")
			}
		})
	}
}
