package ledger

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Unlisted is how old an entry that nothing lists must be to go.
const Unlisted = 14 * 24 * time.Hour

// expireEvery is how often entries are looked through: it reads all of them.
const expireEvery = 24 * time.Hour

// deadShare: a run is written again without its dead entries once they are one in so many, or twice Unlisted old.
const deadShare = 16

// Expire drops entries, negative ones too, that are older than Unlisted and that listed does not give. An entry that
// was packed is as old as its first pack. Listed may give a key any number of times, in any order; an error of it ends
// Expire before anything is dropped. It gives how many entries went. Memory does not grow with either.
func (l *Ledger) Expire(
	ctx context.Context, task string, listed iter.Seq2[core.Digest, error], now time.Time,
) (int64, error) {
	keys, err := sortKeys(ctx, listed)
	if err != nil {
		return 0, err
	}
	defer keys.close()
	dropped, err := l.expireLoose(ctx, task, keys, now)
	if err != nil {
		return dropped, err
	}
	t := l.packs.packsOf(task)
	files, err := listPacks(ctx, l.store, task)
	if err != nil {
		return dropped, err
	}
	for _, r := range runsOf(files.files, t.isAside) {
		n, err := l.expireRun(ctx, task, r, keys, now)
		var bad *unreadable
		if errors.As(err, &bad) {
			l.setAside(ctx, t, bad.pack, bad.err)
			continue
		}
		if err != nil {
			return dropped, err
		}
		dropped += n
	}
	return dropped, nil
}

func (l *Ledger) expireLoose(ctx context.Context, task string, keys *sortedKeys, now time.Time) (int64, error) {
	old := func(yield func(string, error) bool) {
		for entry, err := range l.looseObjects(ctx, task) {
			if err == nil && (now.Sub(entry.modified) <= Unlisted || keys.containsKey(entry.key)) {
				continue
			}
			if !yield(entry.object, err) || err != nil {
				return
			}
		}
	}
	total := int64(0)
	for objects, err := range parallel.Batch(old, artifact.DeleteAtOnce) {
		if err == nil {
			err = artifact.DeleteAll(ctx, l.store, objects)
		}
		if err != nil {
			return total, err
		}
		total += int64(len(objects))
	}
	return total, nil
}

// expireRun writes a run again without what may go, where that is worth it.
func (l *Ledger) expireRun(ctx context.Context, task string, r run, keys *sortedKeys, now time.Time) (int64, error) {
	isDead := func(row timedRow) bool {
		var key core.Digest
		return now.Sub(row.time) > Unlisted && key.UnmarshalText([]byte(row.key)) == nil && !keys.containsKey(key)
	}
	all, gone, oldest := int64(0), int64(0), time.Duration(0)
	for row, err := range r.streamRows(ctx, l.store) {
		if err != nil {
			return 0, err
		}
		if all++; isDead(row) {
			gone++
			oldest = max(oldest, now.Sub(row.time))
		}
	}
	if gone == 0 || (gone*deadShare < all && oldest < 2*Unlisted) {
		return 0, nil
	}
	how := "expire/1 " + strconv.FormatInt(now.Unix(), 10)
	return gone, l.rewriteRuns(ctx, task, how, []run{r}, now, isDead)
}

// sortedKeys are keys in order, on the local disk where they are many.
type sortedKeys struct {
	column mapped.Column
	keys   []core.Digest
}

func sortKeys(ctx context.Context, listed iter.Seq2[core.Digest, error]) (*sortedKeys, error) {
	var sorter extsort.Sorter
	defer sorter.Close()
	count := int64(0)
	for key, err := range listed {
		signalAlive(ctx, count)
		count++
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		sorter.Add(key[:], nil)
	}
	out, last := new(sortedKeys), []byte(nil)
	for row, err := range sorter.StreamSorted() {
		if err == nil && !bytes.Equal(row[0], last) {
			err = out.column.Put(row[0])
		}
		if err != nil {
			out.close()
			return nil, err
		}
		last = row[0]
	}
	var err error
	if out.keys, err = mapped.ViewRecords[core.Digest](&out.column); err != nil {
		out.close()
	}
	return out, err
}

func (k *sortedKeys) close() { k.column.Close() }

