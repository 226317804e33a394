package gem_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/methods/gem"
)

// Nodes are of 384 dimensions, in 40 clusters that overlap. Products with W, the largest residual, and the most memory
// that the process held are reported; in those of implicit and nearest are the vectors, 307 MB of 100,000 nodes.
// go test -run - -bench Spectrum -benchtime 1x -timeout 30m ./internal/methods/gem
func BenchmarkSpectrum(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		nodes := spreadBy(3, n, 384, 1, 40, 1)
		b.Run(fmt.Sprintf("implicit/%d", n), func(b *testing.B) {
			defer peak(b)()
			for b.Loop() {
				g, err := nodes.NewImplicit(gem.Shift)
				require.NoError(b, err)
				measure(b, g)
			}
		})
		var g *gem.Sparse
		b.Run(fmt.Sprintf("nearest/%d", n), func(b *testing.B) {
			defer peak(b)()
			for b.Loop() {
				var err error
				g, err = nodes.NewNearest(gem.Nearest{})
				require.NoError(b, err)
			}
			b.ReportMetric(float64(g.Edges()), "edges")
		})
		b.Run(fmt.Sprintf("sparse/%d", n), func(b *testing.B) {
			defer peak(b)()
			for b.Loop() {
				measure(b, g)
			}
		})
	}
}

func measure(b *testing.B, g gem.Graph) {
	s, err := gem.Compute(context.Background(), g, gem.Options{Pairs: 13})
	require.NoError(b, err)
	residual := 0.0
	for _, p := range s.Pairs {
		residual = math.Max(residual, p.Residual)
	}
	b.ReportMetric(residual*1e9, "residual*1e9")
	b.ReportMetric(float64(s.Products), "products")
	b.ReportMetric(float64(s.Missing), "missing")
	b.ReportMetric(float64(s.Parts), "parts")
}

// peak reports the most memory that the process held until what it gives is called. Linux alone reports it.
func peak(b *testing.B) func() {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return func() {}
	}
	return func() {
		status, err := os.ReadFile("/proc/self/status")
		require.NoError(b, err)
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
		require.NoError(b, err)
		b.ReportMetric(float64(kilobytes)/1000, "peak-MB")
	}
}
