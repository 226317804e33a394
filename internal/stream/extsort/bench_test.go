package extsort_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/stream/extsort"
)

// Rows as the stages have them: a class's id, and a number of a chunk.
func BenchmarkSorting(b *testing.B) {
	for name, run := range map[string]int{"memory": 0, "disk": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			const rows = 100_000
			b.ReportAllocs()
			for range b.N {
				r := rand.New(rand.NewPCG(1, 2))
				sorter := extsort.Sorter{Run: run}
				key, value := make([]byte, 20), make([]byte, 40)
				for range rows {
					binary.BigEndian.PutUint64(key, r.Uint64()>>48<<48)
					binary.BigEndian.PutUint64(key[8:], r.Uint64())
					sorter.Add(key, value)
				}
				for _, err := range sorter.StreamSorted() {
					require.NoError(b, err)
				}
				sorter.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
