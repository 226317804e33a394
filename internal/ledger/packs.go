package ledger

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// relist is how old a listing of packs may be before a look-up lists them again. Loose entries, and packs that were
// merged, outlive what took them in by LooseGrace, so a listing this old misses nothing.
const relist = 10 * time.Minute

// LooseGrace is how long a loose entry stays after a pack took it in, and a pack after a merge took it in.
const LooseGrace = 24 * time.Hour

// filterRow is the key of a pack's last row: the Bloom filter of its keys. It sorts after every hex digit.
const filterRow = "~filter"

// sweptMark ends the name of the object that says that a pack's loose entries are deleted.
const sweptMark = ".swept"

func packPrefix(task string) string   { return "ledger/" + task + "/packs/" }
func mergedPrefix(task string) string { return "ledger/" + task + "/merged/" }
func mergesPrefix(task string) string { return "ledger/" + task + "/merges/" }

// packFile is a listed pack.
type packFile struct {
	key         string
	run         string // of the merge that made it; its own key where it was not merged
	merged      bool   // its values follow their times
	first, last string // of the first bytes of its keys, in hex
	size        int64
	modified    time.Time
}

// merge is merges/<run>.json.
type merge struct {
	Inputs  []string  `json:"inputs"`
	Outputs []string  `json:"outputs"`
	At      time.Time `json:"at"`
	name    string
}

// listing is what the store holds of a task's packs. Those that a merge took in are not among files.
type listing struct {
	files  []packFile // by key: a look-up takes the first that holds a key, a merge the newest
	swept  map[string]bool
	merges []merge // the oldest first
}

// listPacks reads merges before packs: a reader that sees that a pack was taken in must see what took it in.
func listPacks(ctx context.Context, store blob.Store, task string) (listing, error) {
	out := listing{swept: map[string]bool{}}
	taken := map[string]bool{}
	for info, err := range store.List(ctx, mergesPrefix(task), "") {
		if err != nil {
			return out, err
		}
		done := merge{name: info.Key}
		if _, err := blob.ReadJSON(ctx, store, info.Key, &done); err != nil {
			if artifact.IsDamage(err) {
				continue // its inputs count again, which is no harm
			}
			return out, err
		}
		for _, key := range done.Inputs {
			taken[key] = true
		}
		out.merges = append(out.merges, done)
	}
	slices.SortFunc(out.merges, func(a, b merge) int { return a.At.Compare(b.At) })
	for _, prefix := range []string{mergedPrefix(task), packPrefix(task)} { // in the order of keys
		for info, err := range store.List(ctx, prefix, "") {
			if err != nil {
				return out, err
			}
			if pack, ok := strings.CutSuffix(info.Key, sweptMark); ok {
				out.swept[pack] = true
			} else if !taken[info.Key] {
				out.files = append(out.files, packOf(info, prefix == mergedPrefix(task)))
			}
		}
	}
	return out, nil
}

func packOf(info blob.Info, merged bool) packFile {
	file := packFile{
		key: info.Key, run: info.Key, merged: merged, first: "00", last: "ff", size: info.Size, modified: info.Modified,
	}
	if parts := strings.Split(path.Base(info.Key), "-"); merged && len(parts) == 3 {
		file.run, file.first, file.last = parts[0], parts[1], parts[2]
	}
	return file
}

// pack is an open pack.
type pack struct {
	packFile
	reader   *artifact.Reader
	filter   []byte
	from, to byte // first bytes of its keys: first and last
}

// keptFrames bounds the unpacked frames of packs that a process remembers, in bytes of a task. A shard that is looked
// up again finds its pack in there, whatever the order of its chunks.
const keptFrames = 32 << 20

// taskPacks are the open packs of a task.
type taskPacks struct {
	mu     sync.Mutex
	listed time.Time
	packs  []*pack         // by key
	aside  map[string]bool // packs that could not be read
	frames *artifact.Frames
}

type packs struct {
	mu     sync.Mutex
	byTask map[string]*taskPacks
}

func (p *packs) packsOf(task string) *taskPacks {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.byTask[task]
	if t == nil {
		t = &taskPacks{aside: map[string]bool{}, frames: artifact.NewFrames(keptFrames)}
		p.byTask[task] = t
	}
	return t
}

func (t *taskPacks) isOld() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.listed) > relist
}

// forgetList makes the next look-up list the packs again.
func (t *taskPacks) forgetList() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listed = time.Time{}
}

