package postings_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/unweaver/unweaver/internal/format/mapped"
	"github.com/unweaver/unweaver/internal/format/postings"
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
			if err := builder.Add(terms); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := builder.Write(mapped.NewWriter(io.Discard, "bench", 1, nil), "x_"); err != nil {
			b.Fatal(err)
		}
		builder.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/documents, "ns/document")
}
