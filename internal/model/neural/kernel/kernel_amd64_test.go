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
	const tokens, k, n = 16, 384, 64
	m := newMatrices(rand.New(rand.NewPCG(3, 4)), tokens, k, n)
	want := slices.Clone(m.out)
	MulPlain(want, m.a, tokens, k, m.panels, m.start, n)
	paths := 0
	for _, path := range []struct {
		has bool
		mul func([]int32, []uint8, int, int, []int8, []int32, int)
	}{{cpu.X86.HasAVX2, mulNarrow}, {cpu.X86.HasAVX512VNNI, mulWide}} {
		if !path.has {
			continue
		}
		paths++
		clear(m.out)
		path.mul(m.out, m.a, tokens, k, m.panels, m.start, n)
		assert.True(t, slices.Equal(m.out, want), "path %d has other sums", paths)
	}
}
