// Package damaged_test damages files of every format. A reader refuses a damaged file or reads what was written: block
// checksums find damage, so that readers need not check what records say of each other.
package damaged_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/deletedstats"
	"github.com/unweaver/unweaver/internal/index/deletions"
	"github.com/unweaver/unweaver/internal/index/idf"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/methods/apr/facts"
	"github.com/unweaver/unweaver/internal/methods/gem/questions"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/text"
)

// format is one kind of file: a whole one, and a reader that returns everything that it says.
type format struct {
	whole []byte
	read  func(ctx context.Context, path string) (string, error)
}

// written returns what write writes.
func written(t *testing.T, write func(*bytes.Buffer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, write(&out))
	return out.Bytes()
}

func formats(t *testing.T) map[string]format {
	t.Helper()
	return map[string]format{
		"rows":      {rowsWhole(t), readRows},
		"text":      {textWhole(t), readText},
		"split":     {splitWhole(), readSplit(runWhole())},
		"classrun":  {runWhole(), readRun(splitWhole())},
		"idf":       {written(t, writeIDF), readIDF},
		"tomb":      {written(t, writeTomb), readTomb},
		"deadstats": {written(t, writeDeadStats), readDeadStats},
		"questions": {written(t, writeQuestions), readQuestions},
		"spectral":  {written(t, writeSpectral), readSpectral},
		"facts":     {written(t, writeFacts), readFacts},
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
			read := func(content []byte) (string, error) {
				require.NoError(t, os.WriteFile(path, content, 0o600))
				return format.read(t.Context(), path)
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

func readIDF(_ context.Context, path string) (string, error) {
	table, err := idf.Open(path)
	if err != nil {
		return "", err
	}
	defer table.Close()
	said := fmt.Sprint(table.Total(), slices.Collect(table.Terms()))
	for _, stem := range []string{"river", "rise", "mountain", "zzz", ""} {
		said += fmt.Sprint(" ", table.Weight(stem))
	}
	return said, nil
}

var tombOf = deletions.Of{Segment: "5e9", Unit: deletions.Documents, Rows: 130}

func writeTomb(out *bytes.Buffer) error {
	return deletions.Write(out, tombOf, func(row int) bool { return row%5 == 0 })
}

func readTomb(_ context.Context, path string) (string, error) {
	bitmap, err := deletions.Open(path, tombOf)
	if err != nil {
		return "", err
	}
	defer bitmap.Close()
	said := fmt.Sprint(bitmap.CountDead())
	for row := range bitmap.CountRows() {
		said += fmt.Sprint(" ", bitmap.IsDead(row))
	}
	return said, nil
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

func readDeadStats(_ context.Context, path string) (string, error) {
	table, err := deletedstats.Open(path, deadOf)
	if err != nil {
		return "", err
	}
	defer table.Close()
	said := fmt.Sprint(table.Totals())
	for entry := range table.All() {
		said += fmt.Sprint(" ", entry, table.Frequency(entry.Term))
	}
	return said, nil
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

func readQuestions(_ context.Context, path string) (string, error) {
	file, err := questions.Open(path, questionsOf)
	if err != nil {
		return "", err
	}
	defer file.Close()
	said := fmt.Sprint(file.DescribeVectors())
	for chunk := range file.All() {
		said += fmt.Sprint(" ", chunk, file.Find(chunk.ID))
	}
	return said, nil
}

func writeSpectral(out *bytes.Buffer) error {
	return spectral.Content{
		Chunks: []core.ID{{1}, {1, 1}, {9}}, Summaries: 1, Starts: []uint64{0, 1, 3, 3, 4},
		To: []uint32{1, 0, 3, 1}, Weights: []float32{0.5, 0.5, 0.25, 0.25}, Degrees: []float32{0.5, 0.5, 0},
		Pairs: 2, Vectors: []float32{0.7, 0.7, 0, 0.7, -0.7, 0},
	}.Write(out)
}

func readSpectral(_ context.Context, path string) (string, error) {
	file, err := spectral.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	said := fmt.Sprint(file.Content, file.MaxWeight())
	for node := range len(file.Chunks) + file.Summaries {
		to, weights := file.Edges(node)
		said += fmt.Sprint(" ", to, weights)
	}
	return said, nil
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

func readFacts(_ context.Context, path string) (string, error) {
	file, err := facts.Open(path, factsOf)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var again bytes.Buffer
	err = errors.Join(facts.Write(&again, file.DescribeVectors(), file.Facts))
	return again.String(), err
}
