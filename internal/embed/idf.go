package embed

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"io"
	"iter"
	"math"
	"sort"

	"github.com/unweaver/unweaver/internal/format/mapped"
	"github.com/unweaver/unweaver/internal/lang/text"
)

// IDF is the table of document frequencies that the built-in embedder weighs stems by: learned from a corpus's chunks,
// kept as an artifact, its digest part of the fingerprint (specs/hybrid.md §3).
type IDF struct {
	f     *mapped.File
	terms mapped.Strings
	df    []uint32
	n     float64
}

const (
	idfKind    = "idf"
	idfVersion = 1
	// idfSample chunks are looked at; of more, about as many, chosen by a hash of their text. It bounds the memory.
	idfSample = 50_000
)

// LearnIDF counts stems in chunks' texts and writes the table. total is how many chunks there are.
func LearnIDF(ctx context.Context, writer io.Writer, total int64, texts iter.Seq2[string, error]) error {
	df := map[string]uint32{}
	n := uint64(0)
	for s, err := range texts {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if total > idfSample {
			h := fnv.New64a()
			_, _ = h.Write([]byte(s)) // never fails
			if h.Sum64()%uint64(total) >= idfSample {
				continue
			}
		}
		n++
		seen := map[string]bool{}
		for _, t := range text.Surface(s) {
			if !seen[t] {
				seen[t] = true
				df[t]++
			}
		}
	}
	terms := make([]string, 0, len(df))
	for t := range df {
		terms = append(terms, t)
	}
	sort.Strings(terms)
	x := mapped.NewWriter(writer, idfKind, idfVersion, nil)
	x.Section("terms")
	for _, t := range terms {
		_, _ = io.WriteString(x, t) // Close tells of errors
	}
	ends, counts, end := make([]uint64, len(terms)), make([]uint32, len(terms)), uint64(0)
	for i, t := range terms {
		end += uint64(len(t))
		ends[i], counts[i] = end, df[t]
	}
	x.Section("term_end")
	mapped.Put(x, ends)
	x.Section("df")
	mapped.Put(x, counts)
	x.Section("n")
	_, _ = x.Write(binary.LittleEndian.AppendUint64(nil, n))
	x.Section("total")
	_, _ = x.Write(binary.LittleEndian.AppendUint64(nil, uint64(total)))
	return x.Close()
}

// OpenIDF maps a table.
func OpenIDF(path string) (*IDF, error) {
	file, err := mapped.Open(path, idfKind, idfVersion)
	if err != nil {
		return nil, err
	}
	return &IDF{
		f: file, terms: mapped.StringsOf(file, "terms", "term_end"), df: mapped.Slice[uint32](file, "df"),
		n: float64(binary.LittleEndian.Uint64(file.Bytes("n"))),
	}, nil
}

// Total is how many chunks there were when it was learned.
func (x *IDF) Total() int64 { return int64(binary.LittleEndian.Uint64(x.f.Bytes("total"))) }

// Close unmaps it.
func (x *IDF) Close() { x.f.Close() }

// Weight is ln(1 + (N + 1)/(df + 0.5)).
func (x *IDF) Weight(stem string) float64 {
	df := 0.0
	if i := x.terms.Find(stem); i >= 0 {
		df = float64(x.df[i])
	}
	return math.Log(1 + (x.n+1)/(df+0.5))
}
