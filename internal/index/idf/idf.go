// Package idf writes and reads the document frequencies by which the built-in embedder weighs stems. They are learned
// from the chunks of a corpus and stored as a segment. Its digest is part of the embedder's fingerprint.
package idf

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"io"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/text"
)

// Table is an open segment. It may be read by many at once until it is closed.
type Table struct {
	file        *mapped.File
	terms       mapped.Strings
	frequencies []uint32 // chunks that hold the term, by its place
	sampled     float64  // chunks that were looked at
}

const (
	kind    = "idf"
	version = 1
	// sample chunks are looked at; of more, about as many, chosen by a hash of their text. It bounds the memory.
	sample = 50_000
)

// Learn counts words in chunks' texts, by the language, and writes the table. total is how many chunks there are.
func Learn(
	ctx context.Context, writer io.Writer, language *text.Language, total int64, texts iter.Seq2[string, error],
) error {
	frequencies := map[string]uint32{}
	sampled := uint64(0)
	for chunkText, err := range texts {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if total > sample {
			h := fnv.New64a()
			_, _ = h.Write([]byte(chunkText)) // never fails
			if h.Sum64()%uint64(total) >= sample {
				continue
			}
		}
		sampled++
		seen := map[string]bool{}
		for _, t := range language.SurfaceWords(chunkText) {
			if !seen[t] {
				seen[t] = true
				frequencies[t]++
			}
		}
	}
	terms := slices.Sorted(maps.Keys(frequencies))
	counts := make([]uint32, len(terms))
	for i, t := range terms {
		counts[i] = frequencies[t]
	}
	return writeTable(writer, terms, counts, sampled, uint64(total))
}

// writeTable writes a table of terms, which are sorted.
func writeTable(writer io.Writer, terms []string, counts []uint32, sampled, total uint64) error {
	segment := mapped.NewWriter(writer, kind, version, nil)
	segment.BeginSection("terms")
	for _, t := range terms {
		_, _ = io.WriteString(segment, t) // Close reports errors
	}
	ends, end := make([]uint64, len(terms)), uint64(0)
	for i, t := range terms {
		end += uint64(len(t))
		ends[i] = end
	}
	segment.BeginSection("term_end")
	mapped.Put(segment, ends)
	segment.BeginSection("df")
	mapped.Put(segment, counts)
	segment.BeginSection("n")
	_, _ = segment.Write(binary.LittleEndian.AppendUint64(nil, sampled))
	segment.BeginSection("total")
	_, _ = segment.Write(binary.LittleEndian.AppendUint64(nil, total))
	return segment.Close()
}

// Open maps a table.
func Open(path string) (*Table, error) {
	file, err := mapped.Open(path, kind, version)
	if err != nil {
		return nil, err
	}
	table := &Table{
		file:        file,
		terms:       mapped.StringsOf(file, "terms", "term_end"),
		frequencies: mapped.ViewSection[uint32](file, "df"),
	}
	sampled, total := file.Bytes("n"), file.Bytes("total")
	if len(table.frequencies) != table.terms.Len() || len(sampled) != 8 || len(total) != 8 {
		err := file.UnfitError("its sections are of different lengths")
		file.Close()
		return nil, err
	}
	table.sampled = float64(binary.LittleEndian.Uint64(sampled))
	return table, nil
}

// Terms gives all terms, in order.
func (t *Table) Terms() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range t.terms.Len() {
			if !yield(string(t.terms.At(i))) {
				return
			}
		}
	}
}

// WriteWithout writes the table without some of its terms. Every other term weighs what it weighed.
func (t *Table) WriteWithout(writer io.Writer, drop func(term string) bool) error {
	var terms []string
	var counts []uint32
	for i, frequency := range t.frequencies {
		if term := t.terms.At(i); !drop(term) {
			terms, counts = append(terms, term), append(counts, frequency)
		}
	}
	return writeTable(writer, terms, counts, uint64(t.sampled), uint64(t.Total()))
}

// Total returns how many chunks there were when it was learned.
func (t *Table) Total() int64 { return int64(binary.LittleEndian.Uint64(t.file.Bytes("total"))) }

// Close unmaps it.
func (t *Table) Close() { t.file.Close() }

// Weight returns ln(1 + (N + 1)/(frequency + 0.5)), N the chunks that were looked at; a stem that none holds weighs
// most.
func (t *Table) Weight(stem string) float64 {
	frequency := 0.0
	if i := t.terms.Find(stem); i >= 0 {
		frequency = float64(t.frequencies[i])
	}
	return math.Log(1 + (t.sampled+1)/(frequency+0.5))
}
