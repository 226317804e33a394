package ledger

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/core"
)

// SetMergedEntries makes merged packs small, and gives what undoes it.
func SetMergedEntries(n int) (undo func()) {
	old := mergedEntries
	mergedEntries = n
	return func() { mergedEntries = old }
}

// SetMostRuns has builds write packs of the index of so many texts, and merge more runs than most; it gives what undoes
// that.
func SetMostRuns(most, perPack int) (undo func()) {
	oldRuns, oldTexts := mostRuns, sealTexts
	mostRuns, sealTexts = most, perPack
	return func() { mostRuns, sealTexts = oldRuns, oldTexts }
}

// Runs returns how many runs of the index of texts are open.
func (l *Ledger) Runs() int { return l.packs.packsOf(Texts).countRuns() }

// Sweep does what upkeep does of packs and merges that are old enough.
func (l *Ledger) Sweep(ctx context.Context, task string, now time.Time) (int, error) {
	swept, _, err := l.sweepTask(ctx, task, now)
	return swept, err
}

// Pack gathers the loose entries of keys into one pack, as upkeep does, and gives how many of the keys lie in packs.
func (l *Ledger) Pack(ctx context.Context, task string, keys []core.Digest) (int, error) {
	var loose []core.Digest
	for _, key := range keys {
		if raw, err := l.findPacked(ctx, task, key); err != nil {
			return 0, err
		} else if raw == nil {
			loose = append(loose, key)
		}
	}
	held := len(keys) - len(loose)
	slices.SortFunc(loose, func(a, b core.Digest) int { return bytes.Compare(a[:], b[:]) })
	packed, err := l.packKeys(ctx, task, loose)
	return held + packed, err
}
