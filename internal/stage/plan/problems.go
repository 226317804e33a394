package plan

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/stream/extsort"
)

// ProblemsKey returns the scratch file of all problems, one Problem a line, in the order in which they were found. It
// is there, perhaps empty, when the stage is done.
func ProblemsKey(scratch string) string { return scratch + "/plan-problems.jsonl" }

// Problem is a line of the file at ProblemsKey. Standing ones are the parent's, found again: the same code for the same
// bytes.
type Problem struct {
	core.Problem
	Standing bool `json:"standing"`
}

// OrderProblems orders problems as they are shown, and cuts them to MaxProblems: documents that failed come before what
// was never going to be one.
func OrderProblems(found []core.Problem) []core.Problem {
	slices.SortStableFunc(found, func(a, b core.Problem) int { return rankOf(a) - rankOf(b) })
	return found[:min(len(found), MaxProblems)]
}

func rankOf(problem core.Problem) int {
	switch fault.Code(problem.Code) {
	case fault.NotFollowed:
		return 1
	}
	return 0
}

// problems keeps the first of each rank and writes all.
type problems struct {
	file  *artifact.File
	ranks [2][]core.Problem
	count int64
	err   error
}

func newProblems() (*problems, error) {
	file, err := artifact.NewFile()
	return &problems{file: file}, err
}

func (p *problems) discardFile() { p.file.Discard() }

// problemOf returns a problem as it is shown to people.
func problemOf(code fault.Code, object, detail string, standing bool) Problem {
	object, detail = redact.Text(object), redact.Text(detail)
	return Problem{core.Problem{Code: string(code), Object: object, Detail: detail}, standing}
}

// found are the problems of a listing, by the number of the range that they are of: they are reported in order of the
// keys, whichever range found one first. Its user locks it.
type found struct {
	sorted extsort.Sorter
	err    error
}

// foundBytes is how much of them is held in memory.
const foundBytes = 4 << 20

func (f *found) add(number int, problem Problem) {
	f.sorted.Run = foundBytes
	raw, err := json.Marshal(problem)
	if f.err == nil {
		f.err = err
	}
	f.sorted.Add(binary.BigEndian.AppendUint32(nil, uint32(number)), raw) //nolint:gosec // one of a few ranges
}

func (f *found) close() { f.sorted.Close() }

// tellListed records the problems of the listing, once all of its ranges are over.
func (p *planner) tellListed() error {
	for pair, err := range p.found.sorted.StreamSorted() {
		if err != nil {
			return err
		}
		var problem Problem
		if err := json.Unmarshal(pair[1], &problem); err != nil {
			return fault.Internal.At("sort problems of", p.Spec.Corpus).Because(err)
		}
		p.problems.writeProblem(problem)
	}
	return p.found.err
}

// add records a problem; store reports errors.
func (p *problems) add(code fault.Code, object, detail string, standing bool) {
	p.writeProblem(problemOf(code, object, detail, standing))
}

func (p *problems) writeProblem(problem Problem) {
	p.count++
	if first := &p.ranks[rankOf(problem.Problem)]; len(*first) < MaxProblems {
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

func (p *problems) storeFile(ctx context.Context, index artifact.Index, key string) (name string, err error) {
	if p.err != nil {
		return "", p.err
	}
	return p.file.PutScratch(ctx, index, key)
}
