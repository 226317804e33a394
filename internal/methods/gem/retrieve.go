package gem

import (
	"cmp"
	"container/heap"
	"slices"
)

// Match is a question that a search found, or that was compared: how near it is to the prompt.
type Match struct {
	Node     int
	Question int // of the node
	Score    float64
}

// Aggregate says how the scores of a node's questions become one.
type Aggregate int

// Best takes the best; BestTwo the mean of the two best, where a node has two.
const (
	Best Aggregate = iota
	BestTwo
)

// MembersOf are summaries: by node, the nodes that each was made of.
type MembersOf map[int][]int

// Compare gives the cosine of a prompt with every question: row i of questions is of unit length and question of[i].
func Compare(prompt []float32, questions Rows, of []Match) []Match {
	unit := make([]float64, len(prompt))
	for k, x := range ToUnit(prompt) {
		unit[k] = float64(x)
	}
	out := slices.Clone(of)
	inBlocks(len(out), blockRows, func(_, from, to int) {
		for i := from; i < to; i++ {
			out[i].Score = dot(questions.Row(i), unit)
		}
	})
	return out
}

// Rank makes nodes of questions: one match for each node, of its best question (of equal ones the first), the best
// node first. Of equal scores chunks are before summaries, then lower nodes. A question given twice counts once.
func Rank(matches []Match, aggregate Aggregate, summaries MembersOf) []Match {
	sorted := slices.Clone(matches)
	slices.SortFunc(sorted, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(b.Score, a.Score), cmp.Compare(a.Question, b.Question))
	})
	var out []Match
	for from := 0; from < len(sorted); {
		to := from + 1
		second := -1
		for to < len(sorted) && sorted[to].Node == sorted[from].Node {
			if second < 0 && sorted[to].Question != sorted[from].Question {
				second = to
			}
			to++
		}
		best := sorted[from]
		if aggregate == BestTwo && second >= 0 {
			best.Score = (best.Score + sorted[second].Score) / 2
		}
		out = append(out, best)
		from = to
	}
	slices.SortFunc(out, func(a, b Match) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), kindOf(a, summaries)-kindOf(b, summaries), cmp.Compare(a.Node, b.Node))
	})
	return out
}

func kindOf(m Match, summaries MembersOf) int {
	if len(summaries[m.Node]) > 0 {
		return 1
	}
	return 0
}

// Search is a best-first search along the edges of a graph. It begins with the best node; the next is the neighbour of
// a chosen node of the highest Alpha * score + (1 - Alpha) * weight, the weight that of the heaviest edge to a chosen
// node as a share of Heaviest. Where no chosen node has a neighbour left, the next is the best of all. With Alpha 1 on
// a complete graph it is the order of Rank.
type Search struct {
	Graph     Neighbourhood
	Heaviest  float64 // edge of the graph
	Alpha     float64
	Summaries MembersOf
	// Match of a node with its score; false: it is neither chosen nor gone through.
	Match func(node int) (Match, bool)
}

// Step is a node that a Search chose.
type Step struct {
	Match
	Priority float64 // that it was chosen by; of a node that no edge led to its score
	From     int     // the chosen node that the heaviest edge led from; -1: no edge led to it
	Weight   float64 // of that edge
}

// reach is a node of the frontier, as the best edge to it so far has it.
type reach struct {
	Step
	kind int
}

// isBefore orders a frontier: by priority, then as Rank orders nodes.
func (a reach) isBefore(b reach) bool {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.Score, a.Score), a.kind-b.kind,
		cmp.Compare(a.Node, b.Node)) < 0
}

// frontier is a heap of reaches, the first of them on top. A node may be in it several times: its best is met first.
type frontier []reach

func (f frontier) Len() int           { return len(f) }
func (f frontier) Less(i, j int) bool { return f[i].isBefore(f[j]) }
func (f frontier) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }

// Push implements heap.Interface.
func (f *frontier) Push(x any) { *f = append(*f, x.(reach)) }

// Pop implements heap.Interface.
func (f *frontier) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// OrderNodes orders most nodes by the search. ranked has the best of all, the best first, as many as most at least
// where there are as many.
func (s Search) OrderNodes(ranked []Match, most int) []Step {
	var out []Step
	var open frontier
	chosen := map[int]bool{}
	heaviest := map[int]float64{} // edge to a chosen node, by node
	next := 0                     // in ranked
	for len(out) < most {
		step, ok := Step{}, false
		for len(open) > 0 && !ok {
			step = heap.Pop(&open).(reach).Step
			ok = !chosen[step.Node]
		}
		if !ok {
			for next < len(ranked) && chosen[ranked[next].Node] {
				next++
			}
			if next == len(ranked) {
				break
			}
			step = Step{Match: ranked[next], Priority: ranked[next].Score, From: -1}
		}
		out = append(out, step)
		chosen[step.Node] = true
		to, weights := s.Graph.Neighbours(step.Node)
		for at, j := range to {
			node, weight := int(j), weights[at]
			if chosen[node] || weight <= heaviest[node] {
				continue
			}
			match, ok := s.Match(node)
			if !ok {
				continue
			}
			heaviest[node] = weight
			value := float64(s.Alpha * match.Score)
			if s.Heaviest > 0 {
				value += float64((1 - s.Alpha) * weight / s.Heaviest)
			}
			heap.Push(&open, reach{
				Step: Step{Match: match, Priority: value, From: step.Node, Weight: weight}, kind: kindOf(match, s.Summaries),
			})
		}
	}
	return out
}
