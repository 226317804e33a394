package run

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// LettersOf reads the dead letters of a generation, side by side, in the order of their keys. One that is removed
// meanwhile is left out.
func LettersOf(
	ctx context.Context, index artifact.Index, generation string,
) iter.Seq2[extract.DeadLetter, error] {
	keys := func(yield func(string, error) bool) {
		for info, err := range index.Store.List(ctx, extract.DeadLetterKey(index, generation, ""), "") {
			if !yield(info.Key, err) || err != nil {
				return
			}
		}
	}
	read := func(ctx context.Context, key string) (letter extract.DeadLetter, err error) {
		_, err = blob.ReadJSON(ctx, index.Store, key, &letter)
		if fault.Is(err, fault.NotFound) {
			err = nil
		}
		return letter, err
	}
	return func(yield func(extract.DeadLetter, error) bool) {
		for letter, err := range parallel.MapOrdered(ctx, LettersAtOnce, keys, read) {
			if (err != nil || letter.Chunk != "") && !yield(letter, err) || err != nil {
				return
			}
		}
	}
}

// LettersAtOnce is how many dead letters are carried at once.
const LettersAtOnce = 32
