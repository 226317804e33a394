package election

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Rules by name; definitions as in the literature on approval-based committees (Lackner & Skowron, Multi-Winner Voting
// with Approval Preferences). RuleWeighted has a function of its own, Weighted.
const (
	RuleWeighted = "weighted"
	RuleAV       = "av"
	RuleSAV      = "sav"
	RulePAV      = "pav"
	RuleSeqPAV   = "seqpav"
	RuleCC       = "cc"
	RuleSeqCC    = "seqcc"
	RulePhragmen = "phragmen"
	RuleMES      = "mes"
)

// Rule is one rule that Elect knows.
type Rule struct {
	Name, Doc string
	run       func(*elector)
}

// rules is the table of what Elect knows, in the order in which they are shown.
var rules = []Rule{
	{RuleAV, "most approvals", func(e *elector) { e.takeBest(func(int) float64 { return 1 }) }},
	{RuleSAV, "most approvals, each voter's split over its ballot", func(e *elector) {
		e.takeBest(func(v int) float64 { return 1 / float64(len(e.Ballots[v])) })
	}},
	{RulePAV, "largest sum of harmonic satisfaction", func(e *elector) { e.electOptimal(gainHarmonic, nil) }},
	{RuleSeqPAV, "harmonic satisfaction, seat by seat", func(e *elector) { e.electGreedy(gainHarmonic, nil) }},
	{RuleCC, "most voters with a seat", func(e *elector) { e.electOptimal(gainFirst, e.completionGain()) }},
	{RuleSeqCC, "most voters with a seat, seat by seat", func(e *elector) {
		e.electGreedy(gainFirst, e.completionGain())
	}},
	{RulePhragmen, "equal loads of voters", func(e *elector) { e.electPhragmen(make([]float64, len(e.Ballots))) }},
	{RuleMES, "equal shares of money", (*elector).equalShares},
}

// Rules returns the rules that Elect knows.
func Rules() []Rule { return slices.Clone(rules) }

// Profile is who approves what. Candidates are 0..Candidates-1 in the order that breaks ties.
type Profile struct {
	Ballots    [][]uint32 // of each voter, without repetitions
	Weights    []float64  // of each voter; nil = all 1; a voter of weight <= 0 is no voter
	Candidates int
}

// Options of an election.
type Options struct {
	Seats int
	// Completion of cc and seqcc once all voters are served: "" or "index" = by tie order, "pav" = by the sequential
	// PAV marginal.
	Completion string
	// Prefer, for pav and cc exact: of the optimal committees the one of largest sum; nil = lexicographically smallest.
	Prefer []float64
	// ExactLimit of pav and cc: committees up to which the optimum is searched, as long as that looks at no more than a
	// thousand million votes, else the sequential rule; 0 = no limit.
	ExactLimit float64
}

// Status of a committee.
const (
	Exact      = "exact"
	Sequential = "sequential" // an exact rule that was too large to be searched
)

// Committee is the result. Members are in order of election, of exact rules in tie order. Values are each seat's
// deciding quantity (gain, load or price); NaN for a candidate without supporters. Score is the committee's value,
// where the rule has one.
type Committee struct {
	Members []uint32
	Values  []float64
	Score   float64
	Status  string
	Why     [][]int // per member: the voters that approve it
	Bought  int     // mes: seats of its first phase
}

// tolerance of ties, relative.
const tolerance = 1e-9

func isSame(a, b float64) bool {
	if math.IsInf(a, 0) || math.IsInf(b, 0) {
		return a == b
	}
	return math.Abs(a-b) <= tolerance*max(1, math.Abs(a), math.Abs(b))
}

type elector struct {
	Profile
	Options
	ctx        context.Context //nolint:containedctx // an election lives as long as its context
	w          []float64
	supporters [][]int // of each candidate
	chosen     []bool
	out        Committee
}

// Elect runs a rule. The committee is shorter than Seats only when there are fewer candidates. It looks at the context
// before each seat, and at each step of an exact search, and returns its error when it ends.
func Elect(ctx context.Context, rule string, profile Profile, options Options) (Committee, error) {
	options.Seats = min(options.Seats, profile.Candidates)
	e := &elector{
		ctx:        ctx,
		Profile:    profile,
		Options:    options,
		supporters: make([][]int, profile.Candidates),
		chosen:     make([]bool, profile.Candidates),
	}
	e.w = make([]float64, len(profile.Ballots))
	for v, b := range profile.Ballots {
		if e.w[v] = 1; profile.Weights != nil {
			e.w[v] = profile.Weights[v]
		}
		if !(e.w[v] > 0) {
			e.w[v] = 0
			continue
		}
		for _, c := range b {
			e.supporters[c] = append(e.supporters[c], v)
		}
	}
	e.out.Status = Exact
	at := slices.IndexFunc(rules, func(known Rule) bool { return known.Name == rule })
	if at < 0 {
		return Committee{}, fmt.Errorf("election: rule %q is not known", rule)
	}
	rules[at].run(e)
	if err := ctx.Err(); err != nil {
		return Committee{}, err
	}
	for _, c := range e.out.Members {
		e.out.Why = append(e.out.Why, e.supporters[c])
	}
	return e.out, nil
}

// countVotes returns how many votes count.
func (p Profile) countVotes() float64 {
	sum := 0
	for _, ballot := range p.Ballots {
		sum += len(ballot)
	}
	return float64(sum)
}

// EstimateSteps estimates how many votes Elect looks at, at most.
func EstimateSteps(rule string, profile Profile, options Options) float64 {
	votes, seats := profile.countVotes(), float64(min(options.Seats, profile.Candidates))
	switch rule {
	case RuleAV, RuleSAV, RuleWeighted:
		return votes
	case RuleMES: // it orders the voters of each candidate at each seat
		return 10 * votes * seats
	case RulePAV, RuleCC:
		if steps, fits := profile.estimateSearch(options); fits {
			return votes*seats + steps
		}
	}
	return votes * seats
}

// mostSearched votes are looked at by an exact search, at most.
const mostSearched = 1e9

// estimateSearch estimates how many votes an exact search looks at, and reports whether it may.
func (p Profile) estimateSearch(options Options) (steps float64, fits bool) {
	committees := binomial(p.Candidates, min(options.Seats, p.Candidates))
	candidates := float64(p.Candidates)
	steps = committees * (p.countVotes() + candidates*math.Log2(candidates+1))
	return steps, options.ExactLimit <= 0 || (committees <= options.ExactLimit && steps <= mostSearched)
}

func (e *elector) takeCandidate(c int, value float64) {
	e.chosen[c] = true
	e.out.Members = append(e.out.Members, uint32(c))
	e.out.Values = append(e.out.Values, value)
}

// takeBest takes the candidates of largest sum of shares.
func (e *elector) takeBest(share func(v int) float64) {
	scores := make([]float64, e.Candidates)
	order := make([]int, e.Candidates)
	for c := range scores {
		order[c] = c
		for _, v := range e.supporters[c] {
			scores[c] += e.w[v] * share(v)
		}
	}
	sort.SliceStable(order, func(i, j int) bool {
		a, b := scores[order[i]], scores[order[j]]
		return a > b && !isSame(a, b)
	})
	for _, c := range order[:e.Seats] {
		e.takeCandidate(c, scores[c])
		e.out.Score += scores[c]
	}
}

// gain of a voter's n-th served candidate, n from 0.
type gain func(n int) float64

func gainHarmonic(n int) float64 { return 1 / float64(n+1) }

func gainFirst(n int) float64 {
	if n == 0 {
		return 1
	}
	return 0
}

func (e *elector) completionGain() gain {
	if e.Completion == "pav" {
		return gainHarmonic
	}
	return nil
}

// electGreedy adds the candidate of largest gain, seat by seat; once nothing gains, then says what to gain instead.
func (e *elector) electGreedy(g, then gain) {
	served := make([]int, len(e.Ballots))
	for _, c := range e.out.Members { // completing what an exact search left
		for _, v := range e.supporters[c] {
			served[v]++
		}
	}
	for len(e.out.Members) < e.Seats && e.ctx.Err() == nil {
		c, value := e.pickCandidate(g, served)
		if value <= tolerance && then != nil {
			c, _ = e.pickCandidate(then, served)
		}
		e.takeCandidate(c, value)
		e.out.Score += value
		for _, v := range e.supporters[c] {
			served[v]++
		}
	}
}

func (e *elector) pickCandidate(g gain, served []int) (int, float64) {
	best, value := -1, 0.0
	for c := range e.Candidates {
		if e.chosen[c] {
			continue
		}
		s := 0.0
		for _, v := range e.supporters[c] {
			s += e.w[v] * g(served[v])
		}
		if best < 0 || (s > value && !isSame(s, value)) {
			best, value = c, s
		}
	}
	return best, value
}

// electPhragmen elects by equal loads: a candidate costs 1, its supporters earn at the rate of their weights from the
// time of their last purchase. loads are those times.
func (e *elector) electPhragmen(loads []float64) {
	for len(e.out.Members) < e.Seats && e.ctx.Err() == nil {
		best, at := -1, math.Inf(1)
		for c := range e.Candidates {
			if e.chosen[c] {
				continue
			}
			t, rate := 1.0, 0.0
			for _, v := range e.supporters[c] {
				t += e.w[v] * loads[v]
				rate += e.w[v]
			}
			if t /= rate; rate == 0 {
				t = math.Inf(1)
			}
			if best < 0 || (t < at && !isSame(t, at)) {
				best, at = c, t
			}
		}
		if math.IsInf(at, 1) {
			e.takeCandidate(best, math.NaN())
			continue
		}
		for _, v := range e.supporters[best] {
			loads[v] = at
		}
		e.takeCandidate(best, at)
		e.out.Score = at
	}
}

// equalShares elects by the Method of Equal Shares: every voter has the same share of the seats to spend, a candidate
// costs 1, and the cheapest per unit of weight is bought while anything can be. What is left elects the rest by
// Phragmén.
func (e *elector) equalShares() {
	all := 0.0
	for _, w := range e.w {
		all += w
	}
	budget := make([]float64, len(e.w))
	for v, w := range e.w {
		if all > 0 {
			budget[v] = w * float64(e.Seats) / all
		}
	}
	for len(e.out.Members) < e.Seats && e.ctx.Err() == nil {
		best, price := -1, math.Inf(1)
		for c := range e.Candidates {
			if e.chosen[c] {
				continue
			}
			if rho := e.priceOf(c, budget); best < 0 || (rho < price && !isSame(rho, price)) {
				best, price = c, rho
			}
		}
		if math.IsInf(price, 1) {
			break
		}
		for _, v := range e.supporters[best] {
			budget[v] -= min(budget[v], price*e.w[v])
		}
		e.takeCandidate(best, price)
	}
	e.out.Bought = len(e.out.Members)
	loads := make([]float64, len(e.w))
	for v, w := range e.w {
		if w > 0 {
			loads[v] = -budget[v] / w
		}
	}
	e.electPhragmen(loads)
	e.out.Score = 0
}

// priceOf returns the smallest price per unit of weight at which a candidate's supporters can pay 1; infinite when they
// cannot.
func (e *elector) priceOf(c int, budget []float64) float64 {
	vs := append([]int(nil), e.supporters[c]...)
	money, weight := 0.0, 0.0
	for _, v := range vs {
		money += budget[v]
		weight += e.w[v]
	}
	if money < 1-tolerance {
		return math.Inf(1)
	}
	sort.Slice(vs, func(i, j int) bool { return budget[vs[i]]/e.w[vs[i]] < budget[vs[j]]/e.w[vs[j]] })
	left := 1.0
	for i, v := range vs {
		rho := left / weight
		if i == len(vs)-1 || rho*e.w[v] <= budget[v]+tolerance {
			return rho
		}
		left -= budget[v]
		weight -= e.w[v]
	}
	return math.Inf(1)
}
