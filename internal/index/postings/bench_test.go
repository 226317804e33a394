package postings_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// Documents of about twenty words by Zipf's law, as the texts of classes are.
func BenchmarkBuilding(b *testing.B) {
	const documents = 20_000
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 2, 200_000)
	texts := make([][]string, documents)
	for i := range texts {
		texts[i] = make([]string, 1+r.IntN(40))
		for j := range texts[i] {
			texts[i][j] = fmt.Sprintf("w%d", zipf.Uint64())
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		builder := postings.NewBuilder()
		for _, terms := range texts {
			require.NoError(b, builder.Add(terms))
		}
		_, err := builder.Write(mapped.NewWriter(io.Discard, "bench", 1, nil), "x_")
		require.NoError(b, err)
		builder.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/documents, "ns/document")
}

// BenchmarkFits measures what opening a side costs beside checksums: it looks at every list.
func BenchmarkFits(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 2, 200_000)
	documents, held := make([][]string, 20_000), 0
	builder := postings.NewBuilder()
	defer builder.Close()
	for i := range documents {
		for range 1 + r.IntN(160) {
			documents[i] = append(documents[i], fmt.Sprintf("w%d", zipf.Uint64()))
		}
		require.NoError(b, builder.Add(documents[i]))
	}
	side := keep(b, func(writer *mapped.Writer) (postings.Stats, error) { return builder.Write(writer, "x_") })
	for _, list := range side.Lists() {
		held += list.Len()
	}
	for b.Loop() {
		require.True(b, side.Fits(), "it does not fit")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(held), "ns/posting")
}
