package release

import (
	"cmp"
	"context"
	"crypto/rand"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	operationsFolder = "/operations/"
	deletedFolder    = "_deleted/"
	recordEnding     = ".json"
	outcomeEnding    = ".outcome.json"
	// Longest texts of a record, in bytes: they come from the caller.
	longestReason, longestName = 2000, 200
	readAtOnce                 = 16
)

// Begin writes an operation before it takes effect, and gives it with its id. Records are never changed: how it ended
// is a second one.
func Begin(ctx context.Context, index artifact.Index, at time.Time, op core.Operation) (core.Operation, error) {
	if err := index.Check(); err != nil {
		return op, err
	}
	op.At = at.UTC()
	op.ID = strings.ToLower(op.At.Format("20060102T150405.000000Z") + "-" + rand.Text()[:6])
	op.Index = index.Name
	op.By, op.Via = clipText(cmp.Or(op.By, "unknown"), longestName), clipText(op.Via, longestName)
	op.Reason = clipText(op.Reason, longestReason)
	op.Outcome = nil
	_, err := blob.WriteJSON(ctx, index.Store, recordKey(op)+recordEnding, op, blob.Cond{Absent: true})
	return op, err
}

// End writes how an operation ended.
func End(ctx context.Context, index artifact.Index, op core.Operation, outcome core.OperationOutcome) error {
	_, err := blob.WriteJSON(ctx, index.Store, recordKey(op)+outcomeEnding, outcome, blob.Cond{Absent: true})
	return err
}

// OutcomeOf returns what is recorded of an error, or of none.
func OutcomeOf(at time.Time, err error) core.OperationOutcome {
	if err == nil {
		return core.OperationOutcome{At: at.UTC(), Result: core.OperationDone}
	}
	return core.OperationOutcome{
		At: at.UTC(), Result: core.OperationFailed, Code: string(fault.CodeOf(err)),
		Detail: clipText(err.Error(), longestReason),
	}
}

// ListOperations gives the newest records of the trail, the last first; 0 gives all. The record that an earlier index
// of this name was deleted is one of them. One that cannot be read is reported as such.
func ListOperations(ctx context.Context, index artifact.Index, limit int) ([]core.Operation, error) {
	if err := index.Check(); err != nil {
		return nil, err
	}
	var keys []string // without endings
	ended := map[string]bool{}
	for _, prefix := range []string{index.Name + operationsFolder, deletedFolder + index.Name + operationsFolder} {
		for info, err := range index.Store.List(ctx, prefix, "") {
			if err != nil {
				return nil, err
			}
			if key, ok := strings.CutSuffix(info.Key, outcomeEnding); ok {
				ended[key] = true
			} else if key, ok := strings.CutSuffix(info.Key, recordEnding); ok {
				keys = append(keys, key)
			}
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(path.Base(b), path.Base(a)) }) // ids rise with time
	if limit > 0 && len(keys) > limit {
		keys = keys[:limit]
	}
	out := make([]core.Operation, len(keys))
	err := parallel.Each(ctx, len(keys), readAtOnce, func(ctx context.Context, i int) error {
		var err error
		out[i], err = readOperation(ctx, index, keys[i], ended[keys[i]])
		return err
	})
	return out, err
}

// unreadable is the action of a record that says nothing.
const unreadable = "unreadable"

func readOperation(ctx context.Context, index artifact.Index, key string, ended bool) (core.Operation, error) {
	var op core.Operation
	_, err := blob.ReadJSON(ctx, index.Store, key+recordEnding, &op)
	if err != nil && !artifact.IsDamage(err) {
		return op, err
	}
	if id := path.Base(key); err != nil || op.ID != id {
		op = core.Operation{ID: id, Action: unreadable, Index: index.Name}
	}
	if !ended {
		return op, nil
	}
	var outcome core.OperationOutcome
	_, err = blob.ReadJSON(ctx, index.Store, key+outcomeEnding, &outcome)
	if err == nil {
		op.Outcome = &outcome
	} else if artifact.IsDamage(err) {
		err = nil
	}
	return op, err
}

// recordKey returns where an operation is recorded, without ending. The record of a deletion outlives the index.
func recordKey(op core.Operation) string {
	key := op.Index + operationsFolder + op.ID
	if op.Action == core.ActionDelete {
		return deletedFolder + key
	}
	return key
}

// clipText returns a text of at most n bytes that ends with a whole character.
func clipText(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
