package ops

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/build"
	"github.com/unweaver/unweaver/internal/corpus"
)

// take fills in what the processes that work on the run did and paid for, and tells how much of the stage is done.
func (s *Status) take(total build.Account, stage string) (done int64) {
	total.Fill(&s.Report)
	return total.Done[stage]
}

// add adds problems that are not told yet.
func (s *Status) add(problems []corpus.Problem) {
	for _, problem := range problems {
		if !slices.Contains(s.Problems, problem) {
			s.Problems = append(s.Problems, problem)
		}
	}
}

// show adds what units of the run fail with right now. What cannot be read is left out.
func (s *Status) show(problems map[string][]byte) {
	for _, raw := range problems {
		var problem corpus.Problem
		if json.Unmarshal(raw, &problem) == nil && problem.Code != "" {
			s.Problems = append(s.Problems, problem)
		}
	}
	slices.SortFunc(s.Problems, func(a, b corpus.Problem) int { return strings.Compare(a.Detail, b.Detail) })
}
