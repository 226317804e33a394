package build

import (
	"context"
	"errors"
	"io"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// problemsName is the file of a generation that lists all problems of its build, one JSON object a line: those of plan,
// then those of the units in their order.
const problemsName = "problems.jsonl"

// problemsKey is where the list lies; scratch goes, it stays with its generation.
func (r *Run) problemsKey() string { return r.Index.GenerationKey(r.Generation, problemsName) }

// keepProblems writes the list.
func (r *Run) keepProblems(ctx context.Context, units int) error {
	file, err := artifact.NewFile()
	if err != nil {
		return err
	}
	defer file.Discard()
	keys := []string{plan.ProblemsKey(r.Scratch.Prefix)}
	for unit := range units {
		keys = append(keys, chunk.ProblemsKey(r.Scratch.Prefix, unit))
	}
	for _, key := range keys {
		if err := r.appendTo(ctx, file, key); err != nil {
			return err
		}
	}
	return file.Put(ctx, r.Artifacts, r.problemsKey())
}

// appendTo copies a list of problems; one that is not there is empty.
func (r *Run) appendTo(ctx context.Context, file io.Writer, key string) error {
	body, _, err := r.Artifacts.Get(ctx, key, blob.All)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(file, body)
	return errors.Join(err, body.Close())
}
