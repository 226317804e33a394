package ledger

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	streams "github.com/unweaver/unweaver/internal/stream/merge"
)

// A run is a pack that is not merged, or the packs of one merge, which share no first byte: a look-up reads at most one
// of its packs. With more than maxRuns the smallest are merged, so that keptRuns are left beside the new one, and with
// them every run that is no larger than what is merged already: an entry is rewritten about as often as the ledger
// doubles.
const (
	maxRuns  = 8
	keptRuns = 4
	maxFanIn = 64 // runs that one merge reads at once
)

// mostRuns are those of the index that a build goes on with before some are merged while it runs.
var mostRuns = maxFanIn

// A merged pack is cut at the next first byte once it holds this much.
var (
	mergedBytes   = 128 << 20
	mergedEntries = 400_000
)

type run struct {
	name  string
	files []packFile
	size  int64
}

func runsOf(files []packFile, aside func(string) bool) []run {
	byName := map[string]*run{}
	var names []string
	for _, file := range files {
		if aside(file.key) {
			continue
		}
		r := byName[file.run]
		if r == nil {
			r = &run{name: file.run}
			byName[file.run] = r
			names = append(names, file.run)
		}
		r.files = append(r.files, file)
		r.size += file.size
	}
	out := make([]run, len(names))
	for i, name := range names {
		out[i] = *byName[name]
	}
	slices.SortFunc(out, func(a, b run) int {
		if a.size != b.size {
			return int(min(max(a.size-b.size, -1), 1))
		}
		return strings.Compare(a.name, b.name)
	})
	return out
}

// chooseRuns gives the runs that a merge takes in, none where there are few enough.
func chooseRuns(runs []run) []run {
	if len(runs) <= maxRuns {
		return nil
	}
	n := min(len(runs)-keptRuns, maxFanIn)
	total := int64(0)
	for _, r := range runs[:n] {
		total += r.size
	}
	for n < min(len(runs), maxFanIn) && runs[n].size <= total {
		total += runs[n].size
		n++
	}
	return runs[:n]
}

// Merge merges packs until a look-up reads few, and gives how many it took in. It may be repeated, and ended at any
// point: what was merged counts until a record says what took it in.
func (l *Ledger) Merge(ctx context.Context, task string, now time.Time) (int64, error) {
	t := l.packs.packsOf(task)
	total := int64(0)
	for {
		listed, err := listPacks(ctx, l.store, task)
		if err != nil {
			return total, err
		}
		inputs := chooseRuns(runsOf(listed.files, t.isAside))
		if inputs == nil {
			return total, nil
		}
		err = l.rewriteRuns(ctx, task, "merge/1", inputs, now, nil)
		var bad *unreadable
		if errors.As(err, &bad) {
			l.setAside(ctx, t, bad.pack, bad.err)
			continue
		}
		if err != nil {
			return total, err
		}
		total += int64(len(inputs))
	}
}

// unreadable names the pack that ended a rewrite.
type unreadable struct {
	pack string
	err  error
}

func (u *unreadable) Error() string { return u.err.Error() }
func (u *unreadable) Unwrap() error { return u.err }

// timedRow is an entry of a pack with the time it is as old as.
type timedRow struct {
	key   string
	time  time.Time
	value []byte
}

// stampBytes precede the values of merged packs: seconds since 1970, big endian.
const stampBytes = 8

func addTime(at time.Time, value []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, stampBytes+len(value)), uint64(at.Unix())), value...)
}

func splitTime(raw []byte) (time.Time, []byte, error) {
	if len(raw) < stampBytes {
		return time.Time{}, nil, fault.SegmentDamage.At("read ledger entry", "").Because("it has no time")
	}
	return time.Unix(int64(binary.BigEndian.Uint64(raw)), 0).UTC(), raw[stampBytes:], nil
}

// streamRows streams the entries of a run by key.
func (r run) streamRows(ctx context.Context, store blob.Store) iter.Seq2[timedRow, error] {
	return func(yield func(timedRow, error) bool) {
		count := int64(0)
		for _, file := range r.files { // keys sort by range
			for row, err := range artifact.ScanAll(ctx, store, file.key) {
				out := timedRow{key: string(row.Key), time: file.modified, value: row.Value}
				signalAlive(ctx, count)
				count++
				if err == nil && out.key == filterRow {
					continue
				}
				if err == nil && file.merged {
					out.time, out.value, err = splitTime(row.Value)
				}
				if err != nil && artifact.IsDamage(err) {
					err = &unreadable{file.key, err}
				}
				if !yield(out, err) || err != nil {
					return
				}
			}
		}
	}
}

