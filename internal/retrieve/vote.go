package retrieve

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/unweaver/unweaver/internal/retrieve/election"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// exactLimit is how many committees an exact rule searches, at most (specs/unweaver.md §5.3).
const exactLimit = 2e5

// candidates of an election in the order of the global tie key (§4): weighted score, place of the first voter, chunk
// order.
type candidates struct {
	numbers []uint32           // chunks in order
	at      map[uint32]uint32  // chunk -> place in numbers
	score   []float64          // reference weighted score
	pos     map[uint32]int     // first voter
	sims    map[uint32]float64 // sum of the voters' similarities
}

func (r *request) candidates() candidates {
	k := candidates{at: map[uint32]uint32{}, pos: map[uint32]int{}, sims: map[uint32]float64{}}
	count := map[uint32]int{}
	total := 0
	for v, entity := range r.res.Entities {
		for _, n := range entity.Votes {
			if _, known := k.pos[n]; !known {
				k.pos[n] = v
				k.numbers = append(k.numbers, n)
			}
			count[n]++
			k.sims[n] += entity.Similarity
			total++
		}
	}
	k0 := r.q.TopEntities
	key := func(n uint32) int { return count[n] * (k0 - k.pos[n]) }
	sort.SliceStable(k.numbers, func(i, j int) bool {
		a, b := k.numbers[i], k.numbers[j]
		if key(a) != key(b) {
			return key(a) > key(b)
		}
		if r.q.Params.Ties == "similarity" && k.sims[a] != k.sims[b] {
			return k.sims[a] > k.sims[b]
		}
		if k.pos[a] != k.pos[b] {
			return k.pos[a] < k.pos[b]
		}
		return a < b
	})
	for i, n := range k.numbers {
		k.at[n] = uint32(i)
		k.score = append(k.score, float64(key(n))/float64(max(1, total))/float64(k0))
	}
	return k
}

// voters finds the most similar classes with their ballots.
func (r *request) voters(n int) error {
	f, err := r.classes(r.ctx, r.g, r.a, r.q.Vector, n)
	r.res.Timing.Search, r.res.Timing.Ballots = f.search, f.ballots
	r.res.Entities = f.entities
	return err
}

// unweaver is the paper's method: the classes nearest to the question vote for the chunks that they came from.
func (r *request) unweaver() error {
	if err := r.voters(r.q.TopEntities); err != nil || r.noMatch() {
		return err
	}
	start := time.Now()
	defer func() { r.res.Timing.Election = time.Since(start) }()
	if r.q.Rule == "weighted" && r.q.Params.Ties != "similarity" {
		return r.weighted()
	}
	k := r.candidates()
	if r.q.Rule == "weighted" {
		for i, n := range k.numbers[:min(r.q.TopChunks, len(k.numbers))] {
			r.res.Chunks = append(r.res.Chunks, Chunk{Live: r.g.Live.ByNumber(int(n)), Score: k.score[i]})
		}
		r.why()
		r.explainWeighted()
		return nil
	}
	return r.elect(k)
}

// weighted is the reference rule: ties by first appearance.
func (r *request) weighted() error {
	ballots := make([][]uint32, len(r.res.Entities))
	for i, e := range r.res.Entities {
		ballots[i] = e.Votes
	}
	for _, w := range election.Weighted(ballots, r.q.TopEntities, r.q.TopChunks) {
		r.res.Chunks = append(
			r.res.Chunks,
			Chunk{Live: r.g.Live.ByNumber(int(w.Candidate)), Score: w.Score, Why: w.Why},
		)
	}
	r.explainWeighted()
	return nil
}

// elect runs one of the other rules.
func (r *request) elect(k candidates) error {
	profile := election.Profile{Candidates: len(k.numbers)}
	for i, entity := range r.res.Entities {
		b := make([]uint32, len(entity.Votes))
		for j, n := range entity.Votes {
			b[j] = k.at[n]
		}
		slices.Sort(b)
		profile.Ballots = append(profile.Ballots, slices.Compact(b))
		w := 1.0
		switch r.q.Params.Weights {
		case "similarity":
			w = max(0, entity.Similarity)
		case "rank":
			w = 1 - float64(i)/float64(r.q.TopEntities)
		}
		profile.Weights = append(profile.Weights, w)
	}
	out, err := election.Elect(
		r.q.Rule,
		profile,
		election.Options{Seats: r.q.TopChunks, Completion: "pav", Prefer: k.score, ExactLimit: exactLimit},
	)
	if err != nil {
		return err
	}
	order := make([]int, len(out.Members))
	for i := range order {
		order[i] = i
	}
	if r.q.Rule == election.RulePAV ||
		r.q.Rule == election.RuleCC { // presented by approval, then in tie order (§5.5)
		sort.SliceStable(order, func(i, j int) bool {
			a, b := len(out.Why[order[i]]), len(out.Why[order[j]])
			return a > b || (a == b && out.Members[order[i]] < out.Members[order[j]])
		})
	}
	load := r.q.Rule == election.RulePhragmen || r.q.Rule == election.RuleMES
	for i, m := range order {
		score := out.Values[m]
		if load || math.IsNaN(score) { // loads and prices rise: the seat orders
			score = float64(len(order)-i) / float64(len(order))
		}
		r.res.Chunks = append(
			r.res.Chunks,
			Chunk{Live: r.g.Live.ByNumber(int(k.numbers[out.Members[m]])), Score: score, Why: out.Why[m]},
		)
	}
	if r.q.Explain {
		r.res.Explain = r.explainElection(k, profile, out, order)
	}
	return nil
}

// WeightedExplain is the explanation of weighted voting: score = count/votes * (1 - first/voters).
type WeightedExplain struct {
	Voters int           `json:"voters"`
	Votes  int           `json:"votes"`
	Chunks []ExplainVote `json:"chunks"`
}

