package extract

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// ExtractFirst extracts the first chunk of a range that the ledger does not have, and gives the key of what was paid
// for; zero where there is no such chunk, or the model costs nothing. An answer of no use is none of its errors: the
// batch of the chunk reports that. hold, where there is one, says whether a chunk may be asked for: it is another's
// otherwise.
func ExtractFirst(
	ctx context.Context, in In, hold func(ctx context.Context, key core.Digest) (bool, error),
) (core.Digest, error) {
	info := in.Chat.Info()
	if !info.Paid || in.From == in.To {
		return core.Digest{}, nil
	}
	b := &batch{In: in, round: in.Health.BeginRound()}
	missing := func(ctx context.Context, x item) (*item, error) {
		if !sendsChunk(in.Spec, info, x.text) {
			return nil, nil
		}
		entry, err := in.Ledger.Get(ctx, ledger.Extract, Key(info, x.spec, x.text), in.Attempt)
		if err != nil || entry != nil {
			return nil, err
		}
		return &x, nil
	}
	for found, err := range parallel.MapOrdered(ctx, width, in.streamChunks(ctx), missing) {
		if err != nil {
			return core.Digest{}, err
		}
		if found == nil {
			continue
		}
		if hold != nil {
			if mine, err := hold(ctx, Key(info, found.spec, found.text)); err != nil {
				return core.Digest{}, err
			} else if !mine {
				continue
			}
		}
		_, err := b.answerChunk(ctx, found)
		return found.out.Key, err
	}
	return core.Digest{}, nil
}
