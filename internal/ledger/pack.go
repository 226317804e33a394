package ledger

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// readWidth is how many loose entries are read at once.
const readWidth = 16

// sweepWidth is how many packs are read at once whose loose entries are deleted: an entry lies in one pack, and the
// deletions of each are some requests at once.
const sweepWidth = 4

// gatherEntries is how many entries a gathered pack holds at most.
const gatherEntries = 5000

// Stored is an entry that the ledger holds loose.
type Stored struct {
	Key   core.Digest
	Value []byte
}

// packKeys writes the loose entries of sorted keys as one pack, without those that are negative, or not there. It gives
// how many the pack has.
func (l *Ledger) packKeys(ctx context.Context, task string, keys []core.Digest) (int, error) {
	read := func(ctx context.Context, key core.Digest) (*Stored, error) {
		content, _, ok, err := l.readContent(ctx, looseKey(task, key))
		if err != nil || !ok {
			return nil, err
		}
		if _, _, negative := decodeNegative(content); negative {
			return nil, nil
		}
		return &Stored{key, content}, nil
	}
	return l.PackEntries(ctx, task, func(yield func(Stored, error) bool) {
		for entry, err := range parallel.MapOrdered(ctx, readWidth, parallel.Items(keys), read) {
			switch {
			case err != nil:
				yield(Stored{}, err)
				return
			case entry != nil && !yield(*entry, nil):
				return
			}
		}
	})
}

// PackEntries writes entries that are stored, and positive, as one pack, and reads nothing of them. They come by key;
// of equal keys the first counts. It gives how many the pack has; fewer than two make none. Packing the same keys twice
// gives the same object.
func (l *Ledger) PackEntries(ctx context.Context, task string, entries iter.Seq2[Stored, error]) (int, error) {
	rows, err := artifact.NewRows()
	if err != nil {
		return 0, err
	}
	defer rows.Discard()
	var packed []core.Digest
	for entry, err := range entries {
		if err != nil {
			return 0, err
		}
		if len(packed) > 0 && entry.Key == packed[len(packed)-1] {
			continue
		}
		rows.Append(entry.Key.String(), entry.Value)
		packed = append(packed, entry.Key)
	}
	if len(packed) < 2 {
		return 0, nil
	}
	rows.Cut()
	rows.Append(filterRow, bloomOf(packed, bloomBits))
	names := make([]string, len(packed))
	for i, key := range packed {
		names[i] = key.String()
	}
	key := packPrefix(task) + core.Sum(names...).String()
	if _, err := l.store.Stat(ctx, key); err == nil {
		return len(packed), nil
	}
	return len(packed), rows.StoreScratch(ctx, l.store, key)
}

// looseObject is a listed loose entry.
type looseObject struct {
	object   string
	key      core.Digest
	modified time.Time
}

// Where there are many loose entries their folders are listed side by side, from the one on in which the first of them
// ended: a listing gives 1,000 a request, one request after the other.
// looseListed is a variable for tests alone.
var looseListed int64 = 4_000

const looseFolders = 16 // listed at once

// looseObjects lists the loose entries of a task by key.
func (l *Ledger) looseObjects(ctx context.Context, task string) iter.Seq2[looseObject, error] {
	return func(yield func(looseObject, error) bool) {
		count := int64(0)
		give := func(info blob.Info) bool {
			signalAlive(ctx, count)
			count++
			entry := looseObject{object: info.Key, modified: info.Modified}
			return entry.key.UnmarshalText([]byte(path.Base(info.Key))) != nil || // it is none of ours
				yield(entry, nil)
		}
		folder, more := -1, false
		for info, err := range l.store.List(ctx, loosePrefix(task), "") {
			if err != nil {
				yield(looseObject{}, err)
				return
			}
			at, err := strconv.ParseUint(path.Base(path.Dir(info.Key)), 16, 8)
			if count >= looseListed && err == nil && int(at) != folder {
				folder, more = int(at), true
				break // it begins with this one
			}
			if err == nil {
				folder = int(at)
			}
			if !give(info) {
				return
			}
		}
		if !more {
			return
		}
		folders := func(yield func(string, error) bool) {
			for ; folder < 256 && yield(fmt.Sprintf("%s%02x/", loosePrefix(task), folder), nil); folder++ {
			}
		}
		list := func(ctx context.Context, folder string) ([]blob.Info, error) {
			var all []blob.Info
			for info, err := range l.store.List(ctx, folder, "") {
				if err != nil {
					return nil, err
				}
				all = append(all, info)
			}
			return all, nil
		}
		for listed, err := range parallel.MapOrdered(ctx, looseFolders, folders, list) {
			if err != nil {
				yield(looseObject{}, err)
				return
			}
			for _, info := range listed {
				if !give(info) {
					return
				}
			}
		}
	}
}

