package forged_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/index/split"
)

// The split has 4 documents of 0 to 3 chunks, each of which mentions two of 5 classes.
var (
	splitExpect = split.Expect{Analyser: "v1", Documents: 4, Chunks: 6, Classes: 5}
	runExpect   = classrun.Expect{Analyser: "v1", Classes: 5}
)

func classOf(n int) core.ID { return core.ID{byte(n%5) << 4, 7} }

func chunkOf(n int) core.ID { return core.ID{byte(n * 37), 3} }

// segmentsWhole writes a split and the run of its classes, which fit each other.
var segmentsWhole = sync.OnceValues(func() (splitRaw, runRaw []byte) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	documents, classes := split.NewWriter(), classrun.NewWriter()
	defer documents.Close()
	defer classes.Close()
	number := 0
	for n := range 4 {
		must(documents.Document(split.Row{Key: fmt.Sprint("document ", n), Meta: map[string]string{"n": fmt.Sprint(n)}}))
		for range n {
			chunk := split.Chunk{ID: chunkOf(number), End: 5, Windows: 1}
			must(documents.Chunk(chunk, words[n%2]))
			must(documents.Mention(classOf(number), uint32(number), 0))
			must(documents.Mention(classOf(number+1), uint32(number), 1))
			must(documents.Mention(classOf(number+1), uint32(number), 3))
			number++
		}
	}
	for n := range 5 {
		must(classes.Add(classrun.Row{ID: classOf(n)}, words[n%2][n%4], words[n%2]))
	}
	var splitOut, runOut bytes.Buffer
	_, err := documents.Write(&splitOut, "v1", "en")
	must(err)
	_, err = classes.Write(&runOut, "v1", "en")
	must(err)
	return splitOut.Bytes(), runOut.Bytes()
})

func splitWhole() []byte { raw, _ := segmentsWhole(); return raw }
func runWhole() []byte   { _, raw := segmentsWhole(); return raw }

