package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/cpu"
)

// Each of the paths that this machine has gives the integers of the plain one.
// Promises: 129.
func TestEveryPathGivesTheSameSums(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const tokens, k, n = 16, 384, 32
	a, panels := numbers(random, tokens*k, 5000), numbers(random, n*k, 1023)
	want, got := make([]int32, tokens*n), make([]int32, tokens*n)
	Plain(want, n, a, tokens, k, panels, n)
	paths := 0
	for _, path := range []struct {
		has bool
		mul func([]int32, int, []int16, int, int, []int16, int)
	}{{cpu.X86.HasAVX2, narrow}, {cpu.X86.HasAVX512VNNI, wide}} {
		if !path.has {
			continue
		}
		paths++
		clear(got)
		path.mul(got, n, a, tokens, k, panels, n)
		assert.True(t, slices.Equal(got, want), "path %d has other sums", paths)
	}
	t.Logf("%d paths beside the plain one", paths)
}
