package questions_test

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/gem/questions"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

var hashing = questions.Of{Embedder: "hashing-2", Dimension: 2}

var sample = []questions.Chunk{
	{ID: core.ID{1}, Questions: []questions.Question{
		{Text: "What is the first?", Vector: []float32{1, 0}}, {Text: "", Vector: []float32{0, 0}}}},
	{ID: core.ID{1, 1}},
	{ID: core.ID{9}, Questions: []questions.Question{{Text: "Où est le dernier ?", Vector: []float32{0.6, -0.8}}}},
}

func write(t testing.TB, chunks []questions.Chunk) []byte {
	var content bytes.Buffer
	require.NoError(t, questions.Write(&content, hashing, scratchtest.Yield(chunks...)))
	return content.Bytes()
}

func open(t testing.TB, content []byte, of questions.Of) (*questions.File, error) {
	return scratchtest.Open(t, content, func(path string) (*questions.File, error) { return questions.Open(path, of) })
}

// all returns what a file says of every chunk, and checks that the file finds each by its id.
func all(t testing.TB, file *questions.File) []questions.Chunk {
	var out []questions.Chunk
	count := 0
	vectors, starts := file.FlatVectors()
	for i := range file.Chunks() {
		chunk := questions.Chunk{ID: file.Owner(i)}
		for q := starts[i]; q < starts[i+1]; q++ {
			chunk.Questions = append(chunk.Questions, questions.Question{Text: file.Text(int(q)), Vector: vectors[2*q : 2*q+2]})
		}
		assert.Equal(t, len(out), file.Find(chunk.ID), "chunk")
		out = append(out, chunk)
		count += len(chunk.Questions)
	}
	assert.True(t, file.Chunks() == len(out) && file.Questions() == count,
		"%d chunks with %d questions, said are %d with %d", len(out), count, file.Chunks(), file.Questions())
	return out
}

// Promises: 96.
func TestWhatIsWrittenIsReadAndEqualChunksAreEqualBytes(t *testing.T) {
	for _, chunks := range [][]questions.Chunk{nil, sample[:1], sample} {
		content := write(t, chunks)
		file := musttest.Get(open(t, content, hashing))(t)
		got := all(t, file)
		assert.True(t, reflect.DeepEqual(got, append([]questions.Chunk(nil), chunks...)), "%v, not %v", got, chunks)
		assert.True(t, bytes.Equal(write(t, got), content), "%d chunks that were read have other bytes", len(chunks))
		assert.True(t, file.Find(core.ID{2}) == -1 && file.Find(core.ID{255}) == -1, "a chunk is found that is not there")
	}
}

func TestVectorsOfAnotherEmbedderAreRefused(t *testing.T) {
	content := write(t, sample)
	for _, of := range []questions.Of{{Embedder: "hashing-3", Dimension: 2}, {Embedder: "hashing-2", Dimension: 3}} {
		musttest.Code(t, musttest.Err(open(t, content, of)), fault.FormatUnknown, "%v", of)
	}
	file, err := open(t, content, questions.Of{})
	assert.True(t, err == nil && file.DescribeVectors() == hashing, "for who compares no vector: %v", err)
}

func TestWhatCannotBeWrittenIsRefused(t *testing.T) {
	one := func(vector ...float32) []questions.Chunk {
		return []questions.Chunk{{ID: core.ID{1}, Questions: []questions.Question{{Vector: vector}}}}
	}
	for name, c := range map[string]struct {
		of     questions.Of
		chunks []questions.Chunk
	}{
		"out of order": {hashing, []questions.Chunk{sample[2], sample[0]}},
		"twice":        {hashing, []questions.Chunk{sample[0], sample[0]}}, "too short": {hashing, one(1)},
		"too long": {hashing, one(1, 2, 3)}, "no number": {hashing, one(1, float32(math.NaN()))},
		"infinite": {hashing, one(1, float32(math.Inf(-1)))}, "no embedder": {questions.Of{Dimension: 2}, nil},
		"no dimension":    {questions.Of{Embedder: "hashing-2"}, nil},
		"many dimensions": {questions.Of{Embedder: "hashing-2", Dimension: 1<<16 + 1}, nil},
	} {
		musttest.Code(t, questions.Write(&bytes.Buffer{}, c.of, scratchtest.Yield(c.chunks...)), fault.Internal, name)
	}
	broken, left := errors.New("broken"), scratchtest.In(t, t.TempDir())
	err := questions.Write(&bytes.Buffer{}, hashing, func(yield func(questions.Chunk, error) bool) {
		long := strings.Repeat("x", 3<<20)
		_ = yield(questions.Chunk{Questions: []questions.Question{{Text: long, Vector: []float32{1, 0}}}}, nil) &&
			yield(questions.Chunk{}, broken)
	})
	assert.True(t, errors.Is(err, broken) && len(left()) == 0, "%v, and temporary files are left: %v", err, left())
}
