// Package election elects committees of chunks from the ballots of classes. Each class votes with the list of its
// chunks, and a voting rule turns the ballots into a ranked list of chunks.
package election

import "sort"

// Scored is an elected chunk: its score and the voters, by place, that approve it.
type Scored struct {
	Candidate uint32
	Score     float64
	Why       []int
}

// ElectWeighted elects by the paper's rule as the reference code has it: score = cnt/N * (1 - pos/k0), where cnt is the
// number of times that ballots list the chunk, N the sum of all cnt, pos the place of the first such ballot, and k0 the
// requested number of voters, even if fewer came. Scores are compared as the integers cnt * (k0 - pos), so ties are
// exact; they are broken by first appearance. A ballot that lists a chunk twice votes twice. At most r chunks come
// back; fewer when ballots run out.
func ElectWeighted(ballots [][]uint32, k0, r int) []Scored {
	type tally struct {
		pos, count int
		why        []int
	}
	byChunk := map[uint32]*tally{}
	var order []uint32
	total := 0
	for v, b := range ballots {
		for _, c := range b {
			t := byChunk[c]
			if t == nil {
				t = &tally{pos: v}
				byChunk[c] = t
				order = append(order, c)
			}
			t.count++
			total++
			if n := len(t.why); n == 0 || t.why[n-1] != v {
				t.why = append(t.why, v)
			}
		}
	}
	key := func(c uint32) int { t := byChunk[c]; return t.count * (k0 - t.pos) }
	sort.SliceStable(order, func(i, j int) bool { return key(order[i]) > key(order[j]) })
	out := make([]Scored, 0, min(r, len(order)))
	for _, c := range order[:min(r, len(order))] {
		t := byChunk[c]
		s := float64(t.count) / float64(total) * (1 - float64(t.pos)/float64(k0))
		out = append(out, Scored{c, s, t.why})
	}
	return out
}
