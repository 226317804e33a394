package damaged_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		must(documents.BeginDocument(split.Row{Key: fmt.Sprint("document ", n), Meta: map[string]string{"n": fmt.Sprint(n)}}))
		for range n {
			chunk := split.Chunk{ID: chunkOf(number), End: 5, Windows: 1}
			must(documents.AddChunk(chunk, words[n%2]))
			must(documents.AddMention(classOf(number), uint32(number), 0))
			must(documents.AddMention(classOf(number+1), uint32(number), 1))
			must(documents.AddMention(classOf(number+1), uint32(number), 3))
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

// opened opens a split and a run that are stored nowhere yet.
func opened(t *testing.T, documents, classes []byte) (*split.File, *classrun.File) {
	t.Helper()
	folder := t.TempDir()
	for name, raw := range map[string][]byte{"split": documents, "run": classes} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), raw, 0o600))
	}
	of, err := split.Open(filepath.Join(folder, "split"), splitExpect)
	require.NoError(t, err)
	t.Cleanup(of.Close)
	run, err := classrun.Open(filepath.Join(folder, "run"), runExpect)
	require.NoError(t, err)
	t.Cleanup(run.Close)
	return of, run
}

var update = flag.Bool("update", false, "write the golden files")

// Bytes of this version's segments are those of the stored ones: others are another content hash.
func TestTheBytesOfSplitsAndRunsDoNotChange(t *testing.T) {
	for name, raw := range map[string][]byte{"split.segment": splitWhole(), "classrun.segment": runWhole()} {
		path := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.WriteFile(path, raw, 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(raw, want),
			"%s: %d bytes differ from the %d that were written before", name, len(raw), len(want))
	}
}

// readBeside returns a reader of a file beside another one, which is whole.
func readBeside(other []byte, read func(ctx context.Context, path, other string) (string, error)) func(
	context.Context, string) (string, error) {
	return func(ctx context.Context, path string) (string, error) {
		beside := path + ".beside"
		if err := os.WriteFile(beside, other, 0o600); err != nil {
			return "", err
		}
		return read(ctx, path, beside)
	}
}

func readSplit(run []byte) func(context.Context, string) (string, error) {
	return readBeside(run, readSet)
}

func readRun(split []byte) func(context.Context, string) (string, error) {
	return readBeside(split, func(ctx context.Context, run, split string) (string, error) {
		return readSet(ctx, split, run)
	})
}

// readSet opens a split and a run and returns everything that is live in them.
func readSet(ctx context.Context, splitPath, runPath string) (string, error) {
	documents, err := split.Open(splitPath, splitExpect)
	if err != nil {
		return "", err
	}
	defer documents.Close()
	classes, err := classrun.Open(runPath, runExpect)
	if err != nil {
		return "", err
	}
	defer classes.Close()
	said := ""
	for _, of := range []*postings.Side{documents.Words, classes.Words} {
		side, err := lexical.Compose([]lexical.Part{{Side: of}}, nil)
		if err != nil {
			return "", err
		}
		for _, terms := range words {
			said += fmt.Sprintln(side.Search(terms, 5, nil, nil))
		}
	}
	some := liveset.Split{File: documents, Dead: func(i int) bool { return i == 0 }}
	set, err := liveset.New(ctx, "damaged", []liveset.Split{some}, []liveset.Run{{File: classes}})
	if err != nil {
		return "", err
	}
	all, err := readAll(set)
	return said + all, err
}

// readAll returns what a set says, and an error where what it has is not found.
func readAll(set *liveset.Set) (said string, err error) {
	documents, chunks, classes := set.Counts()
	for i := range documents {
		meta, moment := set.FilterFields(i)
		said += fmt.Sprintln(set.Key(i), set.DocumentAt(i), meta, moment)
		if set.FindDocument(set.Key(i)) != i {
			return "", fmt.Errorf("document %d is not found", i)
		}
	}
	for number := range chunks {
		found := set.FindChunk(set.ByNumber(number).ID)
		if found == nil || int(found.Number) != number {
			return "", fmt.Errorf("chunk %d is not found", number)
		}
		said += fmt.Sprintf("%+v\n", *found)
	}
	for place := range classes {
		class := set.ClassAt(uint32(place))
		if set.ClassPlace(class.ID) != place || set.ByName(int(class.Name)).ID != class.ID {
			return "", fmt.Errorf("class %d is not found", place)
		}
		said += fmt.Sprintln(class.ID, set.Name(place), set.Mentions(uint32(place)), set.Graph.ChunksOf(uint32(place)))
	}
	return said, nil
}

// What is right in each file and wrong together is damage that names a file.
func TestSegmentsThatDoNotFitEachOtherAreRefused(t *testing.T) {
	documents, classes := opened(t, splitWhole(), runWhole())
	only := func(n int) func(int) bool { return func(i int) bool { return i == n } }
	none := func(int) bool { return true }
	for name, set := range map[string]struct {
		splits []liveset.Split
		runs   []liveset.Run
	}{
		"a class that no run has":       {[]liveset.Split{{File: documents}}, []liveset.Run{{File: classes, Dead: only(2)}}},
		"no run at all":                 {[]liveset.Split{{File: documents}}, nil},
		"a class without a mention":     {[]liveset.Split{{File: documents, Dead: only(3)}}, []liveset.Run{{File: classes}}},
		"classes and no documents":      {nil, []liveset.Run{{File: classes}}},
		"a document twice":              {[]liveset.Split{{File: documents}, {File: documents}}, []liveset.Run{{File: classes}}},
		"a class twice":                 {[]liveset.Split{{File: documents}}, []liveset.Run{{File: classes}, {File: classes}}},
		"a class that only a dead has":  {[]liveset.Split{{File: documents}}, []liveset.Run{{File: classes, Dead: none}}},
		"a class of a dead document":    {[]liveset.Split{{File: documents, Dead: none}}, []liveset.Run{{File: classes}}},
		"the same document, dead twice": {[]liveset.Split{{File: documents, Dead: only(2)}, {File: documents, Dead: only(2)}}, nil},
	} {
		_, err := liveset.New(t.Context(), "index", set.splits, set.runs)
		assert.True(t, fault.Is(err, fault.SegmentDamage), "%s: %v", name, err)
	}
	twice := []liveset.Split{{File: documents, Dead: none}, {File: documents}}
	runs := []liveset.Run{{File: classes}, {File: classes, Dead: none}}
	set, err := liveset.New(t.Context(), "index", twice, runs)
	if err == nil {
		_, err = readAll(set)
	}
	assert.NoError(t, err, "dead copies beside live ones")
}
