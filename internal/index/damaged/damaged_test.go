// Package damaged_test damages files of every format. A reader refuses a damaged file or reads what was written: block
// checksums find damage, so that readers need not check what records say of each other.
package damaged_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/deletedstats"
	"github.com/unweaver/unweaver/internal/index/deletions"
	"github.com/unweaver/unweaver/internal/index/idf"
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/methods/apr/facts"
	"github.com/unweaver/unweaver/internal/methods/gem/questions"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/internal/text"
)

func must[T any](value T, err error) T { return stagetest.Must(value, err) }

// format is one kind of file: a whole one, and a reader that returns everything that it says.
type format struct {
	whole []byte
	read  func(ctx context.Context, path string) string // panics with errors
}

func written(t *testing.T, write func(*bytes.Buffer) error) []byte {
	var out bytes.Buffer
	require.NoError(t, write(&out))
	return out.Bytes()
}

func formats(t *testing.T) map[string]format {
	return map[string]format{
		"split": {splitWhole(), readSplit(runWhole())}, "classrun": {runWhole(), readRun(splitWhole())},
		"idf": {written(t, writeIDF), readIDF}, "tomb": {written(t, writeTomb), readTomb},
		"deadstats": {written(t, writeDeadStats), readDeadStats}, "questions": {written(t, writeQuestions), readQuestions},
		"spectral": {written(t, writeSpectral), readSpectral}, "facts": {written(t, writeFacts), readFacts},
	}
}

// TestDamageIsRefusedOrHarmless flips a bit of every byte of a file of each format; at every 16th it cuts the file and
// clears a piece of it.
// Promises: 83, 95, 96, 97.
func TestDamageIsRefusedOrHarmless(t *testing.T) {
	for name, format := range formats(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "file")
			read := func(content []byte) (said string, err error) {
				require.NoError(t, os.WriteFile(path, content, 0o600))
				defer func() {
					if broken := recover(); broken != nil {
						err, _ = broken.(error)
					}
				}()
				return format.read(t.Context(), path), nil
			}
			want, err := read(format.whole)
			require.True(t, err == nil && want != "", "a whole file says %q: %v", want, err)
			refused, coarse := 0, 16
			for at := range format.whole {
				damages := map[string][]byte{"a bit flipped at": bytes.Clone(format.whole)}
				damages["a bit flipped at"][at] ^= 1 << (at % 8)
				if at%coarse == 0 {
					cleared := bytes.Clone(format.whole)
					clear(cleared[at:min(at+64, len(cleared))])
					damages["cut to"], damages["64 bytes cleared at"] = format.whole[:at], cleared
				}
				for what, content := range damages {
					got, err := read(content)
					switch {
					case fault.Is(err, fault.SegmentDamage), fault.Is(err, fault.FormatUnknown):
						refused++
					case err != nil:
						t.Errorf("%s %d: refused without its code: %v", what, at, err)
					case got != want:
						t.Errorf("%s %d: it says %q, want %q", what, at, got, want)
					}
				}
			}
			assert.True(t, refused >= len(format.whole)/2, "%d damages of %d bytes are refused", refused, len(format.whole))
		})
	}
}

// words are those of the sides of splits and class runs.
var words = [][]string{{"capital", "oslo", "norway", "ship"}, {"fram", "nansen", "expedition", "city"}}

func writeIDF(out *bytes.Buffer) error {
	return idf.Learn(context.Background(), out, text.LanguageOf(""), 3, func(yield func(string, error) bool) {
		_ = yield("the river rises", nil) && yield("the river falls", nil) && yield("a mountain stands", nil)
	})
}

func readIDF(_ context.Context, path string) string {
	table := must(idf.Open(path))
	defer table.Close()
	said := fmt.Sprint(table.Total(), slices.Collect(table.Terms()))
	for _, stem := range []string{"river", "rise", "mountain", "zzz", ""} {
		said += fmt.Sprint(" ", table.Weight(stem))
	}
	return said
}

var tombOf = deletions.Of{Segment: "5e9", Unit: deletions.Documents, Rows: 130}

func writeTomb(out *bytes.Buffer) error {
	return deletions.Write(out, tombOf, func(row int) bool { return row%5 == 0 })
}

func readTomb(_ context.Context, path string) string {
	bitmap := must(deletions.Open(path, tombOf))
	defer bitmap.Close()
	said := fmt.Sprint(bitmap.CountDead())
	for row := range bitmap.CountRows() {
		said += fmt.Sprint(" ", bitmap.IsDead(row))
	}
	return said
}

var deadOf = deletedstats.Of{Side: "chunks", Analyser: "words/1"}

