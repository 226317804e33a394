package election_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/retrieve/election"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/searchtest"
)

type instance struct {
	ID         string              `json:"id"`
	Candidates int                 `json:"num_candidates"`
	Seats      int                 `json:"committee_size"`
	Ballots    [][]uint32          `json:"ballots"`
	Weights    []float64           `json:"weights"`
	Rules      map[string]expected `json:"rules"`
}

type expected struct {
	Members []uint32   `json:"resolute_lexmin"`
	Order   []uint32   `json:"order"`
	Values  []*float64 `json:"values"`
	Score   *float64   `json:"score"`
	Phase1  *int       `json:"phase1"`
}

var ruleOf = map[string]string{
	"AV":          election.RuleAV,
	"SAV":         election.RuleSAV,
	"PAV":         election.RulePAV,
	"seqPAV":      election.RuleSeqPAV,
	"CC":          election.RuleCC,
	"seqCC":       election.RuleSeqCC,
	"seqPhragmen": election.RulePhragmen,
	"MES":         election.RuleMES,
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12+1e-9*math.Abs(b) }

func TestCommitteesOfTheReferenceVectors(t *testing.T) {
	n := 0
	for _, f := range []string{
		"abcvoting_instances", "abcvoting_unittests", "random", "weighted_ballots", "float_traps", "large",
	} {
		var xs []instance
		searchtest.ReadReference(t, "elections", f+".json", &xs)
		for _, x := range xs {
			for name, want := range x.Rules {
				n++
				check(t, x, name, want)
			}
		}
	}
	assert.True(t, n >= 400, "only %d elections", n)
}

func check(t *testing.T, x instance, name string, want expected) {
	t.Helper()
	got, err := election.Elect(t.Context(), ruleOf[name],
		election.Profile{Ballots: x.Ballots, Weights: x.Weights, Candidates: x.Candidates}, election.Options{Seats: x.Seats})
	require.NoError(t, err, "%v %v", x.ID, name)
	sorted := slices.Sorted(slices.Values(got.Members))
	require.Equal(t, want.Members, sorted, "%s %s", x.ID, name)
	assert.True(t, want.Order == nil || slices.Equal(got.Members, want.Order),
		"%s %s: order %v, want %v", x.ID, name, got.Members, want.Order)
	for i, v := range want.Values {
		assert.True(t, (v == nil) == math.IsNaN(got.Values[i]) && (v == nil || near(got.Values[i], *v)),
			"%s %s: value %d is %v", x.ID, name, i, got.Values[i])
	}
	assert.True(t, want.Score == nil || near(got.Score, *want.Score), "%s %s: score %v", x.ID, name, got.Score)
	assert.True(t, want.Phase1 == nil || got.Bought == *want.Phase1, "%s %s: %d bought", x.ID, name, got.Bought)
}

func profile(r *rand.Rand, voters, candidates int) election.Profile {
	p := election.Profile{Candidates: candidates}
	for range voters {
		var b []uint32
		for c := range candidates {
			if r.IntN(3) == 0 {
				b = append(b, uint32(c))
			}
		}
		p.Ballots = append(p.Ballots, b)
		p.Weights = append(p.Weights, 0.5+r.Float64())
	}
	return p
}

func TestOrderOfVotersDoesNotMatterAndDoublesCountTwice(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		p := profile(r, 3+r.IntN(6), 4+r.IntN(6))
		options := election.Options{Seats: 1 + r.IntN(4)}
		for _, rule := range ruleOf {
			committee := musttest.Get(election.Elect(t.Context(), rule, p, options))(t)
			q := election.Profile{Candidates: p.Candidates}
			for _, i := range r.Perm(len(p.Ballots)) {
				q.Ballots, q.Weights = append(q.Ballots, p.Ballots[i]), append(q.Weights, p.Weights[i])
			}
			if b, _ := election.Elect(t.Context(), rule, q, options); !slices.Equal(committee.Members, b.Members) {
				t.Errorf("%s: voters in another order elect %v, not %v", rule, b.Members, committee.Members)
			}
			d := election.Profile{
				Candidates: p.Candidates,
				Ballots:    append(slices.Clone(p.Ballots), p.Ballots[0]),
				Weights:    append(slices.Clone(p.Weights), p.Weights[0]),
			}
			w := election.Profile{Candidates: p.Candidates, Ballots: p.Ballots, Weights: slices.Clone(p.Weights)}
			w.Weights[0] *= 2
			x, _ := election.Elect(t.Context(), rule, d, options)
			y, _ := election.Elect(t.Context(), rule, w, options)
			assert.Equal(t, y.Members, x.Members, "%s", rule)
		}
	}
}

func TestSequentialIsWithinItsGuaranteeAndMoreApprovalNeverHurts(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 200 {
		p := profile(r, 5, 8)
		options := election.Options{Seats: 3}
		for exact, seq := range map[string]string{
			election.RulePAV: election.RuleSeqPAV, election.RuleCC: election.RuleSeqCC,
		} {
			a, _ := election.Elect(t.Context(), exact, p, options)
			b, _ := election.Elect(t.Context(), seq, p, options)
			assert.True(t, b.Score >= (1-1/math.E)*a.Score-1e-9 && b.Score <= a.Score+1e-9,
				"%s %g, %s %g", exact, a.Score, seq, b.Score)
		}
		a, _ := election.Elect(t.Context(), election.RuleAV, p, options)
		c := a.Members[0]
		for v := range p.Ballots {
			if !slices.Contains(p.Ballots[v], c) {
				p.Ballots[v] = append(p.Ballots[v], c)
			}
		}
		b, _ := election.Elect(t.Context(), election.RuleAV, p, options)
		assert.True(t, slices.Contains(b.Members, c), "approval by all cost a candidate its seat")
	}
}