// countRuns counts those of the open packs.
func (t *taskPacks) countRuns() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := make(map[string]bool, len(t.packs))
	for _, p := range t.packs {
		names[p.run] = true
	}
	return len(names)
}

// findPacked looks a key up in the packs. One that cannot be read is set aside, and the look-up goes on without it.
func (l *Ledger) findPacked(ctx context.Context, task string, key core.Digest) ([]byte, error) {
	t := l.packs.packsOf(task)
	open, err := l.openPacks(ctx, t, task)
	if err != nil {
		return nil, err
	}
	for _, p := range open {
		value, err := p.get(ctx, t.frames, key)
		if err != nil && artifact.IsDamage(err) {
			l.setAside(ctx, t, p.key, err)
			if fault.Is(err, fault.NotFound) { // it was written again, and what took its place is to be looked at before paying
				t.forgetList()
			}
			continue
		}
		if err != nil || value != nil {
			return value, err
		}
	}
	return nil, nil
}

// setAside leaves a pack out for the life of the process.
func (l *Ledger) setAside(ctx context.Context, t *taskPacks, key string, err error) {
	t.mu.Lock()
	known := t.aside[key]
	t.aside[key] = true
	t.packs = slices.DeleteFunc(slices.Clone(t.packs), func(p *pack) bool { return p.key == key })
	t.mu.Unlock()
	if !known && fault.Is(err, fault.SegmentDamage) {
		l.reportDamage(ctx, key, err)
	}
}

func (t *taskPacks) isAside(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.aside[key]
}

// openWidth is how many packs are opened at once.
const openWidth = 16

// openPacks gives the packs of a task, listing them where the last listing is old. Others wait for it.
func (l *Ledger) openPacks(ctx context.Context, t *taskPacks, task string) ([]*pack, error) {
	t.mu.Lock()
	if time.Since(t.listed) <= relist {
		defer t.mu.Unlock()
		return t.packs, nil
	}
	defer t.mu.Unlock()
	listed, err := listPacks(ctx, l.store, task)
	if err != nil {
		return nil, err
	}
	known := map[string]*pack{}
	for _, p := range t.packs {
		known[p.key] = p
	}
	opened := make([]*pack, len(listed.files))
	failed := make([]error, len(listed.files))
	err = parallel.Each(ctx, len(listed.files), openWidth, func(ctx context.Context, i int) error {
		file := listed.files[i]
		if opened[i] = known[file.key]; opened[i] != nil || t.aside[file.key] {
			return nil
		}
		var err error
		opened[i], err = openPack(ctx, l.store, file)
		if err != nil && artifact.IsDamage(err) {
			failed[i] = err
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, err := range failed {
		if fault.Is(err, fault.SegmentDamage) { // one that went meanwhile was merged
			t.aside[listed.files[i].key] = true
			l.reportDamage(ctx, listed.files[i].key, err)
		}
	}
	t.packs = slices.DeleteFunc(opened, func(p *pack) bool { return p == nil })
	t.listed = time.Now()
	return t.packs, nil
}

func openPack(ctx context.Context, store blob.Store, file packFile) (*pack, error) {
	reader, err := artifact.OpenRows(ctx, store, file.key)
	if err != nil {
		return nil, err
	}
	raw, err := reader.Get(ctx, filterRow)
	if err != nil {
		return nil, err
	}
	opened := &pack{packFile: file, reader: reader, filter: slices.Clone(raw), to: 0xff}
	first, errFirst := hex.DecodeString(file.first)
	last, errLast := hex.DecodeString(file.last)
	if errFirst == nil && errLast == nil && len(first) == 1 && len(last) == 1 {
		opened.from, opened.to = first[0], last[0]
	}
	return opened, nil
}

func (p *pack) get(ctx context.Context, through *artifact.Frames, key core.Digest) ([]byte, error) {
	name := key.String()
	if !p.mayHold(key) {
		return nil, nil
	}
	i := p.reader.Find(name)
	if i < 0 {
		return nil, nil
	}
	raw, err := through.Read(ctx, p.reader, i)
	if err != nil {
		return nil, err
	}
	value := slices.Clone(rowfile.FindRow(raw, name))
	if value == nil || !p.merged {
		return value, nil
	}
	_, value, err = splitTime(value)
	return value, err
}

func writeMerge(ctx context.Context, store blob.Store, task, run string, done merge) error {
	raw, err := json.Marshal(done)
	if err != nil {
		return fault.Internal.At("encode merge", run).Because(err)
	}
	_, err = blob.Write(ctx, store, mergesPrefix(task)+run+".json", raw, blob.Cond{})
	return err
}
