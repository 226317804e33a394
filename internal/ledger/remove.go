package ledger

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Remove takes entries out of the ledger at once, negative ones too, even if listed: packs that hold one are
// written again without it, and what they were written from goes, also where it is otherwise kept for a while. Keys of
// Embed are those of texts: an answer that holds vectors of other texts too is written again for those. It gives how
// many entries went. It may be repeated, and ended at any point; fault.GenBusy where another process is at the upkeep
// of the task. Memory grows with the keys.
func (l *Ledger) Remove(
	ctx context.Context, task string, keys map[core.Digest]bool, now time.Time,
) (removed int64, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	release, err := l.mustClaimUpkeep(ctx, task)
	if err != nil {
		return 0, err
	}
	defer release()
	if task == Embed {
		return l.removeTexts(ctx, keys, now)
	}
	loose, err := l.removeLoose(ctx, task, keys)
	if err != nil {
		return loose, err
	}
	packed, err := l.removePacked(ctx, task, now, keys, func(row timedRow) bool { return hasKey(keys, row.key) })
	return max(loose, packed), err // a pack may hold what lies loose, too
}

// Forget takes all entries of a task out of the ledger, even if listed, as Remove does, and gives how many there
// were. It is for tasks other than Embed.
func (l *Ledger) Forget(ctx context.Context, task string, now time.Time) (int64, error) {
	release, err := l.mustClaimUpkeep(ctx, task)
	if err != nil {
		return 0, err
	}
	defer release()
	var objects []string
	for info, err := range l.store.List(ctx, loosePrefix(task), "") {
		if err != nil {
			return 0, err
		}
		objects = append(objects, info.Key)
	}
	if err := artifact.DeleteAll(ctx, l.store, objects); err != nil {
		return 0, err
	}
	packed, err := l.removePacked(ctx, task, now, nil, func(timedRow) bool { return true })
	return max(int64(len(objects)), packed), err // a pack may hold what lies loose, too
}

func hasKey(keys map[core.Digest]bool, name string) bool {
	var key core.Digest
	return key.UnmarshalText([]byte(name)) == nil && keys[key]
}

// removeLoose deletes loose entries.
func (l *Ledger) removeLoose(ctx context.Context, task string, keys map[core.Digest]bool) (int64, error) {
	folders := map[string]bool{}
	for key := range keys {
		folders[key.Short(2)] = true
	}
	var objects []string
	for folder := range folders {
		for info, err := range l.store.List(ctx, loosePrefix(task)+folder+"/", "") {
			if err != nil {
				return 0, err
			}
			if hasKey(keys, path.Base(info.Key)) {
				objects = append(objects, info.Key)
			}
		}
	}
	return int64(len(objects)), artifact.DeleteAll(ctx, l.store, objects)
}

// removePacked writes runs again in which drop finds a row, and deletes all that any merge took in: copies of what
// is to go may lie there. Keys are those that drop knows rows by; none: it knows them by something else.
func (l *Ledger) removePacked(
	ctx context.Context, task string, now time.Time, keys map[core.Digest]bool, drop func(timedRow) bool,
) (removed int64, err error) {
	listed, err := listPacks(ctx, l.store, task)
	if err != nil {
		return 0, err
	}
	t := l.packs.packsOf(task)
	for _, r := range runsOf(listed.files, t.isAside) {
		holds, err := l.holdsAny(ctx, r, keys)
		var bad *unreadable
		if err == nil && holds {
			count := int64(0)
			how := "remove/1"
			for row, rowErr := range r.streamRows(ctx, l.store) {
				if err = rowErr; err != nil {
					break
				}
				if drop(row) {
					count++
					how += " " + row.key
				}
			}
			if err == nil && count > 0 {
				err = l.rewriteRuns(ctx, task, how, []run{r}, now, drop)
				removed += count
			}
		}
		if errors.As(err, &bad) {
			return removed, fault.SegmentDamage.At("remove entries from", l.store.Location(bad.pack)).
				Because(bad.err).
				Advise("remove the file, whose content is unreadable, then repeat the purge")
		}
		if err != nil {
			return removed, err
		}
	}
	if listed, err = listPacks(ctx, l.store, task); err != nil {
		return removed, err
	}
	for _, done := range listed.merges {
		if _, err := l.sweepMerge(ctx, task, done, listed); err != nil {
			return removed, err
		}
	}
	t.close()
	return removed, nil
}

