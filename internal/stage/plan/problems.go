package plan

import (
	"context"
	"encoding/json"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/redact"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
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

// problems keeps the first and writes all.
type problems struct {
	file  *artifact.File
	first []corpus.Problem
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
	if len(p.first) < MaxProblems {
		p.first = append(p.first, problem.Problem)
	}
	raw, err := json.Marshal(problem)
	if err == nil {
		_, err = p.file.Write(append(raw, '\n'))
	}
	if err != nil && p.err == nil {
		p.err = err
	}
}

func (p *problems) store(ctx context.Context, store blob.Store, key string) error {
	if p.err != nil {
		return p.err
	}
	return p.file.Put(ctx, store, key)
}
