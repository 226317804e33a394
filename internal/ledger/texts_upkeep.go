package ledger

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// indexUnnamed brings answers into the index that it does not name, since they lay in a pack of the index that cannot
// be read. Those that may go by now, or are younger than LooseGrace, are left out, the old ones only if every pack can
// be read. It returns how many texts it brought in.
func (l *Ledger) indexUnnamed(ctx context.Context, now time.Time) (int64, error) {
	named, whole, err := l.namedObjects(ctx)
	if err != nil {
		return 0, err
	}
	defer named.close()
	unnamed := func(yield func(core.Digest, error) bool) {
		for entry, err := range l.looseObjects(ctx, Embed) {
			age := now.Sub(entry.modified)
			young, gone := age <= LooseGrace, age > Unlisted && whole
			if err == nil && (young || gone || named.containsKey(entry.key)) {
				continue
			}
			if !yield(entry.key, err) || err != nil {
				return
			}
		}
	}
	total := int64(0)
	for keys, err := range parallel.Batch(unnamed, sealTexts/64) {
		count := int64(0)
		if err == nil {
			count, err = l.indexObjects(ctx, keys)
		}
		if total += count; err != nil {
			return total, err
		}
	}
	return total, nil
}

// indexObjects reads the texts of objects and writes them into the index.
func (l *Ledger) indexObjects(ctx context.Context, keys []core.Digest) (int64, error) {
	heads := make([]*answer, len(keys))
	err := parallel.Each(ctx, len(keys), 4*readWidth, func(ctx context.Context, i int) (err error) {
		heads[i], err = l.readHead(ctx, keys[i], false)
		return err
	})
	if err != nil {
		return 0, err
	}
	count := int64(0)
	var readable []*answer
	for _, head := range heads {
		if head != nil {
			readable = append(readable, head)
			count += int64(len(head.texts))
		}
	}
	if len(readable) == 0 {
		return 0, nil
	}
	err = l.writeIndex(ctx, readable)
	l.packs.packsOf(Texts).forgetList()
	return count, err
}

// namedObjects returns the answers that the index names, sorted on the local disk; whole reports that every pack of the
// index could be read.
func (l *Ledger) namedObjects(ctx context.Context) (keys *sortedKeys, whole bool, err error) {
	t := l.packs.packsOf(Texts)
	for {
		listed, err := listPacks(ctx, l.store, Texts)
		if err != nil {
			return nil, false, err
		}
		keys, err := sortKeys(ctx, l.streamObjects(ctx, runsOf(listed.files, t.isAside)))
		var bad *unreadable
		if errors.As(err, &bad) {
			l.setAside(ctx, t, bad.pack, bad.err)
			continue
		}
		if err != nil {
			return nil, false, err
		}
		whole := true
		for _, file := range listed.files {
			whole = whole && !t.isAside(file.key)
		}
		return keys, whole, nil
	}
}

func (l *Ledger) streamObjects(ctx context.Context, runs []run) iter.Seq2[core.Digest, error] {
	return func(yield func(core.Digest, error) bool) {
		for _, r := range runs {
			for row, err := range r.streamRows(ctx, l.store) {
				object, ok := core.Digest{}, true
				if err == nil {
					object, ok = decodeIndexed(row.value, false)
				}
				if !ok {
					continue
				}
				if !yield(object, err) || err != nil {
					return
				}
			}
		}
	}
}

// markGrace is how long a mark of another process stays: its own process writes the index.
const markGrace = time.Hour

// gatherMarks writes into the index what this process stored, and what processes stored that are gone.
func (l *Ledger) gatherMarks(ctx context.Context, now time.Time) (int64, error) {
	gathered := int64(l.texts.countUnsealed())
	if err := l.SealTexts(ctx); err != nil {
		return 0, err
	}
	var left []*answer
	var dead []string
	for mark, err := range l.looseObjects(ctx, Texts) {
		if err != nil {
			return gathered, err
		}
		if now.Sub(mark.modified) <= markGrace {
			continue
		}
		head, err := l.readHead(ctx, mark.key, true)
		if err != nil {
			return gathered, err
		}
		if head == nil {
			dead = append(dead, mark.object)
			continue
		}
		left = append(left, head)
		gathered += int64(len(head.texts))
	}
	if err := l.sealAnswers(ctx, left); err != nil {
		return gathered, err
	}
	return gathered, artifact.DeleteAll(ctx, l.store, dead)
}

// upkeepTexts keeps embeddings and their index small. Listed gives texts: an answer goes when the index names it no
// more, and the index forgets what is old and not listed.
func (l *Ledger) upkeepTexts(
	ctx context.Context, listed iter.Seq2[core.Digest, error], now time.Time,
) (kept Kept, err error) {
	release, err := l.claimUpkeep(ctx, Embed)
	if err != nil || release == nil {
		return Kept{Busy: true}, err
	}
	defer release()
	gathered, err := l.gatherMarks(ctx, now)
	if err != nil {
		return kept, err
	}
	kept, err = l.upkeepTask(ctx, Texts, listed, now)
	if kept.Gathered += gathered; err != nil || listed == nil {
		return kept, err
	}
	expired, err := l.expireDaily(ctx, Embed, l.answersToKeep(ctx, now), now)
	kept.Expired += expired
	return kept, err
}

// answersToKeep gives the objects that the index names, having brought in those that it should name. Without every pack
// of the index nothing can be asked to be dead.
func (l *Ledger) answersToKeep(ctx context.Context, now time.Time) iter.Seq2[core.Digest, error] {
	return func(yield func(core.Digest, error) bool) {
		if _, err := l.indexUnnamed(ctx, now); err != nil {
			yield(core.Digest{}, err)
			return
		}
		listed, err := listPacks(ctx, l.store, Texts)
		if err != nil {
			yield(core.Digest{}, err)
			return
		}
		l.streamObjects(ctx, runsOf(listed.files, l.packs.packsOf(Texts).isAside))(yield)
	}
}
