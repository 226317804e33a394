package retrieve

import (
	"math"

	"github.com/unweaver/unweaver/internal/retrieve/election"
)

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

func (r *Request) explainWeighted() any {
	explain := WeightedExplain{Voters: r.Query.TopEntities, Chunks: []ExplainVote{}}
	counts := map[uint32]int{}
	for _, entity := range r.Result.Entities {
		for at, number := range entity.Votes {
			times := 1
			if entity.Times != nil {
				times = entity.Times[at]
			}
			explain.Votes += times
			counts[number] += times
		}
	}
	for _, chunk := range r.Result.Chunks {
		if len(chunk.Why) > 0 {
			vote := ExplainVote{chunk.Live.ID.String(), counts[chunk.Live.Number], chunk.Why[0], chunk.Score}
			explain.Chunks = append(explain.Chunks, vote)
		}
	}
	return explain
}

// ElectionExplain is the explanation of an election.
type ElectionExplain struct {
	Rule     string        `json:"rule"`
	Status   string        `json:"status" enum:"exact,sequential"`
	Value    float64       `json:"value"`
	Seats    []SeatExplain `json:"seats"`
	RunnerUp *RunnerUp     `json:"runner_up"`
	Unserved []string      `json:"voters_without_a_seat"`
}

// SeatExplain is a member: the deciding value (null where no voter supports it) and its voters.
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

func (r *Request) explainElection(
	field candidates,
	profile election.Profile,
	committee election.Committee,
	order []int,
) ElectionExplain {
	explain := ElectionExplain{
		Rule:     r.Query.Rule,
		Status:   committee.Status,
		Value:    committee.Score,
		Seats:    []SeatExplain{},
		Unserved: []string{},
	}
	idOf := func(candidate uint32) string {
		return r.Generation.Live.ByNumber(int(field.numbers[candidate])).ID.String()
	}
	served := map[int]bool{}
	elected := map[uint32]bool{}
	approval := sumApprovals(profile)
	least := math.Inf(1)
	for _, member := range order {
		candidate := committee.Members[member]
		elected[candidate] = true
		least = min(least, approval[candidate])
		seat := SeatExplain{ID: idOf(candidate), Voters: []string{}}
		if value := committee.Values[member]; !math.IsNaN(value) {
			seat.Value = &value
		}
		for _, voter := range committee.Why[member] {
			served[voter] = true
			seat.Voters = append(seat.Voters, r.Result.Entities[voter].ID.String())
		}
		explain.Seats = append(explain.Seats, seat)
	}
	for candidate := range uint32(profile.Candidates) {
		best := explain.RunnerUp == nil || approval[candidate] > explain.RunnerUp.Approval
		if best && !elected[candidate] {
			explain.RunnerUp = &RunnerUp{idOf(candidate), approval[candidate], least - approval[candidate]}
		}
	}
	for voter, entity := range r.Result.Entities {
		if !served[voter] {
			explain.Unserved = append(explain.Unserved, entity.ID.String())
		}
	}
	return explain
}

// sumApprovals sums the weights of the voters of each candidate.
func sumApprovals(profile election.Profile) []float64 {
	out := make([]float64, profile.Candidates)
	for voter, ballot := range profile.Ballots {
		for _, candidate := range ballot {
			out[candidate] += max(0, profile.Weights[voter])
		}
	}
	return out
}