func (k *sortedKeys) containsKey(key core.Digest) bool {
	_, found := slices.BinarySearchFunc(k.keys, key, func(a, b core.Digest) int { return bytes.Compare(a[:], b[:]) })
	return found
}

// Kept counts what Upkeep did.
type Kept struct {
	Busy     bool  `json:"busy"`     // another process is at it: nothing was done
	Gathered int64 `json:"gathered"` // loose entries that were packed
	Swept    int64 `json:"swept"`    // objects that a pack or a merge had taken in
	Merged   int64 `json:"merged"`   // runs
	Expired  int64 `json:"expired"`  // entries that nothing lists
}

// upkeepClaim begins the name of the claim of who keeps a task's part of the ledger.
const upkeepClaim = "ledger-upkeep:"

// claimUpkeep makes this call the only one that keeps a task's part of the ledger, until release; nil: another one
// keeps it.
func (l *Ledger) claimUpkeep(ctx context.Context, task string) (release func(), err error) {
	name, owner := upkeepClaim+task, l.owner+"-"+newCall()
	got, err := l.claims.Claim(ctx, name, owner, claimTTL)
	if err != nil || !got {
		return nil, err
	}
	return l.keepClaim(ctx, name, owner), nil
}

// mustClaimUpkeep does what claimUpkeep does, but returns fault.GenBusy where another call holds the claim.
func (l *Ledger) mustClaimUpkeep(ctx context.Context, task string) (release func(), err error) {
	if release, err = l.claimUpkeep(ctx, task); err == nil && release == nil {
		err = fault.GenBusy.At("remove entries of the ledger of", task).
			Because("another process uses it").
			Advise("nothing is lost: the next attempt continues")
	}
	return release, err
}

// RunUpkeep keeps a task's part of the ledger small: it deletes what packs took in, drops once a day what listed does
// not give (nil drops nothing), packs what lies about, and merges packs. One process does it at a time. It may be
// repeated, and ended at any point.
func (l *Ledger) RunUpkeep(
	ctx context.Context, task string, listed iter.Seq2[core.Digest, error], now time.Time,
) (kept Kept, err error) {
	err = parallel.GuardMapped(func() (err error) { // sorted keys are mapped
		if task == Embed {
			kept, err = l.upkeepTexts(ctx, listed, now)
		} else {
			kept, err = l.upkeepTask(ctx, task, listed, now)
		}
		return err
	})
	return kept, err
}

func (l *Ledger) upkeepTask(
	ctx context.Context, task string, listed iter.Seq2[core.Digest, error], now time.Time,
) (kept Kept, err error) {
	release, err := l.claimUpkeep(ctx, task)
	if err != nil || release == nil {
		return Kept{Busy: true}, err
	}
	defer release()
	swept, crowded, err := l.sweepTask(ctx, task, now)
	if kept.Swept = int64(swept); err != nil {
		return kept, err
	}
	if listed != nil {
		if kept.Expired, err = l.expireDaily(ctx, task, listed, now); err != nil {
			return kept, err
		}
	}
	if kept.Gathered, err = l.gatherLoose(ctx, task, now); err != nil {
		return kept, err
	}
	if crowded || kept.Gathered > 0 || kept.Expired > 0 { // else there are no more packs than were listed
		kept.Merged, err = l.Merge(ctx, task, now)
	}
	return kept, err
}

// expireDaily drops entries where that was not done within the last day.
func (l *Ledger) expireDaily(
	ctx context.Context, task string, listed iter.Seq2[core.Digest, error], now time.Time,
) (int64, error) {
	mark := "ledger/" + task + "/expired.json"
	clock, err := artifact.ReadClock(ctx, l.store, mark, now, 2*expireEvery)
	if err != nil {
		return 0, err
	}
	var last artifact.Clock
	if _, err := blob.ReadJSON(ctx, l.store, mark, &last); err != nil && !artifact.IsDamage(err) {
		return 0, err
	}
	if clock.Behind > last.Behind {
		return 0, clock.Save(ctx, l.store, mark)
	}
	if since := clock.At.Sub(last.At); 0 <= since && since < expireEvery {
		return 0, nil
	}
	dropped, err := l.Expire(ctx, task, listed, clock.At)
	if err != nil {
		return dropped, err
	}
	return dropped, clock.Save(ctx, l.store, mark)
}
