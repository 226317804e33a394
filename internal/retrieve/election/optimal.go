package election

import (
	"math"
	"slices"
	"sort"
)

// electOptimal searches the committee of largest value by branch and bound over candidates in tie order. Candidates are
// taken before they are left out, so that of equal committees the lexicographically smallest is met first; a bound is
// the value so far and the largest gains that the remaining candidates have now, which only shrink (both values are
// submodular). A value that stays the same with fewer members than seats is completed as then says.
func (e *elector) electOptimal(g, then gain) {
	greedy := *e
	greedy.chosen = make([]bool, e.Candidates)
	greedy.out = Committee{}
	greedy.electGreedy(g, then)
	if _, fits := e.estimateSearch(e.Options); !fits {
		greedy.out.Status = Sequential
		e.out = greedy.out
		return
	}
	s := &search{
		e:      e,
		g:      g,
		served: make([]int, len(e.Ballots)),
		best:   greedy.out.Score * (1 - 4*tolerance),
		prefer: math.Inf(-1),
	}
	s.gains = make([]float64, 0, e.Candidates)
	s.searchFrom(0, 0, 0)
	if then != nil && s.found != nil { // members that serve no voter are chosen again
		s.found = s.keepUseful(s.found)
	}
	for _, c := range s.found {
		v := 0.0
		for _, x := range e.supporters[c] {
			v += e.w[x]
		}
		e.takeCandidate(c, v)
	}
	e.out.Score = s.value
	if len(e.out.Members) < e.Seats {
		score := e.out.Score
		e.electGreedy(gainFirst, then)
		e.out.Score = score
	}
}

type search struct {
	e              *elector
	g              gain
	served         []int
	members        []int
	best, value    float64
	prefer         float64
	found          []int
	gains, scratch []float64
}

func (s *search) gainOf(c int) float64 {
	v := 0.0
	for _, x := range s.e.supporters[c] {
		v += s.e.w[x] * s.g(s.served[x])
	}
	return v
}

func (s *search) searchFrom(from int, value, prefer float64) {
	left := s.e.Seats - len(s.members)
	if s.e.ctx.Err() != nil {
		return
	}
	if left == 0 {
		better := s.found == nil || (value > s.best && !isSame(value, s.best))
		if !better && s.e.Prefer != nil && isSame(value, s.best) && prefer > s.prefer && !isSame(prefer, s.prefer) {
			better = true
		}
		if better && value >= s.best*(1-tolerance) {
			s.best, s.value, s.prefer, s.found = value, value, prefer, slices.Clone(s.members)
		}
		return
	}
	if s.e.Candidates-from < left {
		return
	}
	s.gains = s.gains[:0]
	for c := from; c < s.e.Candidates; c++ {
		s.gains = append(s.gains, s.gainOf(c))
	}
	s.scratch = append(s.scratch[:0], s.gains...)
	sort.Float64s(s.scratch)
	bound := value
	for _, v := range s.scratch[len(s.scratch)-left:] {
		bound += v
	}
	if bound < s.best && !isSame(bound, s.best) {
		return
	}
	if s.found != nil && s.e.Prefer == nil && isSame(bound, s.best) {
		return // it could only be equal, and smaller ones were met before
	}
	p := 0.0
	if s.e.Prefer != nil {
		p = s.e.Prefer[from]
	}
	v := s.gains[0]
	for _, x := range s.e.supporters[from] {
		s.served[x]++
	}
	s.members = append(s.members, from)
	s.searchFrom(from+1, value+v, prefer+p)
	s.members = s.members[:len(s.members)-1]
	for _, x := range s.e.supporters[from] {
		s.served[x]--
	}
	s.searchFrom(from+1, value, prefer)
}

// keepUseful keeps the members that serve a voter whom no earlier one serves.
func (s *search) keepUseful(members []int) []int {
	seen := make([]bool, len(s.e.Ballots))
	var out []int
	for _, c := range members {
		use := false
		for _, v := range s.e.supporters[c] {
			use = use || !seen[v]
			seen[v] = true
		}
		if use {
			out = append(out, c)
		}
	}
	return out
}

// binomial returns n over k, as a float, so that it cannot overflow.
func binomial(n, k int) float64 {
	b := 1.0
	for i := range min(k, n-k) {
		b = b * float64(n-i) / float64(i+1)
	}
	return b
}