func writeDeadStats(out *bytes.Buffer) error {
	return deletedstats.Write(out, deadOf, nil, deletedstats.Change{Documents: 9, Terms: 100,
		Entries: func(yield func(deletedstats.Entry, error) bool) {
			for _, entry := range []deletedstats.Entry{
				{Term: "", Documents: 9}, {Term: "a", Documents: 1}, {Term: "ab", Documents: 4}, {Term: "é", Documents: 7},
			} {
				if !yield(entry, nil) {
					return
				}
			}
		}})
}

func readDeadStats(_ context.Context, path string) string {
	table := must(deletedstats.Open(path, deadOf))
	defer table.Close()
	said := fmt.Sprint(table.Totals())
	for entry := range table.All() {
		said += fmt.Sprint(" ", entry, table.Frequency(entry.Term))
	}
	return said
}

var questionsOf = questions.Of{Embedder: "hashing-2", Dimension: 2}

func writeQuestions(out *bytes.Buffer) error {
	return questions.Write(out, questionsOf, func(yield func(questions.Chunk, error) bool) {
		_ = yield(questions.Chunk{ID: core.ID{1}, Questions: []questions.Question{
			{Text: "What is the first?", Vector: []float32{1, 0}}, {Text: "", Vector: []float32{0, 0}},
		}}, nil) && yield(questions.Chunk{ID: core.ID{1, 1}}, nil) && yield(questions.Chunk{
			ID: core.ID{9}, Questions: []questions.Question{{Text: "Où est le dernier ?", Vector: []float32{0.6, -0.8}}},
		}, nil)
	})
}

func readQuestions(_ context.Context, path string) string {
	file := must(questions.Open(path, questionsOf))
	defer file.Close()
	vectors, starts := file.FlatVectors()
	said := fmt.Sprint(file.DescribeVectors(), vectors, starts)
	for i := range file.Chunks() {
		said += fmt.Sprint(" ", file.Owner(i), file.Find(file.Owner(i)))
	}
	for question := range file.Questions() {
		said += " " + file.Text(question)
	}
	return said
}

func writeSpectral(out *bytes.Buffer) error {
	return spectral.Content{
		Chunks: []core.ID{{1}, {1, 1}, {9}}, Summaries: 1, Starts: []uint64{0, 1, 3, 3, 4},
		To: []uint32{1, 0, 3, 1}, Weights: []float32{0.5, 0.5, 0.25, 0.25}, Degrees: []float32{0.5, 0.5, 0},
		Pairs: 2, Vectors: []float32{0.7, 0.7, 0, 0.7, -0.7, 0},
	}.Write(out)
}

func readSpectral(_ context.Context, path string) string {
	file := must(spectral.Open(path))
	defer file.Close()
	said := fmt.Sprint(file.Content, file.MaxWeight())
	for node := range len(file.Chunks) + file.Summaries {
		to, weights := file.Edges(node)
		said += fmt.Sprint(" ", to, weights)
	}
	return said
}

var factsOf = facts.Of{Embedder: "hashing-2", Dimension: 2}

func writeFacts(out *bytes.Buffer) error {
	table := func(rows ...[]float32) apr.Table {
		made := apr.Table{Dim: 2}
		for _, row := range rows {
			made.Add(row)
		}
		return made
	}
	chunk := strings.Repeat("c", len(core.ID{}))
	book, sequences, _ := apr.Indexify([]apr.Document{{Key: "d", Triples: []triples.Triple{
		{Head: "Oslo", Relation: "lies in", Tail: "Norway", Source: triples.Source{Chunk: chunk}},
		{Head: "Bergen", Relation: "lies in", Tail: "Norway", Source: triples.Source{Chunk: chunk, Sentence: 3}},
	}}})
	book.Runs = [][]uint32{sequences[0].Edges}
	return facts.Write(out, factsOf, facts.Facts{
		Book: book, Entities: table([]float32{1, 0}, []float32{0, 1}, []float32{.6, .8}), Relations: table([]float32{0, 1}),
		Lines: table([]float32{1, 0}, []float32{.8, .6}), Keys: []core.Digest{{1}, {2}},
	})
}

func readFacts(_ context.Context, path string) string {
	file := must(facts.Open(path, factsOf))
	defer file.Close()
	var again bytes.Buffer
	must(0, facts.Write(&again, file.DescribeVectors(), file.Facts))
	return again.String()
}

// The split has 4 documents of 0 to 3 chunks, each of which mentions two of 5 classes.
var (
	splitExpect = split.Expect{Analyser: "v1", Documents: 4, Chunks: 6, Classes: 5}
	runExpect   = classrun.Expect{Analyser: "v1", Classes: 5}
)

func classOf(n int) core.ID { return core.ID{byte(n%5) << 4, 7} }
func chunkOf(n int) core.ID { return core.ID{byte(n * 37), 3} }

