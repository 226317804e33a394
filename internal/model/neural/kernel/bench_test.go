package kernel

import (
	"math/rand/v2"
	"testing"
)

func BenchmarkMul(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	const tokens, k, n = 128, 384, 1536
	m := newMatrices(random, tokens, k, n)
	for b.Loop() {
		Mul(m.out, m.a, tokens, k, m.panels, m.start, n)
	}
	b.ReportMetric(float64(tokens*k*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
