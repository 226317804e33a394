package ledger

import (
	"context"
	"errors"

	"github.com/unweaver/unweaver/internal/core"
)

// errBefore ends a payment that is not needed.
var errBefore = errors.New("it was paid for under its former key")

// Paid is what DoEither gives: an entry, the key that it stands under, and whether this call paid for it.
type Paid struct {
	Entry *Entry
	Key   core.Digest
	Fresh bool
}

// DoEither is DoAccepting for a key that had another one before: an entry under that counts too, and stays there. A
// zero before is none.
func (l *Ledger) DoEither(
	ctx context.Context, task string, key, before core.Digest, attempt int, accept Accept,
	pay func(context.Context) (Result, error),
) (Paid, error) {
	if before.IsZero() || before == key {
		entry, paid, err := l.DoAccepting(ctx, task, key, attempt, accept, pay)
		return Paid{entry, key, paid}, err
	}
	for _, candidate := range []core.Digest{key, before} { // packs first: they cost no look at the store
		if entry, err := l.fromPacks(ctx, task, candidate, accept); err != nil || entry != nil {
			return Paid{Entry: entry, Key: candidate}, err
		}
	}
	var old *Entry
	entry, paid, err := l.DoAccepting(ctx, task, key, attempt, accept, func(ctx context.Context) (Result, error) {
		found, err := l.find(ctx, task, before, attempt, accept)
		if err != nil {
			return Result{}, err
		}
		if old = found; old != nil {
			return Result{}, errBefore
		}
		return pay(ctx)
	})
	if errors.Is(err, errBefore) && old != nil {
		return Paid{Entry: old, Key: before}, nil
	}
	return Paid{entry, key, paid}, err
}

// GetEither is Get for a key that had another one before.
func GetEither(
	ctx context.Context, from interface {
		Get(ctx context.Context, task string, key core.Digest, attempt int) (*Entry, error)
	}, task string, key, before core.Digest, attempt int,
) (*Entry, error) {
	entry, err := from.Get(ctx, task, key, attempt)
	if err != nil || entry != nil || before.IsZero() || before == key {
		return entry, err
	}
	return from.Get(ctx, task, before, attempt)
}
