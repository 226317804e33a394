package election_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/retrieve/election"
)

type vector struct {
	ID       string     `json:"id"`
	K        int        `json:"k"`
	R        int        `json:"r"`
	Entities [][]uint32 `json:"entities"`
	Selected []uint32   `json:"selected"`
	Chunks   [][3]int   `json:"chunks"`
	Scores   []float64  `json:"scores"`
}

func TestWeightedVotingOnTheReferenceVectors(t *testing.T) {
	var vs []vector
	if read(t, filepath.Join(reference("elections"), "weighted.json"), &vs); len(vs) < 35 {
		t.Fatalf("only %d vectors", len(vs))
	}
	t.Logf("%d vectors", len(vs))
	for _, v := range vs {
		k := v.K
		if k == 0 {
			k = len(v.Entities)
		}
		got := election.ElectWeighted(v.Entities, k, v.R)
		if len(got) != len(v.Selected) {
			t.Errorf("%s: elected %d, want %d", v.ID, len(got), len(v.Selected))
			continue
		}
		want := map[uint32]float64{}
		for i, c := range v.Chunks {
			want[uint32(c[0])] = v.Scores[i]
		}
		for i, scored := range got {
			assert.True(t, scored.Candidate == v.Selected[i],
				"%s: seat %d is %d, want %d", v.ID, i, scored.Candidate, v.Selected[i])
			assert.True(t, math.Abs(scored.Score-want[scored.Candidate]) <= 1e-12,
				"%s: score of %d is %g, want %g", v.ID, scored.Candidate, scored.Score, want[scored.Candidate])
		}
	}
}

// A worked example: five voters ask for five chunks.
func TestAWorkedExampleOfWeightedVoting(t *testing.T) {
	got := election.ElectWeighted([][]uint32{{1, 2}, {1, 3}, {1, 2}, {4}, {3, 4, 5}}, 5, 5)
	want := []struct {
		c uint32
		s float64
	}{{1, .30}, {2, .20}, {3, .16}, {4, .08}, {5, .02}}
	for i, w := range want {
		assert.True(t, got[i].Candidate == w.c && math.Abs(got[i].Score-w.s) <= 1e-6,
			"seat %d: %d %.4f, want %d %.2f", i, got[i].Candidate, got[i].Score, w.c, w.s)
	}
	assert.True(t, len(got[0].Why) == 3 && got[0].Why[2] == 2, "why %v", got[0].Why)
}

func TestRenamingChunksRenamesTheResult(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		perm := r.Perm(30)
		var a, b [][]uint32
		for range 1 + r.IntN(8) {
			var x, y []uint32
			for _, c := range r.Perm(30)[:r.IntN(6)] {
				x, y = append(x, uint32(c)), append(y, uint32(perm[c]))
			}
			a, b = append(a, x), append(b, y)
		}
		ga, gb := election.ElectWeighted(a, 10, 5), election.ElectWeighted(b, 10, 5)
		for i := range ga {
			require.True(t, uint32(perm[ga[i].Candidate]) == gb[i].Candidate && ga[i].Score == gb[i].Score,
				"seat %d: %v and %v", i, ga[i], gb[i])
		}
	}
}

func TestNoBallotsElectNobody(t *testing.T) {
	got := election.ElectWeighted(nil, 10, 5)
	assert.True(t, len(got) == 0, "got %v", got)
	if got := election.ElectWeighted([][]uint32{{}, {}}, 10, 5); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}
