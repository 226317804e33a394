package kernel

import (
	"math/rand/v2"
	"testing"
)

func BenchmarkMul(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	const tokens, k, n = 128, 384, 1536
	a, panels, out := numbers(random, tokens*k, 5000), numbers(random, n*k, 1000), make([]int32, tokens*n)
	for b.Loop() {
		Mul(out, n, a, tokens, k, panels, n)
	}
	b.ReportMetric(float64(tokens*k*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
