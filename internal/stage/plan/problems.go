package plan

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/redact"
	"github.com/unweaver/unweaver/internal/store/artifact"
)

// ProblemsKey is the scratch file of all problems, one Problem a line, in the order in which they were found. It is
// there, perhaps empty, when the stage is done.
func ProblemsKey(scratch string) string { return scratch + "/plan-problems.jsonl" }

// Problem is a line of the file at ProblemsKey. Standing ones are the parent's, found again: the same code for the same
// bytes.
type Problem struct {
	corpus.Problem
	Standing bool `json:"standing"`
}

// Foremost orders problems as they are shown, and cuts them to MaxProblems: documents that failed come before what was
// never going to be one.
func Foremost(found []corpus.Problem) []corpus.Problem {
	slices.SortStableFunc(found, func(a, b corpus.Problem) int { return rank(a) - rank(b) })
	return found[:min(len(found), MaxProblems)]
}

func rank(problem corpus.Problem) int {
	switch fault.Code(problem.Code) {
	case fault.NotFollowed, fault.UnknownType:
		return 1
	}
	return 0
}

// problems keeps the first of each rank and writes all.
type problems struct {
	file  *artifact.File
	ranks [2][]corpus.Problem
	count int64
	err   error
}

func newProblems() (*problems, error) {
	file, err := artifact.NewFile()
	return &problems{file: file}, err
}

func (p *problems) discard() { p.file.Discard() }

// add records a problem; store tells of errors.
func (p *problems) add(code fault.Code, object, detail string, standing bool) {
	object, detail = redact.Text(object), redact.Text(detail)
	problem := Problem{corpus.Problem{Code: string(code), Object: object, Detail: detail}, standing}
	p.count++
	if first := &p.ranks[rank(problem.Problem)]; len(*first) < MaxProblems {
		*first = append(*first, problem.Problem)
	}
	raw, err := json.Marshal(problem)
	if err == nil {
		_, err = p.file.Write(append(raw, '\n'))
	}
	if err != nil && p.err == nil {
		p.err = err
	}
}

func (p *problems) store(ctx context.Context, index artifact.Index, key string) (name string, err error) {
	if p.err != nil {
		return "", p.err
	}
	return p.file.PutScratch(ctx, index, key)
}
