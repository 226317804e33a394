package stage

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
)

// errPassing keeps the ledger from remembering a failure that may not last.
var errPassing = errors.New("not worth remembering")

// RecallOrAsk reads an answer of the ledger into a value, or has it asked for and stored: entry is what is stored of
// it. fresh says that it was asked for now. A failure that may not last is not stored: the value stays as it was,
// passing is true, and the next run asks again. An entry that is damaged is removed, and asked for again.
func RecallOrAsk[T, V any](
	ctx context.Context, from *ledger.Ledger, task string, key core.Digest, attempt int,
	ask func(context.Context) (Answer[T], error), entry func(Answer[T]) V, value *V,
) (fresh, passing bool, err error) {
	check := func(found ledger.Entry) error { return readEntry(found, task, new(V)) }
	pay := func(ctx context.Context) (ledger.Result, error) {
		answer, err := ask(ctx)
		if err == nil && answer.Reason != "" && answer.Passing {
			err = errPassing
		}
		if err != nil {
			return ledger.Result{}, err
		}
		raw, err := json.Marshal(entry(answer))
		return ledger.Result{Value: raw, Negative: answer.Reason != ""}, err
	}
	found, fresh, err := from.DoAccepting(ctx, task, key, attempt, check, pay)
	if errors.Is(err, errPassing) {
		return false, true, nil
	}
	if err != nil {
		return false, false, err
	}
	if err := readEntry(*found, task, value); err != nil {
		return false, false, err
	}
	return fresh, false, nil
}

func readEntry(entry ledger.Entry, task string, value any) error {
	if err := json.Unmarshal(entry.Value, value); err != nil {
		return fault.SegmentDamage.At("read ledger entry of", task).Because(err)
	}
	return nil
}