// ExplainVote is one chunk of it.
type ExplainVote struct {
	ID    string  `json:"id"`
	Count int     `json:"count"`
	First int     `json:"first"` // place of the best-ranked entity that lists it
	Score float64 `json:"score"`
}

func (r *request) explainWeighted() {
	if !r.q.Explain {
		return
	}
	explain := WeightedExplain{Voters: r.q.TopEntities, Chunks: []ExplainVote{}}
	for _, v := range r.res.Entities {
		explain.Votes += len(v.Votes)
	}
	for _, c := range r.res.Chunks {
		if len(c.Why) > 0 {
			explain.Chunks = append(explain.Chunks, ExplainVote{c.Live.ID.String(), len(c.Why), c.Why[0], c.Score})
		}
	}
	r.res.Explain = explain
}

// ElectionExplain is the explanation of an election.
type ElectionExplain struct {
	Rule     string        `json:"rule"`
	Status   string        `json:"status"` // exact | sequential
	Value    float64       `json:"value"`
	Seats    []SeatExplain `json:"seats"`
	RunnerUp *RunnerUp     `json:"runner_up"`
	Unserved []string      `json:"voters_without_a_seat"`
}

// SeatExplain is a member: the deciding value (null where nobody supports it) and its voters.
type SeatExplain struct {
	ID     string   `json:"id"`
	Value  *float64 `json:"value"`
	Voters []string `json:"voters"`
}

// RunnerUp is the best chunk that is not elected, by approval, and how far it is from the last seat.
type RunnerUp struct {
	ID       string  `json:"id"`
	Approval float64 `json:"approval"`
	Gap      float64 `json:"gap"`
}

func (r *request) explainElection(
	k candidates,
	profile election.Profile,
	out election.Committee,
	order []int,
) ElectionExplain {
	explain := ElectionExplain{
		Rule:     r.q.Rule,
		Status:   out.Status,
		Value:    out.Score,
		Seats:    []SeatExplain{},
		Unserved: []string{},
	}
	served := map[int]bool{}
	elected := map[uint32]bool{}
	approval := make([]float64, profile.Candidates)
	for v, b := range profile.Ballots {
		for _, c := range b {
			approval[c] += max(0, profile.Weights[v])
		}
	}
	least := math.Inf(1)
	for _, m := range order {
		c := out.Members[m]
		elected[c] = true
		least = min(least, approval[c])
		x := SeatExplain{ID: r.g.Live.ByNumber(int(k.numbers[c])).ID.String(), Voters: []string{}}
		if v := out.Values[m]; !math.IsNaN(v) {
			x.Value = &v
		}
		for _, v := range out.Why[m] {
			served[v] = true
			x.Voters = append(x.Voters, r.res.Entities[v].ID.String())
		}
		explain.Seats = append(explain.Seats, x)
	}
	for c := range uint32(profile.Candidates) {
		if !elected[c] && (explain.RunnerUp == nil || approval[c] > explain.RunnerUp.Approval) {
			explain.RunnerUp = &RunnerUp{
				r.g.Live.ByNumber(int(k.numbers[c])).ID.String(),
				approval[c],
				least - approval[c],
			}
		}
	}
	for v, x := range r.res.Entities {
		if !served[v] {
			explain.Unserved = append(explain.Unserved, x.ID.String())
		}
	}
	return explain
}

// PPRExplain is the explanation of ppr: each seed's share of the start.
type PPRExplain struct {
	Damping float64     `json:"damping"`
	Seeds   []ListScore `json:"seeds"`
	Chunks  []ListScore `json:"chunks"` // stationary mass
	Pushes  int         `json:"pushes"`
}

// pprEps is the precision of the product's walk.
const pprEps = 1e-7

// ppr is UnWeaverPPR (§6.2): a walk from the most similar classes over the whole graph.
func (r *request) ppr() error {
	if err := r.voters(r.q.TopEntities); err != nil || r.noMatch() {
		return err
	}
	start := time.Now()
	var s walk.Start
	sum := 0.0
	for _, e := range r.res.Entities {
		if w := max(0, e.Similarity); w > 0 {
			s.Classes = append(s.Classes, walk.Weighted{ID: e.Place, Weight: w})
			sum += w
		}
	}
	mass := r.walk(s, r.q.Params.Damping, pprEps)
	k := r.candidates()
	ms := mass.Chunks
	rank := func(n uint32) int {
		if at, ok := k.at[n]; ok {
			return int(at)
		}
		return len(k.numbers) + int(n) // chunks that no voter approves come after those, in chunk order
	}
	sort.Slice(ms, func(i, j int) bool {
		if d := ms[i].Weight - ms[j].Weight; math.Abs(d) > 1e-9*max(ms[i].Weight, ms[j].Weight) {
			return d > 0
		}
		return rank(ms[i].ID) < rank(ms[j].ID)
	})
	for _, c := range ms[:min(r.q.TopChunks, len(ms))] {
		r.res.Chunks = append(r.res.Chunks, Chunk{Live: r.g.Live.ByNumber(int(c.ID)), Score: c.Weight})
	}
	r.why()
	r.res.Timing.Election = time.Since(start)
	if r.q.Explain {
		pprexplain := PPRExplain{
			Damping: r.q.Params.Damping,
			Pushes:  mass.Pushes,
			Chunks:  explainList("", r.res.Chunks).Chunks,
		}
		for _, e := range r.res.Entities {
			pprexplain.Seeds = append(
				pprexplain.Seeds,
				ListScore{e.ID.String(), max(0, e.Similarity) / max(sum, 1e-300)},
			)
		}
		r.res.Explain = pprexplain
	}
	return nil
}