// holdsAny reports whether a run may hold one of the keys, by the filters of its packs.
func (l *Ledger) holdsAny(ctx context.Context, r run, keys map[core.Digest]bool) (bool, error) {
	if keys == nil {
		return true, nil
	}
	for _, file := range r.files {
		open, err := openPack(ctx, l.store, file)
		if err != nil {
			if artifact.IsDamage(err) {
				err = &unreadable{file.key, err}
			}
			return false, err
		}
		for key := range keys {
			if open.mayHold(key) && open.reader.Find(key.String()) >= 0 {
				return true, nil
			}
		}
		signalAlive(ctx, 0)
	}
	return false, nil
}

// close forgets what the process holds of the packs of a task: frames of those that are gone.
func (t *taskPacks) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listed, t.packs = time.Time{}, nil
	t.frames.Forget(nil)
}

// removeTexts takes texts out of the index and out of the answers that hold them. An answer is written again for the
// other texts that it holds, under the name that these give it, and is in the index before the former one goes.
func (l *Ledger) removeTexts(
	ctx context.Context, keys map[core.Digest]bool, now time.Time,
) (removed int64, err error) {
	if _, err := l.gatherMarks(ctx, now.Add(2*markGrace)); err != nil { // so that the index names all that there is
		return 0, err
	}
	objects := map[core.Digest]bool{}
	listed, err := listPacks(ctx, l.store, Texts)
	if err != nil {
		return 0, err
	}
	for _, r := range runsOf(listed.files, l.packs.packsOf(Texts).isAside) {
		holds, err := l.holdsAny(ctx, r, keys)
		if err != nil {
			return 0, err
		}
		if !holds {
			continue
		}
		for row, err := range r.streamRows(ctx, l.store) {
			if err != nil {
				return 0, err
			}
			if object, ok := decodeIndexed(row.value, false); ok && hasKey(keys, row.key) {
				objects[object] = true
			}
		}
	}
	if len(objects) == 0 {
		return 0, nil
	}
	var left []*answer
	var gone []string
	for object := range objects {
		raw, _, err := blob.Read(ctx, l.store, looseKey(Embed, object))
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return removed, err
		}
		gone = append(gone, looseKey(Embed, object), looseKey(Texts, object))
		texts, vectors := decodeAnswer(raw, object)
		var stay []core.Digest
		var with [][]float32
		for i, text := range texts {
			if keys[text] {
				removed++
				continue
			}
			stay, with = append(stay, text), append(with, vectors[i])
		}
		if len(stay) == 0 {
			continue
		}
		made := &answer{object: answerKey(stay), texts: stay}
		name := looseKey(Embed, made.object)
		_, err = blob.Write(ctx, l.store, name, sealEntry(name, encodeAnswer(stay, with)), blob.Cond{})
		if err != nil {
			return removed, err
		}
		left = append(left, made)
		signalAlive(ctx, 0)
	}
	if len(left) > 0 {
		if err := l.writeIndex(ctx, left); err != nil {
			return removed, err
		}
	}
	_, err = l.removePacked(ctx, Texts, now, nil, func(row timedRow) bool {
		object, ok := decodeIndexed(row.value, false)
		return hasKey(keys, row.key) || ok && objects[object]
	})
	if err != nil {
		return removed, err
	}
	for object := range objects {
		l.texts.excludeAnswer(object)
	}
	l.texts.forgetIndexed()
	slices.Sort(gone)
	return removed, artifact.DeleteAll(ctx, l.store, gone)
}

// forgetIndexed forgets every answer that the index holds.
func (x *textIndex) forgetIndexed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, old := range x.sealed {
		x.dropAnswer(old)
	}
	x.sealed = nil
	x.vectors, x.read, x.bytes = map[core.Digest][][]float32{}, nil, 0
}
