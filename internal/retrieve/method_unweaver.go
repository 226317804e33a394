package retrieve

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/retrieve/election"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Unweaver is the name of the method.
const Unweaver = "unweaver"

// exactLimit is how many committees an exact rule searches, at most.
const exactLimit = 2e5

// unweaverMethod has the paper's rule: the classes nearest to the question vote for the chunks that they came from.
type unweaverMethod struct{}

// Spec implements Method.
func (unweaverMethod) Spec() Spec {
	weighted := election.Rule{Name: election.RuleWeighted, Doc: "share of the votes, the earlier the first voter the more"}
	return Spec{
		Name:     Unweaver,
		Doc:      "the entities most similar to the question elect passages",
		Entities: 10,
		Params: []Param{
			NewChoice("weights", "weights of voters (rules other than weighted)", "none", "similarity", "rank"),
			NewChoice("ties", "what decides between equal passages", "reference", "similarity"),
			NewSwitch("fill", "fill up with the most similar passages", true),
		},
		Rules: append([]election.Rule{weighted}, election.Rules()...),
		Needs: Needs{Embedding: ByClassEmbedder, FillByClassVector: true},
		Explains: []Shape{
			{"ExplainWeighted", "unweaver, rule weighted: score = count/votes * (1 - first/voters)", WeightedExplain{}},
			{"ExplainElection", "unweaver, the other rules", ElectionExplain{}},
		},
	}
}

// Run implements Method.
func (unweaverMethod) Run(r *Request) (Explanation, error) {
	if err := r.findVoters(r.Query.TopEntities); err != nil || r.MatchesNothing() {
		return nil, err
	}
	if err := r.Admit(voteSteps * float64(r.votes)); err != nil {
		return nil, err
	}
	start := time.Now()
	defer func() { r.Result.Timing.Election = time.Since(start) }()
	bySimilarity := r.Query.Params.Text("ties") == "similarity"
	if r.Query.Rule != election.RuleWeighted {
		return r.electChunks(r.orderCandidates(bySimilarity))
	}
	if !bySimilarity {
		return r.explainWeighted, r.electWeighted()
	}
	field := r.orderCandidates(true)
	for i, number := range field.numbers[:min(r.Query.TopChunks, len(field.numbers))] {
		chunk := Chunk{Live: r.Generation.Live.ByNumber(int(number)), Score: field.score[i]}
		r.Result.Chunks = append(r.Result.Chunks, chunk)
	}
	r.noteReasons()
	return r.explainWeighted, nil
}

// candidates of an election in the order that breaks all ties: weighted score, place of the first voter, chunk order.
type candidates struct {
	numbers []uint32          // chunks in order
	at      map[uint32]uint32 // chunk -> place in numbers
	score   []float64         // weighted score
}

// orderCandidates orders the chunks that the result's entities vote for; bySimilarity lets the sum of the voters'
// similarities break ties of the weighted score.
func (r *Request) orderCandidates(bySimilarity bool) candidates {
	type candidate struct {
		number                   uint32
		firstVoter, count, score int
		similarity               float64
	}
	field := candidates{at: map[uint32]uint32{}}
	var all []candidate
	total := 0
	for voter, entity := range r.Result.Entities {
		for _, number := range entity.Votes {
			at, known := field.at[number]
			if !known {
				at = uint32(len(all))
				field.at[number] = at
				all = append(all, candidate{number: number, firstVoter: voter})
			}
			all[at].count++
			all[at].similarity += entity.Similarity
			total++
		}
	}
	voters := r.Query.TopEntities
	for i := range all {
		all[i].score = all[i].count * (voters - all[i].firstVoter)
	}
	slices.SortFunc(all, func(a, b candidate) int {
		similarity := 0
		if bySimilarity {
			similarity = cmp.Compare(b.similarity, a.similarity)
		}
		return cmp.Or(cmp.Compare(b.score, a.score), similarity, cmp.Compare(a.firstVoter, b.firstVoter),
			cmp.Compare(a.number, b.number))
	})
	for i, one := range all {
		field.numbers, field.at[one.number] = append(field.numbers, one.number), uint32(i)
		field.score = append(field.score, float64(one.score)/float64(max(1, total))/float64(voters))
	}
	return field
}

