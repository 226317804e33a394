package questions_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/gem/questions"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/testkit/mappedtest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

var hashing = questions.Of{Embedder: "hashing-2", Dimension: 2}

var sample = []questions.Chunk{
	{ID: core.ID{1}, Questions: []questions.Question{
		{Text: "What is the first?", Vector: []float32{1, 0}}, {Text: "", Vector: []float32{0, 0}}}},
	{ID: core.ID{1, 1}},
	{ID: core.ID{9}, Questions: []questions.Question{{Text: "Où est le dernier ?", Vector: []float32{0.6, -0.8}}}},
}

func listed(chunks []questions.Chunk) iter.Seq2[questions.Chunk, error] {
	return func(yield func(questions.Chunk, error) bool) {
		for _, chunk := range chunks {
			if !yield(chunk, nil) {
				return
			}
		}
	}
}

func write(t testing.TB, chunks []questions.Chunk) []byte {
	t.Helper()
	var content bytes.Buffer
	if err := questions.Write(&content, hashing, listed(chunks)); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

func open(t testing.TB, content []byte, of questions.Of) (*questions.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "questions")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := questions.Open(path, of)
	if err == nil {
		t.Cleanup(file.Close)
	} else if !strings.Contains(err.Error(), path) {
		t.Errorf("an error that does not name the file: %v", err)
	}
	return file, err
}

// all is what a file says of every chunk, also by its id.
func all(t testing.TB, file *questions.File) []questions.Chunk {
	t.Helper()
	var out []questions.Chunk
	count := 0
	for chunk := range file.All() {
		if at := file.Find(chunk.ID); at != len(out) {
			t.Errorf("chunk %d is found at %d", len(out), at)
		}
		out = append(out, chunk)
		count += len(chunk.Questions)
	}
	if file.Chunks() != len(out) || file.Questions() != count {
		t.Errorf("%d chunks with %d questions, said are %d with %d", len(out), count, file.Chunks(), file.Questions())
	}
	return out
}

func TestWhatIsWrittenIsReadAndEqualChunksAreEqualBytes(t *testing.T) {
	for _, chunks := range [][]questions.Chunk{nil, sample[:1], sample} {
		content := write(t, chunks)
		file, err := open(t, content, hashing)
		if err != nil {
			t.Fatal(err)
		}
		got := all(t, file)
		if !reflect.DeepEqual(got, append([]questions.Chunk(nil), chunks...)) {
			t.Errorf("%v, not %v", got, chunks)
		}
		if !bytes.Equal(write(t, got), content) {
			t.Errorf("%d chunks that were read have other bytes", len(chunks))
		}
		if file.Find(core.ID{2}) != -1 || file.Find(core.ID{255}) != -1 {
			t.Error("a chunk is found that is not there")
		}
	}
}

func TestVectorsOfAnotherEmbedderAreRefused(t *testing.T) {
	content := write(t, sample)
	for _, of := range []questions.Of{{Embedder: "hashing-3", Dimension: 2}, {Embedder: "hashing-2", Dimension: 3}} {
		if _, err := open(t, content, of); !fault.Is(err, fault.FormatUnknown) {
			t.Errorf("%v: %v", of, err)
		}
	}
	file, err := open(t, content, questions.Of{})
	if err != nil || file.Of() != hashing {
		t.Errorf("for who compares no vector: %v", err)
	}
}