// mergeRows streams the entries of runs by key. Of equal keys the newest counts: what is paid for again was lost where
// the older one leads.
func mergeRows(ctx context.Context, store blob.Store, runs []run) iter.Seq2[timedRow, error] {
	sources := make([]iter.Seq2[timedRow, error], len(runs))
	for i, r := range runs {
		sources[i] = r.streamRows(ctx, store)
	}
	newest := func(a, b timedRow) int { return cmp.Or(strings.Compare(a.key, b.key), b.time.Compare(a.time)) }
	return func(yield func(timedRow, error) bool) {
		last := ""
		for row, err := range streams.MergeStreams(ctx, newest, sources...) {
			if err == nil && row.key == last {
				continue
			}
			last = row.key
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// rewriteRuns makes one run of several, without the entries that drop names, and records it. The name of the new run
// says what it was made from, so that a repetition writes the same objects.
func (l *Ledger) rewriteRuns(
	ctx context.Context, task, how string, inputs []run, now time.Time, drop func(timedRow) bool,
) error {
	done := merge{At: now.UTC(), Outputs: []string{}}
	for _, r := range inputs {
		for _, file := range r.files {
			done.Inputs = append(done.Inputs, file.key)
		}
	}
	slices.Sort(done.Inputs)
	w := &packWriter{
		ctx:    ctx,
		store:  l.store,
		prefix: mergedPrefix(task) + core.Sum(append([]string{how}, done.Inputs...)...).Short(32),
		bits:   bloomBits,
	}
	if task == Texts {
		w.bits = indexBits
	}
	defer w.discardPack()
	slices.SortFunc(inputs, func(a, b run) int { return strings.Compare(a.files[0].key, b.files[0].key) })
	for row, err := range mergeRows(ctx, l.store, inputs) {
		if err != nil {
			return err
		}
		if drop != nil && drop(row) {
			continue
		}
		if err := w.addRow(row); err != nil {
			return err
		}
	}
	if err := w.flushPack(); err != nil {
		return err
	}
	done.Outputs = append(done.Outputs, w.written...)
	name := w.prefix[strings.LastIndexByte(w.prefix, '/')+1:]
	if err := writeMerge(ctx, l.store, task, name, done); err != nil {
		return err
	}
	l.packs.packsOf(task).forgetList()
	return nil
}

// packWriter writes the packs of one run.
type packWriter struct {
	ctx     context.Context //nolint:containedctx // it lives for one rewrite
	store   blob.Store
	prefix  string
	bits    int // of the filter, to a key
	rows    *artifact.Rows
	keys    []core.Digest
	size    int
	written []string
}

func (w *packWriter) addRow(row timedRow) error {
	var key core.Digest
	if err := key.UnmarshalText([]byte(row.key)); err != nil {
		return fault.SegmentDamage.At("read ledger entry", row.key).Because(err)
	}
	full := w.size >= mergedBytes || len(w.keys) >= mergedEntries
	if full && key[0] != w.keys[len(w.keys)-1][0] {
		if err := w.flushPack(); err != nil {
			return err
		}
	}
	if w.rows == nil {
		rows, err := artifact.NewRows()
		if err != nil {
			return err
		}
		w.rows = rows
	}
	w.rows.Append(row.key, addTime(row.time, row.value))
	w.keys = append(w.keys, key)
	w.size += len(row.key) + len(row.value)
	return nil
}

// flushPack ends the pack that is being written.
func (w *packWriter) flushPack() error {
	if w.rows == nil {
		return nil
	}
	w.rows.Cut()
	w.rows.Append(filterRow, bloomOf(w.keys, w.bits))
	object := w.prefix + "-" + w.keys[0].Short(2) + "-" + w.keys[len(w.keys)-1].Short(2)
	if err := w.rows.StoreScratch(w.ctx, w.store, object); err != nil {
		return err
	}
	w.written = append(w.written, object)
	w.discardPack()
	return nil
}

func (w *packWriter) discardPack() {
	if w.rows != nil {
		w.rows.Discard()
	}
	w.rows, w.keys, w.size = nil, w.keys[:0], 0
}