// electWeighted elects by the reference rule: ties by first appearance.
func (r *Request) electWeighted() error {
	if r.Generation.Spec.Parity {
		if err := r.countTimes(); err != nil {
			return err
		}
	}
	ballots := make([][]uint32, len(r.Result.Entities))
	for i := range r.Result.Entities {
		entity := &r.Result.Entities[i]
		if entity.Times == nil {
			ballots[i] = entity.Votes
			continue
		}
		for at, number := range entity.Votes {
			ballots[i] = append(ballots[i], slices.Repeat([]uint32{number}, entity.Times[at])...)
		}
	}
	for _, winner := range election.ElectWeighted(ballots, r.Query.TopEntities, r.Query.TopChunks) {
		chunk := Chunk{
			Live: r.Generation.Live.ByNumber(int(winner.Candidate)), Score: winner.Score, Why: winner.Why,
		}
		r.Result.Chunks = append(r.Result.Chunks, chunk)
	}
	return nil
}

// countTimes finds how often each chunk of the ballots names their entities: the reference lists such a chunk, and
// counts its vote, as often. Chunks are read side by side, since each may be a request to a distant store.
func (r *Request) countTimes() error {
	var numbers []uint32
	for _, entity := range r.Result.Entities {
		numbers = append(numbers, entity.Votes...)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	named := make([]map[core.ID]int, len(numbers))
	if err := parallel.Each(r.ctx, len(numbers), framesWidth, func(ctx context.Context, i int) error {
		extract, err := r.Generation.ReadExtraction(ctx, r.Generation.Live.ByNumber(int(numbers[i])))
		named[i] = map[core.ID]int{}
		for _, one := range extract.Entities {
			named[i][core.ClassID(r.Generation.Manifest.Aliases.ResolveKey(names.Key(one.Name, true)))]++
		}
		return err
	}); err != nil {
		return err
	}
	for i := range r.Result.Entities {
		entity := &r.Result.Entities[i]
		for _, number := range entity.Votes {
			at, _ := slices.BinarySearch(numbers, number)
			entity.Times = append(entity.Times, max(1, named[at][entity.ID]))
		}
	}
	return nil
}

// electChunks runs one of the other rules.
func (r *Request) electChunks(field candidates) (Explanation, error) {
	profile := r.newProfile(field)
	options := election.Options{
		Seats: r.Query.TopChunks, Completion: "pav", Prefer: field.score, ExactLimit: exactLimit,
	}
	if err := r.Admit(election.EstimateSteps(r.Query.Rule, profile, options)); err != nil {
		return nil, err
	}
	committee, err := election.Elect(r.ctx, r.Query.Rule, profile, options)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(committee.Members))
	for i := range order {
		order[i] = i
	}
	if r.Query.Rule == election.RulePAV || r.Query.Rule == election.RuleCC {
		// Their members have no order of election: they are presented by approval, then in tie order.
		sort.SliceStable(order, func(i, j int) bool {
			a, b := len(committee.Why[order[i]]), len(committee.Why[order[j]])
			return a > b || (a == b && committee.Members[order[i]] < committee.Members[order[j]])
		})
	}
	rising := r.Query.Rule == election.RulePhragmen || r.Query.Rule == election.RuleMES // loads and prices rise
	for i, member := range order {
		score := committee.Values[member]
		if rising || math.IsNaN(score) { // so the seat orders
			score = float64(len(order)-i) / float64(len(order))
		}
		number := field.numbers[committee.Members[member]]
		chunk := Chunk{Live: r.Generation.Live.ByNumber(int(number)), Score: score, Why: committee.Why[member]}
		r.Result.Chunks = append(r.Result.Chunks, chunk)
	}
	return func() any { return r.explainElection(field, profile, committee, order) }, nil
}

// newProfile makes the ballots of an election, with the weights that the query asks for.
func (r *Request) newProfile(field candidates) election.Profile {
	profile := election.Profile{Candidates: len(field.numbers)}
	for i, entity := range r.Result.Entities {
		ballot := make([]uint32, len(entity.Votes))
		for j, number := range entity.Votes {
			ballot[j] = field.at[number]
		}
		slices.Sort(ballot)
		profile.Ballots = append(profile.Ballots, slices.Compact(ballot))
		weight := 1.0
		switch r.Query.Params.Text("weights") {
		case "similarity":
			weight = max(0, entity.Similarity)
		case "rank":
			weight = 1 - float64(i)/float64(r.Query.TopEntities)
		}
		profile.Weights = append(profile.Weights, weight)
	}
	return profile
}