// earlier reads a segment that an earlier version of this program wrote, of what segmentsWhole writes.
func earlier(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// opened opens a split and a run that are stored nowhere yet.
func opened(t *testing.T, documents, classes []byte) (*split.File, *classrun.File) {
	t.Helper()
	folder := t.TempDir()
	for name, raw := range map[string][]byte{"split": documents, "run": classes} {
		if err := os.WriteFile(filepath.Join(folder, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	of, err := split.Open(filepath.Join(folder, "split"), splitExpect)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(of.Close)
	run, err := classrun.Open(filepath.Join(folder, "run"), runExpect)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run.Close)
	return of, run
}

// Segments that an earlier version wrote are opened beside those of this one, and say the same.
func TestSegmentsOfAnEarlierVersionSayTheSame(t *testing.T) {
	for _, version := range []string{"1", "2", "3"} {
		t.Run(version, func(t *testing.T) {
			saySame(t, earlier(t, "split."+version+".segment"), earlier(t, "classrun."+version+".segment"))
		})
	}
}

func saySame(t *testing.T, formerSplit, formerRun []byte) {
	t.Helper()
	wantSplit, wantRun := opened(t, splitWhole(), runWhole())
	gotSplit, gotRun := opened(t, formerSplit, formerRun)
	var sets [2]*liveset.Set
	for i, of := range []liveset.Split{{File: gotSplit}, {File: wantSplit}} {
		set, err := liveset.New(t.Context(), "i", []liveset.Split{of}, []liveset.Run{{File: []*classrun.File{gotRun, wantRun}[i]}})
		if err != nil {
			t.Fatal(err)
		}
		sets[i] = set
	}
	if got, want := sets[0], sets[1]; !slices.Equal(got.Rank, want.Rank) || !reflect.DeepEqual(got.Graph, want.Graph) {
		t.Errorf("classes are in the order %v, want %v", got.Rank, want.Rank)
	}
	if !reflect.DeepEqual(gotSplit.Chunks, wantSplit.Chunks) ||
		!reflect.DeepEqual(gotSplit.Documents, wantSplit.Documents) {
		t.Errorf("%+v, want %+v", gotSplit.Chunks, wantSplit.Chunks)
	}
	for class := range splitExpect.Classes {
		if got, want := gotSplit.ChunksOf(class), wantSplit.ChunksOf(class); !slices.Equal(got, want) {
			t.Errorf("class %d is in chunks %v, want %v", class, got, want)
		}
	}
	for row := range runExpect.Classes {
		if got, want := gotRun.Rows[row], wantRun.Rows[row]; got != want {
			t.Errorf("class %d: %+v, want %+v", row, got, want)
		}
		if got, want := nameOf(gotRun, row), nameOf(wantRun, row); got != want {
			t.Errorf("class %d: %q, want %q", row, got, want)
		}
	}
	for _, sides := range [][2]*postings.Side{{gotSplit.Words, wantSplit.Words}, {gotRun.Words, wantRun.Words}} {
		got, want := lexical.New(sides[0]), lexical.New(sides[1])
		for _, terms := range words {
			hits := got.Search(terms, 9, nil, nil)
			if same := want.Search(terms, 9, nil, nil); len(hits) == 0 || !reflect.DeepEqual(hits, same) {
				t.Errorf("%v: %v, want %v", terms, hits, same)
			}
		}
	}
}

var update = flag.Bool("update", false, "write the golden files")

// Bytes of this version's segments are those of the stored ones: others are another content hash.
func TestTheBytesOfSplitsAndRunsDoNotChange(t *testing.T) {
	for name, raw := range map[string][]byte{"split.3.segment": splitWhole(), "classrun.4.segment": runWhole()} {
		if *update {
			if err := os.WriteFile(filepath.Join("testdata", name), raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want := earlier(t, name); !bytes.Equal(raw, want) {
			t.Errorf("%s: %d bytes differ from the %d that were written before", name, len(raw), len(want))
		}
	}
}

// beside writes a whole file beside a forged one.
func beside(path string, whole []byte) (string, error) {
	other := filepath.Join(filepath.Dir(path), "beside")
	return other, os.WriteFile(other, whole, 0o600)
}

func readSplit(run []byte) func(context.Context, string) error {
	return func(ctx context.Context, path string) error {
		run, err := beside(path, run)
		if err != nil {
			return err
		}
		return readSet(ctx, path, run)
	}
}

func readRun(split []byte) func(context.Context, string) error {
	return func(ctx context.Context, path string) error {
		split, err := beside(path, split)
		if err != nil {
			return err
		}
		return readSet(ctx, split, path)
	}
}

// readSet opens a split and a run and looks at everything that is live in them, once with all and once with a dead
// document.
func readSet(ctx context.Context, splitPath, runPath string) error {
	documents, err := split.Open(splitPath, splitExpect)
	if err != nil {
		return err
	}
	defer documents.Close()
	classes, err := classrun.Open(runPath, runExpect)
	if err != nil {
		return err
	}
	defer classes.Close()
	for _, side := range []*lexical.Index{lexical.New(documents.Words), lexical.New(classes.Words)} {
		for _, terms := range words {
			side.Search(terms, 5, nil, nil)
		}
	}
	some := liveset.Split{File: documents, Dead: func(i int) bool { return i == 0 }}
	set, err := liveset.New(ctx, "forged", []liveset.Split{some}, []liveset.Run{{File: classes}})
	if err != nil {
		return err
	}
	if err := readAll(set); err != nil {
		return err
	}
	none := liveset.Split{File: documents, Dead: func(int) bool { return true }}
	dead := liveset.Run{File: classes, Dead: func(int) bool { return true }}
	_, err = liveset.New(ctx, "forged", []liveset.Split{none}, []liveset.Run{dead})
	return err
}

func readAll(set *liveset.Set) error {
	documents, chunks, classes := set.Counts()
	for i := range documents {
		set.Filtered(i)
		if set.Document(set.Key(i)) != i || set.DocumentAt(i).Chunks > uint32(chunks) {
			return fmt.Errorf("document %d is not found", i)
		}
	}
	for number := range chunks {
		if found := set.Chunk(set.ByNumber(number).ID); found == nil || int(found.Number) != number {
			return fmt.Errorf("chunk %d is not found", number)
		}
	}
	for place := range classes {
		class := set.ClassAt(uint32(place))
		if set.ClassPlace(class.ID) != place || set.ByName(int(class.Name)).ID != class.ID {
			return fmt.Errorf("class %d is not found", place)
		}
		set.NamedFrom(set.Name(place))
		set.Mentions(uint32(place))
	}
	if !set.Graph.Fits() {
		return fmt.Errorf("the graph does not fit")
	}
	return nil
}

func FuzzSplit(f *testing.F)    { fuzz(f, "split") }
func FuzzClassRun(f *testing.F) { fuzz(f, "classrun") }

// What is right in each file and wrong together is damage that names a file.
func TestSegmentsThatDoNotFitEachOtherAreRefused(t *testing.T) {
	documents, classes := opened(t, splitWhole(), runWhole())
	former, firsts := opened(t, earlier(t, "split.2.segment"), earlier(t, "classrun.2.segment"))
	only := func(n int) func(int) bool { return func(i int) bool { return i == n } }
	none := func(int) bool { return true }
	for name, set := range map[string]struct {
		splits []liveset.Split
		runs   []liveset.Run
	}{
		"a class that no run has":       {[]liveset.Split{{File: documents}}, []liveset.Run{{File: classes, Dead: only(2)}}},
		"no run at all":                 {[]liveset.Split{{File: documents}}, nil},
		"a class without a mention":     {[]liveset.Split{{File: documents, Dead: only(3)}}, []liveset.Run{{File: classes}}},
		"another first mention":         {[]liveset.Split{{File: former, Dead: only(1)}}, []liveset.Run{{File: firsts}}},
		"a split of before":             {[]liveset.Split{{File: former}}, []liveset.Run{{File: classes}}},
		"a run of before":               {[]liveset.Split{{File: documents}}, []liveset.Run{{File: firsts}}},
		"classes and no documents":      {nil, []liveset.Run{{File: classes}}},
		"a document twice":              {[]liveset.Split{{File: documents}, {File: documents}}, []liveset.Run{{File: classes}}},
		"a class twice":                 {[]liveset.Split{{File: documents}}, []liveset.Run{{File: classes}, {File: classes}}},
		"a class that only a dead has":  {[]liveset.Split{{File: documents}}, []liveset.Run{{File: classes, Dead: none}}},
		"a class of a dead document":    {[]liveset.Split{{File: documents, Dead: none}}, []liveset.Run{{File: classes}}},
		"the same document, dead twice": {[]liveset.Split{{File: documents, Dead: only(2)}, {File: documents, Dead: only(2)}}, nil},
	} {
		if _, err := liveset.New(t.Context(), "index", set.splits, set.runs); !fault.Is(err, fault.SegmentDamage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	twice := []liveset.Split{{File: documents, Dead: none}, {File: documents}}
	runs := []liveset.Run{{File: classes}, {File: classes, Dead: none}}
	if set, err := liveset.New(t.Context(), "index", twice, runs); err != nil || readAll(set) != nil {
		t.Errorf("dead copies beside live ones: %v", err)
	}
}

func nameOf(run *classrun.File, row int) string {
	return string(run.AppendName(nil, slices.Index(run.NameRow, uint32(row))))
}
