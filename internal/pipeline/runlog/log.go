package runlog

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// A log holds at most this many problems and dead letters; the rest lies where ProblemsPath and LettersPath say.
const (
	mostProblems = 1000
	mostLetters  = 100
	longestLine  = 1 << 20 // of problems.jsonl, in bytes
)

// Log is everything that the stores hold about a run: beside the run with its events and retries, the documents and
// rows that could not be used, and the chunks that no model made sense of.
type Log struct {
	Run
	Listed      []core.Problem `json:"listed,omitempty"`  // of problems.jsonl, the first thousand
	Letters     []core.Problem `json:"letters,omitempty"` // dead letters, the first hundred: chunk, document and why
	LettersPath string         `json:"letters_path,omitempty"`
}

// ReadLog reads what the stores hold about a run that was read already.
func (s Source) ReadLog(ctx context.Context, run Run) (Log, error) {
	out := Log{Run: run}
	index := artifact.Index{Store: s.Artifacts, Name: run.Index}
	if err := index.Check(); err != nil {
		return out, err
	}
	prefix := index.GenerationKey(run.Generation, "dead-letters") + "/"
	err := parallel.RunTogether(ctx, func(ctx context.Context) (err error) {
		out.Listed, err = s.readProblems(ctx, index.GenerationKey(run.Generation, plan.ProblemsName))
		return err
	}, func(ctx context.Context) (err error) {
		out.Letters, err = s.readLetters(ctx, prefix)
		return err
	})
	if len(out.Letters) > 0 {
		out.LettersPath = s.Artifacts.Location(prefix)
	}
	return out, err
}

// readProblems reads problems.jsonl as far as a log shows it; one that is not there is empty.
func (s Source) readProblems(ctx context.Context, key string) (out []core.Problem, err error) {
	body, _, err := s.Artifacts.Get(ctx, key, blob.All)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, longestLine)
	for len(out) < mostProblems && lines.Scan() {
		var problem core.Problem
		if json.Unmarshal(lines.Bytes(), &problem) == nil && problem.Code != "" {
			out = append(out, problem)
		}
	}
	if err := lines.Err(); err != nil && len(out) < mostProblems {
		return out, fault.SegmentDamage.At("read", s.Artifacts.Location(key)).Because(err)
	}
	return out, nil
}

// readLetters reads the dead letters below a prefix, in the order of their names.
func (s Source) readLetters(ctx context.Context, prefix string) ([]core.Problem, error) {
	var keys []string
	for info, err := range s.Artifacts.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		if keys = append(keys, info.Key); len(keys) == mostLetters {
			break
		}
	}
	out := make([]core.Problem, len(keys))
	err := parallel.Each(ctx, len(keys), listWidth, func(ctx context.Context, i int) error {
		var letter extract.DeadLetter
		_, err := blob.ReadJSON(ctx, s.Artifacts, keys[i], &letter)
		out[i] = core.Problem{
			Code:   "dead_letter",
			Object: fmt.Sprintf("%s, chunk %d (%s)", letter.Document, letter.Ordinal+1, letter.Chunk),
			Detail: letter.Reason,
		}
		if artifact.IsDamage(err) {
			out[i] = core.Problem{Code: string(fault.CodeOf(err)), Object: keys[i], Detail: err.Error()}
			return nil
		}
		return err
	})
	return out, err
}