func TestWhatCannotBeWrittenIsRefused(t *testing.T) {
	one := func(vector ...float32) []questions.Chunk {
		return []questions.Chunk{{ID: core.ID{1}, Questions: []questions.Question{{Vector: vector}}}}
	}
	for name, c := range map[string]struct {
		of     questions.Of
		chunks []questions.Chunk
	}{
		"out of order":    {hashing, []questions.Chunk{sample[2], sample[0]}},
		"twice":           {hashing, []questions.Chunk{sample[0], sample[0]}},
		"too short":       {hashing, one(1)},
		"too long":        {hashing, one(1, 2, 3)},
		"no number":       {hashing, one(1, float32(math.NaN()))},
		"infinite":        {hashing, one(1, float32(math.Inf(-1)))},
		"no embedder":     {questions.Of{Dimension: 2}, nil},
		"no dimension":    {questions.Of{Embedder: "hashing-2"}, nil},
		"many dimensions": {questions.Of{Embedder: "hashing-2", Dimension: 1<<16 + 1}, nil},
	} {
		if err := questions.Write(&bytes.Buffer{}, c.of, listed(c.chunks)); !fault.Is(err, fault.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := errors.New("broken")
	left := scratchtest.In(t, t.TempDir())
	err := questions.Write(&bytes.Buffer{}, hashing, func(yield func(questions.Chunk, error) bool) {
		long := strings.Repeat("x", 3<<20)
		_ = yield(questions.Chunk{Questions: []questions.Question{{Text: long, Vector: []float32{1, 0}}}}, nil) &&
			yield(questions.Chunk{}, broken)
	})
	if !errors.Is(err, broken) || len(left()) > 0 {
		t.Errorf("%v, and temporary files are left: %v", err, left())
	}
}

// A bit of every byte is flipped, and the file is cut at every place: an error, or the same chunks.
func TestDamageIsSeenOrHarmless(t *testing.T) {
	good := write(t, sample)
	try := func(content []byte, what string, at int) {
		file, err := open(t, content, questions.Of{})
		if err != nil {
			if !fault.Is(err, fault.SegmentDamage) && !fault.Is(err, fault.FormatUnknown) {
				t.Fatalf("%s %d: %v", what, at, err)
			}
			return
		}
		if !reflect.DeepEqual(all(t, file), sample) {
			t.Fatalf("%s %d: other chunks", what, at)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		try(bad, "byte", i)
		try(good[:i], "cut to", i)
	}
}

// Checksums are right and the content is not: each section in turn says what does not fit the others.
func TestSectionsThatDoNotFitEachOtherAreRefused(t *testing.T) {
	type sections struct {
		dimension string
		chunks    []core.ID
		starts    []uint64
		texts     string
		ends      []uint64
		vectors   []float32
	}
	forge := func(change func(*sections)) []byte {
		one := sections{"2", []core.ID{{1}, {2}}, []uint64{0, 1, 2}, "ab", []uint64{1, 2}, []float32{1, 0, 0, 1}}
		change(&one)
		var content bytes.Buffer
		out := mapped.NewWriter(&content, questions.Kind, questions.Version,
			map[string]string{"embedder": "hashing-2", "dimension": one.dimension})
		out.Section("chunks")
		mapped.Put(out, one.chunks)
		out.Section("starts")
		mapped.Put(out, one.starts)
		out.Section("texts")
		mapped.Put(out, []byte(one.texts))
		out.Section("text_end")
		mapped.Put(out, one.ends)
		out.Section("vectors")
		mapped.Put(out, one.vectors)
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		return content.Bytes()
	}
	if file, err := open(t, forge(func(*sections) {}), hashing); err != nil || len(all(t, file)) != 2 {
		t.Fatalf("what fits: %v", err)
	}
	for name, change := range map[string]func(*sections){
		"a vector too few":      func(s *sections) { s.vectors = s.vectors[:2] },
		"half a vector more":    func(s *sections) { s.vectors = append(s.vectors, 1) },
		"an infinite number":    func(s *sections) { s.vectors[3] = float32(math.Inf(1)) },
		"no number":             func(s *sections) { s.vectors[0] = float32(math.NaN()) },
		"a chunk too few":       func(s *sections) { s.chunks = s.chunks[:1] },
		"a start too few":       func(s *sections) { s.starts = []uint64{0, 2} },
		"starts that go back":   func(s *sections) { s.starts = []uint64{0, 3, 2} },
		"texts that are cut":    func(s *sections) { s.texts = "a" },
		"chunks out of order":   func(s *sections) { s.chunks[0] = core.ID{3} },
		"the same chunk twice":  func(s *sections) { s.chunks[0] = core.ID{2} },
		"no dimension":          func(s *sections) { s.dimension = "" },
		"a dimension below one": func(s *sections) { s.dimension = "0" },
		"another dimension":     func(s *sections) { s.dimension = "4" },
		"a huge dimension":      func(s *sections) { s.dimension = "4611686018427387904" },
	} {
		if _, err := open(t, forge(change), questions.Of{}); !fault.Is(err, fault.SegmentDamage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// choices is a source of random numbers that the fuzzer writes.
type choices struct{ rest []byte }

// Uint64 implements rand.Source; behind the end of the input it is never 0, of which draws would be repeated for ever.
func (c *choices) Uint64() uint64 {
	var raw [8]byte
	n := copy(raw[:], c.rest)
	c.rest = c.rest[n:]
	if n == 0 {
		return 0x9e3779b97f4a7c15
	}
	return binary.LittleEndian.Uint64(raw[:])
}

// Content that is forged under checksums that are right is refused, or every chunk of it is found and can be compared.
func FuzzQuestions(f *testing.F) {
	whole := write(f, sample)
	for _, seed := range []string{"", "\x01", "0123456789abcdef0123456789abcdef", "\xff\xff\xff\xff\xff\xff\xff\xff\x80"} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Add(whole, false)
	f.Fuzz(func(t *testing.T, input []byte, forged bool) {
		content := input
		if forged {
			content = mappedtest.Forge(whole, rand.New(&choices{input}))
		}
		file, err := open(t, content, questions.Of{})
		if err != nil {
			if !fault.Is(err, fault.SegmentDamage) && !fault.Is(err, fault.FormatUnknown) {
				t.Errorf("refused without its code: %v", err)
			}
			return
		}
		var again bytes.Buffer
		if err := questions.Write(&again, file.Of(), listed(all(t, file))); err != nil {
			t.Errorf("what was opened cannot be written: %v", err)
		}
	})
}
