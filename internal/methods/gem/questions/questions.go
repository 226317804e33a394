// Package questions is the file of the questions that chunks answer, with their vectors: what a graphical eigen memory
// (internal/methods/gem) compares a prompt with. A chunk without questions is in it, too: it is compared by its text.
//
//	chunks  ids in increasing order, 16 bytes each    starts    u64 first question of each chunk, and one for the end
//	texts   bytes of all questions                    text_end  u64 end of each text
//	vectors f32, as many for each question as the dimension says
package questions

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"sort"
	"strconv"

	"github.com/unweaver/unweaver/internal/artifact/vector"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// Kind and Version of the file.
// 1: chunks, texts and vectors.
const (
	Kind    = "questions"
	Version = 1
)

// Of says what the vectors are.
type Of = vector.Of

// Question is what a chunk answers.
type Question struct {
	Text   string
	Vector []float32
}

// Chunk is one with its questions, in the order in which they were made.
type Chunk struct {
	ID        core.ID
	Questions []Question
}

// File is an open file. It may be read by many at once until it is closed.
type File struct {
	file    *mapped.File
	chunks  []core.ID
	starts  []uint64
	texts   mapped.Strings
	vectors []float32
	of      Of
}

// Open maps a file and checks its lengths. Errors are those of mapped.Open; one of another
// embedder or dimension is fault.FormatUnknown.
func Open(path string, of Of) (*File, error) {
	file, err := mapped.Open(path, Kind, Version)
	if err != nil {
		return nil, err
	}
	f := &File{
		file:    file,
		chunks:  mapped.ViewSection[core.ID](file, "chunks"),
		starts:  mapped.ViewSection[uint64](file, "starts"),
		texts:   mapped.StringsOf(file, "texts", "text_end"),
		vectors: mapped.ViewSection[float32](file, "vectors"),
	}
	ok := false
	if f.of, ok, err = vector.Read(file, path, of); !ok {
		err = file.UnfitError("its dimension or embedder is none")
	} else if len(f.starts) != len(f.chunks)+1 || len(f.vectors) != f.of.Dimension*f.texts.Len() {
		err = file.UnfitError("its sections are of different lengths")
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

func isFinite(vector []float32) bool {
	for _, x := range vector {
		if x-x != 0 {
			return false
		}
	}
	return true
}

// Close unmaps it; vectors that it gave are not valid any more.
func (f *File) Close() { f.file.Close() }

// DescribeVectors says what the vectors are.
func (f *File) DescribeVectors() Of { return f.of }

// Chunks returns the number of chunks.
func (f *File) Chunks() int { return len(f.chunks) }

// Questions returns the number of questions of all chunks together.
func (f *File) Questions() int { return f.texts.Len() }

// Find returns the place of a chunk, or -1.
func (f *File) Find(id core.ID) int {
	i := sort.Search(len(f.chunks), func(i int) bool { return bytes.Compare(f.chunks[i][:], id[:]) >= 0 })
	if i < len(f.chunks) && f.chunks[i] == id {
		return i
	}
	return -1
}

// FlatVectors returns all vectors, one after another, and where those of each chunk begin, with one more for the end.
// Both are valid until Close, and must not be written to.
func (f *File) FlatVectors() (vectors []float32, starts []uint64) { return f.vectors, f.starts }

// Owner returns the chunk at a place.
func (f *File) Owner(i int) core.ID { return f.chunks[i] }

// Text returns the text of a question, counted through all chunks.
func (f *File) Text(question int) string { return f.texts.At(question) }

// Write writes the file of chunks, which come by increasing id; memory does not grow with them. Equal chunks are equal
// bytes. Errors: those of the chunks, and fault.Internal for chunks that do not increase and vectors that are not of
// the dimension or hold what is no finite number.
func Write(writer io.Writer, of Of, chunks iter.Seq2[Chunk, error]) error {
	if why := of.FindMistake(); why != "" {
		return newInternalError(why)
	}
	cols := columns{of: of}
	defer cols.close()
	if err := mapped.PutRecord(&cols.starts, uint64(0)); err != nil {
		return err
	}
	for chunk, err := range chunks {
		if err != nil {
			return err
		}
		if err := cols.put(chunk); err != nil {
			return err
		}
	}
	out := mapped.NewWriter(writer, Kind, Version, of.Meta())
	if err := errors.Join(
		cols.chunks.WriteSection(out, "chunks"), cols.starts.WriteSection(out, "starts"),
		cols.texts.WriteSection(out, "texts"), cols.ends.WriteSection(out, "text_end"),
		cols.vectors.WriteSection(out, "vectors"),
	); err != nil {
		return err
	}
	return out.Close()
}

func newInternalError(why string) error {
	return fault.Internal.At("write", "the questions of chunks").Because(why).
		Advise("this is a fault of the program: report it with this text")
}

// columns are the sections in the making.
type columns struct {
	of                                   Of
	chunks, starts, texts, ends, vectors mapped.Column
	last                                 core.ID
	some                                 bool // chunks are there
	end, count                           uint64
}

func (c *columns) put(chunk Chunk) error {
	if c.some && bytes.Compare(c.last[:], chunk.ID[:]) >= 0 {
		return newInternalError("chunk " + chunk.ID.String() + " comes after " + c.last.String())
	}
	c.last, c.some = chunk.ID, true
	for _, question := range chunk.Questions {
		if len(question.Vector) != c.of.Dimension || !isFinite(question.Vector) {
			return newInternalError("a vector of chunk " + chunk.ID.String() + " is not of " + strconv.Itoa(c.of.Dimension) +
				" finite numbers")
		}
		c.end += uint64(len(question.Text))
		c.count++
		err := errors.Join(c.texts.Put([]byte(question.Text)), mapped.PutRecord(&c.ends, c.end))
		for _, x := range question.Vector {
			err = errors.Join(err, mapped.PutRecord(&c.vectors, x))
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(c.chunks.Put(chunk.ID[:]), mapped.PutRecord(&c.starts, c.count))
}

func (c *columns) close() {
	for _, column := range []*mapped.Column{&c.chunks, &c.starts, &c.texts, &c.ends, &c.vectors} {
		column.Close()
	}
}
