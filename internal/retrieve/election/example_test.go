package election_test

import (
	"context"
	"fmt"

	"github.com/unweaver/unweaver/internal/retrieve/election"
)

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