// gatherLoose packs loose entries that no shard packed: those of builds that ended early, and of tasks without shards.
// Embeddings are left out: their objects are large, and nothing lists them, so that they go soon.
func (l *Ledger) gatherLoose(ctx context.Context, task string, now time.Time) (int64, error) {
	if task == Embed {
		return 0, nil
	}
	loose := func(yield func(core.Digest, error) bool) {
		for entry, err := range l.looseObjects(ctx, task) {
			if err == nil && now.Sub(entry.modified) <= LooseGrace {
				continue
			}
			var raw []byte
			if err == nil {
				raw, err = l.findPacked(ctx, task, entry.key)
			}
			if err == nil && raw != nil {
				continue // it waits for being swept
			}
			if !yield(entry.key, err) || err != nil {
				return
			}
		}
	}
	var total int64
	for keys, err := range parallel.Batch(loose, gatherEntries) {
		packed := 0
		if err == nil {
			packed, err = l.packKeys(ctx, task, keys)
		}
		if total += int64(packed); err != nil {
			return total, err
		}
	}
	return total, nil
}

// sweepTask deletes loose entries that a pack took in at least LooseGrace ago, and packs that a merge took in as long
// ago. It gives how many objects it deleted, and reports whether there are more packs than a look-up should read. It
// may be repeated, and ended at any point.
func (l *Ledger) sweepTask(ctx context.Context, task string, now time.Time) (total int, crowded bool, err error) {
	listed, err := listPacks(ctx, l.store, task)
	if err != nil {
		return 0, false, err
	}
	crowded = chooseRuns(runsOf(listed.files, l.packs.packsOf(task).isAside)) != nil
	var due []packFile
	for _, file := range listed.files {
		if !file.merged && !listed.swept[file.key] && now.Sub(file.modified) > LooseGrace {
			due = append(due, file)
		}
	}
	var swept atomic.Int64
	err = parallel.Each(ctx, len(due), sweepWidth, func(ctx context.Context, i int) error {
		n, err := l.sweepLoose(ctx, task, due[i].key)
		swept.Add(int64(n))
		if err != nil && artifact.IsDamage(err) {
			l.setAside(ctx, l.packs.packsOf(task), due[i].key, err) // what it should hold stays loose
			return nil
		}
		if err == nil {
			_, err = blob.Write(ctx, l.store, due[i].key+sweptMark, nil, blob.Cond{})
		}
		return err
	})
	total = int(swept.Load())
	if err != nil {
		return total, crowded, err
	}
	for _, done := range listed.merges { // the oldest first: what a merge gave may be the input of a later one
		if now.Sub(done.At) <= LooseGrace {
			continue
		}
		n, err := l.sweepMerge(ctx, task, done, listed)
		total += n
		if err != nil {
			return total, crowded, err
		}
	}
	return total, crowded, nil
}

// sweepLoose deletes the loose entries of a pack. All of the pack is read before any is deleted.
func (l *Ledger) sweepLoose(ctx context.Context, task, pack string) (int, error) {
	signalAlive(ctx, 0)
	var objects []string
	for row, err := range artifact.ScanAll(ctx, l.store, pack) {
		if err != nil {
			return 0, err
		}
		if string(row.Key) == filterRow {
			continue
		}
		var key core.Digest
		if err := key.UnmarshalText(row.Key); err != nil {
			return 0, fault.SegmentDamage.At("read pack", l.store.Location(pack)).Because(err)
		}
		objects = append(objects, looseKey(task, key))
	}
	return len(objects), artifact.DeleteAll(ctx, l.store, objects)
}

// sweepMerge deletes what a merge took in, and then the record of the merge.
func (l *Ledger) sweepMerge(ctx context.Context, task string, done merge, listed listing) (int, error) {
	for _, output := range done.Outputs {
		_, err := l.store.Stat(ctx, output)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return 0, err
		}
		if err != nil && !takenLater(output, done, listed) { // somebody removed it: its inputs count again
			return 0, l.store.Delete(ctx, done.name)
		}
	}
	stays := make([]bool, len(done.Inputs))
	err := parallel.Each(ctx, len(done.Inputs), sweepWidth, func(ctx context.Context, i int) error {
		input := done.Inputs[i]
		if !strings.HasPrefix(input, packPrefix(task)) || listed.swept[input] {
			return nil
		}
		_, err := l.sweepLoose(ctx, task, input)
		switch {
		case fault.Is(err, fault.NotFound): // an earlier attempt deleted it
			return nil
		case artifact.IsDamage(err):
			stays[i] = true // it was whole when it was merged; its loose entries stay, and so does it
			return nil
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	var objects []string
	for i, input := range done.Inputs {
		if !stays[i] {
			objects = append(objects, input, input+sweptMark)
		}
	}
	if err := artifact.DeleteAll(ctx, l.store, objects); err != nil {
		return 0, err
	}
	l.packs.packsOf(task).forgetList()
	return len(objects) / 2, l.store.Delete(ctx, done.name)
}

// takenLater says that a later merge took an output in, which is why it may be gone.
func takenLater(output string, done merge, listed listing) bool {
	for _, later := range listed.merges {
		if later.name != done.name && slices.Contains(later.Inputs, output) {
			return true
		}
	}
	return false
}