// segmentsWhole writes a split and the run of its classes, which fit each other.
var segmentsWhole = sync.OnceValues(func() (splitRaw, runRaw []byte) {
	check := func(err error) { must(0, err) }
	documents, classes := split.NewWriter(), classrun.NewWriter()
	defer documents.Close()
	defer classes.Close()
	number := 0
	for n := range 4 {
		check(documents.BeginDocument(split.Row{Key: fmt.Sprint("document ", n), Meta: map[string]string{"n": fmt.Sprint(n)}}))
		for range n {
			check(documents.AddChunk(split.Chunk{ID: chunkOf(number), End: 5, Windows: 1}, words[n%2]))
			check(documents.AddMention(classOf(number), uint32(number), 0))
			check(documents.AddMention(classOf(number+1), uint32(number), 1))
			check(documents.AddMention(classOf(number+1), uint32(number), 3))
			number++
		}
	}
	for n := range 5 {
		check(classes.Add(classrun.Row{ID: classOf(n)}, words[n%2][n%4], "", words[n%2]))
	}
	var splitOut, runOut bytes.Buffer
	must(documents.Write(&splitOut, "v1", "en"))
	must(classes.Write(&runOut, "v1", "en"))
	return splitOut.Bytes(), runOut.Bytes()
})

func splitWhole() []byte { raw, _ := segmentsWhole(); return raw }
func runWhole() []byte   { _, raw := segmentsWhole(); return raw }

// opened opens a split and a run that are stored nowhere yet.
func opened(t *testing.T, documents, classes []byte) (*split.File, *classrun.File) {
	folder := t.TempDir()
	for name, raw := range map[string][]byte{"split": documents, "run": classes} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), raw, 0o600))
	}
	of := musttest.Get(split.Open(filepath.Join(folder, "split"), splitExpect))(t)
	t.Cleanup(of.Close)
	run := musttest.Get(classrun.Open(filepath.Join(folder, "run"), runExpect))(t)
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
		want := musttest.Get(os.ReadFile(path))(t)
		assert.True(t, bytes.Equal(raw, want),
			"%s: %d bytes differ from the %d that were written before", name, len(raw), len(want))
	}
}

// readSplit reads a split beside a run, and readRun a run beside a split.
func readSplit(run []byte) func(context.Context, string) string {
	return func(ctx context.Context, path string) string { return readSet(ctx, path, beside(path, run)) }
}

func readRun(split []byte) func(context.Context, string) string {
	return func(ctx context.Context, path string) string { return readSet(ctx, beside(path, split), path) }
}

func beside(path string, whole []byte) string {
	path += ".beside"
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		panic(err)
	}
	return path
}

// readSet opens a split and a run and returns everything that is live in them.
func readSet(ctx context.Context, splitPath, runPath string) string {
	documents := must(split.Open(splitPath, splitExpect))
	defer documents.Close()
	classes := must(classrun.Open(runPath, runExpect))
	defer classes.Close()
	said := ""
	for _, of := range []*postings.Side{documents.Words, classes.Words} {
		side := must(lexical.Compose([]lexical.Part{{Side: of}}, nil))
		for _, terms := range words {
			said += fmt.Sprintln(side.Search(terms, 5, nil, nil))
		}
	}
	some := liveset.Split{File: documents, Dead: func(i int) bool { return i == 0 }}
	set := must(liveset.New(ctx, "damaged", []liveset.Split{some}, []liveset.Run{{File: classes}}))
	return said + readAll(set)
}

// readAll returns what a set says, and an error where what it has is not found.
func readAll(set *liveset.Set) (said string) {
	documents, chunks, classes := set.Counts()
	for i := range documents {
		meta, moment := set.FilterFields(i)
		said += fmt.Sprintln(set.Key(i), set.DocumentAt(i), meta, moment)
		if set.FindDocument(set.Key(i)) != i {
			panic(fmt.Errorf("document %d is not found", i))
		}
	}
	for number := range chunks {
		found := set.FindChunk(set.ByNumber(number).ID)
		if found == nil || int(found.Number) != number {
			panic(fmt.Errorf("chunk %d is not found", number))
		}
		said += fmt.Sprintf("%+v\n", *found)
	}
	for place := range classes {
		class := set.ClassAt(uint32(place))
		if set.ClassPlace(class.ID) != place || set.ByName(int(class.Name)).ID != class.ID {
			panic(fmt.Errorf("class %d is not found", place))
		}
		said += fmt.Sprintln(class.ID, set.Name(place), set.Mentions(uint32(place)), set.Graph.ChunksOf(uint32(place)))
	}
	return said
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
		musttest.Code(t, musttest.Err(liveset.New(t.Context(), "index", set.splits, set.runs)), fault.SegmentDamage, name)
	}
	twice := []liveset.Split{{File: documents, Dead: none}, {File: documents}}
	set, err := liveset.New(t.Context(), "index", twice, []liveset.Run{{File: classes}, {File: classes, Dead: none}})
	require.NoError(t, err, "dead copies beside live ones")
	readAll(set)
}