// A worked example: candidates in the order that breaks ties.
func TestAWorkedExampleOfEveryRule(t *testing.T) {
	p := election.Profile{Candidates: 5, Ballots: [][]uint32{{0, 1}, {0, 2}, {0, 1}, {3}, {2, 3, 4}}}
	for _, c := range []struct {
		rule  string
		seats int
		want  []uint32
		score float64
	}{
		{election.RuleAV, 2, []uint32{0, 1}, 5},
		{election.RulePAV, 2, []uint32{0, 3}, 5},
		{election.RulePAV, 3, []uint32{0, 1, 3}, 6},
		{election.RuleSeqPAV, 4, []uint32{0, 3, 1, 2}, 7},
		{election.RuleCC, 2, []uint32{0, 3}, 5},
	} {
		got, err := election.Elect(t.Context(), c.rule, p,
			election.Options{Seats: c.seats, Prefer: []float64{.30, .20, .16, .08, .02}})
		assert.True(t, err == nil && slices.Equal(got.Members, c.want) && near(got.Score, c.score),
			"%s %d: %v %g, %v", c.rule, c.seats, got.Members, got.Score, err)
	}
	got, _ := election.Elect(t.Context(), election.RuleSeqCC, p, election.Options{Seats: 4, Completion: "pav"})
	assert.True(t, slices.Equal(got.Members, []uint32{0, 3, 1, 2}), "seqcc %v", got.Members)
	got, _ = election.Elect(t.Context(), election.RulePAV, p, election.Options{Seats: 3, ExactLimit: 5})
	assert.True(t, got.Status == election.Sequential, "10 committees were searched though 5 are the limit: %s", got.Status)
}

func TestAnElectionEndsWithItsContext(t *testing.T) {
	profile := election.Profile{Candidates: 40}
	for voter := range uint32(60) {
		profile.Ballots = append(profile.Ballots, []uint32{voter % 40, (voter*7 + 1) % 40})
	}
	seats := map[string]int{election.RuleAV: 1, election.RuleSAV: 1, election.RulePAV: 3, election.RuleCC: 3}
	for _, rule := range election.Rules() {
		options := election.Options{Seats: cmp.Or(seats[rule.Name], 30), ExactLimit: 1e5}
		run := func(ctx context.Context) error { return musttest.Err(election.Elect(ctx, rule.Name, profile, options)) }
		// An exact search looks once more for each candidate taken.
		searchtest.CheckEnds(t, rule.Name, options.Seats, 2*profile.Candidates, 9, run)
	}
}

func TestAnExactRuleThatIsTooLargeIsSequential(t *testing.T) {
	for candidates, want := range map[int]string{100: election.Exact, 100_000: election.Sequential} {
		profile := election.Profile{Candidates: candidates}
		for c := range uint32(candidates) {
			profile.Ballots = append(profile.Ballots, []uint32{c})
		}
		options := election.Options{Seats: 1, ExactLimit: 2e5}
		committee := musttest.Get(election.Elect(t.Context(), election.RulePAV, profile, options))(t)
		assert.True(t, committee.Status == want, "%d committees of one: %s, want %s", candidates, committee.Status, want)
	}
}

// Three classes vote, each with the chunks that mention it, best first. Chunk 7 stands on all three ballots.
func ExampleElectWeighted() {
	ballots := [][]uint32{
		{7, 3},
		{5, 7},
		{9, 7},
	}
	for _, seat := range election.ElectWeighted(ballots, len(ballots), 3) {
		fmt.Printf("chunk %d: score %.3f, approved by classes %v\n", seat.Candidate, seat.Score, seat.Why)
	}
	// Output:
	// chunk 7: score 0.500, approved by classes [0 1 2]
	// chunk 3: score 0.167, approved by classes [0]
	// chunk 5: score 0.111, approved by classes [1]
}

// Proportional approval voting gives the second seat to the smaller group: a third chunk of the larger one adds less.
func ExampleElect() {
	profile := election.Profile{
		Candidates: 4,
		Ballots: [][]uint32{
			{0, 1}, {0, 1}, {0, 1}, // three classes that are mentioned in chunks 0 and 1
			{2, 3}, {2, 3}, // two that are mentioned in chunks 2 and 3
		},
	}
	committee, err := election.Elect(context.Background(), election.RulePAV, profile, election.Options{Seats: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("chunks", committee.Members, "by", committee.Status, "search, score", committee.Score)
	// Output: chunks [0 2] by exact search, score 5
}

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
	searchtest.ReadReference(t, "elections", "weighted.json", &vs)
	require.GreaterOrEqual(t, len(vs), 35)
	for _, v := range vs {
		got := election.ElectWeighted(v.Entities, cmp.Or(v.K, len(v.Entities)), v.R)
		require.Len(t, got, len(v.Selected), v.ID)
		want := map[uint32]float64{}
		for i, c := range v.Chunks {
			want[uint32(c[0])] = v.Scores[i]
		}
		for i, scored := range got {
			assert.Equal(t, v.Selected[i], scored.Candidate, "%s %d", v.ID, i)
			assert.InDelta(t, want[scored.Candidate], scored.Score, 1e-12, "%s %d", v.ID, scored.Candidate)
		}
	}
}

func TestNoBallotsElectNobody(t *testing.T) {
	assert.Empty(t, election.ElectWeighted(nil, 10, 5))
	assert.True(t, len(election.ElectWeighted([][]uint32{{}, {}}, 10, 5)) == 0)
}
