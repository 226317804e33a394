package ops

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/corpus"
)

// problemField begins the fields of a run's progress that hold problems.
const problemField = "problem/"

// merge sums progress: what was paid over all attempts, what is done by the furthest attempt of each batch. Fields that
// cannot be read are left out.
func (s *Status) merge(all map[string][]byte, stage string) (done int64) {
	var total corpus.Progress
	furthest := map[string]int64{}
	for field, raw := range all {
		if strings.HasPrefix(field, problemField) {
			var problem corpus.Problem
			if json.Unmarshal(raw, &problem) == nil && problem.Code != "" {
				s.Problems = append(s.Problems, problem)
			}
			continue
		}
		var progress corpus.Progress
		if json.Unmarshal(raw, &progress) != nil {
			continue
		}
		total.Add(progress)
		if progress.Stage == stage {
			unit := field[:max(0, strings.LastIndexByte(field, '/'))]
			furthest[unit] = max(furthest[unit], progress.Done)
		}
	}
	for _, n := range furthest {
		done += n
	}
	s.Fill(total)
	slices.SortFunc(s.Problems, func(a, b corpus.Problem) int { return strings.Compare(a.Detail, b.Detail) })
	return done
}
