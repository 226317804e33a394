package ledger

import (
	"context"
	"encoding/binary"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/rowfile"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// relist is how old a listing of packs may be before a miss lists them again. Loose entries outlive the pack that took
// them in by LooseGrace, so a listing this old misses nothing.
const relist = 10 * time.Minute

// LooseGrace is how long a loose entry stays after a pack took it in.
const LooseGrace = 24 * time.Hour

// filterRow is the key of a pack's last row: the Bloom filter of its keys. It sorts after every hex digit.
const filterRow = "~filter"

type pack struct {
	r      *artifact.Reader
	filter []byte
	mu     sync.Mutex
	frame  int
	raw    []byte
}

type taskPacks struct {
	mu     sync.Mutex
	listed time.Time
	packs  map[string]*pack
}

type packs struct {
	mu     sync.Mutex
	byTask map[string]*taskPacks
}

func packPrefix(task string) string { return "ledger/" + task + "/packs/" }

func (p *packs) task(task string) *taskPacks {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.byTask[task]
	if t == nil {
		t = &taskPacks{packs: map[string]*pack{}}
		p.byTask[task] = t
	}
	return t
}

// get looks into the packs; again lists them anew when the listing is old.
func (p *packs) get(
	ctx context.Context,
	store blob.Store,
	task string,
	key corpus.Digest,
	again bool,
) ([]byte, error) {
	t := p.task(task)
	if again && !t.old() {
		return nil, nil
	}
	all, err := t.list(ctx, store, task)
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		if v, err := k.get(ctx, key); err != nil || v != nil {
			return v, err
		}
	}
	return nil, nil
}

func (t *taskPacks) old() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.listed) > relist
}

func (t *taskPacks) list(ctx context.Context, store blob.Store, task string) ([]*pack, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.listed) > relist {
		for in, err := range store.List(ctx, packPrefix(task), "") {
			if err != nil {
				return nil, err
			}
			if t.packs[in.Key] != nil || strings.HasSuffix(in.Key, ".swept") {
				continue
			}
			k, err := openPack(ctx, store, in.Key)
			if err != nil {
				return nil, err
			}
			t.packs[in.Key] = k
		}
		t.listed = time.Now()
	}
	out := make([]*pack, 0, len(t.packs))
	for _, k := range t.packs {
		out = append(out, k)
	}
	return out, nil
}

func openPack(ctx context.Context, s blob.Store, key string) (*pack, error) {
	reader, err := artifact.OpenRows(context.WithoutCancel(ctx), s, key)
	if err != nil {
		return nil, err
	}
	raw, err := reader.Get(ctx, filterRow)
	if err != nil {
		return nil, err
	}
	return &pack{r: reader, filter: append([]byte(nil), raw...), frame: -1}, nil
}

func (k *pack) get(ctx context.Context, key corpus.Digest) ([]byte, error) {
	if !bloomHas(k.filter, key) {
		return nil, nil
	}
	name := key.String()
	i := k.r.Find(name)
	if i < 0 {
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.frame != i { // callers sort their keys, so neighbours share frames
		raw, err := k.r.Frame(ctx, i)
		if err != nil {
			return nil, err
		}
		k.frame, k.raw = i, raw
	}
	return findRow(k.raw, name), nil
}

// Pack gathers the loose entries of keys into one pack. Keys without a positive loose entry are left out; fewer than
// two entries make no pack. Packing the same keys twice gives the same object.
func (l *Ledger) Pack(ctx context.Context, task string, keys []corpus.Digest) (int, error) {
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		names = append(names, k.String())
	}
	sort.Strings(names)
	rows, err := artifact.NewRows()
	if err != nil {
		return 0, err
	}
	defer rows.Discard()
	var packed []corpus.Digest
	last := ""
	for _, n := range names {
		if n == last {
			continue
		}
		last = n
		var digest corpus.Digest
		if err := digest.UnmarshalText([]byte(n)); err != nil {
			return 0, err
		}
		raw, _, err := blob.Read(ctx, l.store, looseKey(task, digest))
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return 0, err
		}
		rows.Append(n, raw)
		packed = append(packed, digest)
	}
	if len(packed) < 2 {
		return 0, nil
	}
	rows.Cut()
	rows.Append(filterRow, bloomMake(packed))
	sum := make([]string, len(packed))
	for i, d := range packed {
		sum[i] = d.String()
	}
	name := corpus.Sum(sum...).String()
	key := packPrefix(task) + name
	if _, err := l.store.Stat(ctx, key); err == nil {
		return len(packed), nil
	}
	return len(packed), rows.Scratch(ctx, l.store, key)
}

// Sweep deletes loose entries that a pack took in at least LooseGrace ago.
func (l *Ledger) Sweep(ctx context.Context, task string, now time.Time) (int, error) {
	var due []string
	done := map[string]bool{}
	for in, err := range l.store.List(ctx, packPrefix(task), "") {
		if err != nil {
			return 0, err
		}
		if name, ok := strings.CutSuffix(in.Key, ".swept"); ok {
			done[name] = true
		} else if now.Sub(in.Modified) > LooseGrace {
			due = append(due, in.Key)
		}
	}
	n := 0
	for _, key := range due {
		if done[key] {
			continue
		}
		for row, err := range artifact.ScanAll(ctx, l.store, key) {
			if err != nil {
				return n, err
			}
			if string(row.Key) == filterRow {
				continue
			}
			var digest corpus.Digest
			if err := digest.UnmarshalText(row.Key); err != nil {
				return n, err
			}
			if err := l.store.Delete(ctx, looseKey(task, digest)); err != nil {
				return n, err
			}
			n++
		}
		if _, err := blob.Write(ctx, l.store, key+".swept", nil, blob.Cond{}); err != nil {
			return n, err
		}
	}
	return n, nil
}

func findRow(raw []byte, name string) []byte {
	for {
		k, v, rest, ok := rowfile.NextRow(raw)
		if !ok || string(k) > name {
			return nil
		}
		if string(k) == name {
			return append([]byte(nil), v...)
		}
		raw = rest
	}
}

// The filter has 10 bits to a key and 7 probes: one look-up in a hundred reads a frame for nothing.
const (
	bloomBits   = 10
	bloomProbes = 7
)

func bloomMake(keys []corpus.Digest) []byte {
	raw := make([]byte, (len(keys)*bloomBits+7)/8+1)
	for _, k := range keys {
		for p := range bloomProbes {
			i := bloomAt(k, p, len(raw))
			raw[i/8] |= 1 << (i % 8)
		}
	}
	return raw
}

func bloomHas(raw []byte, digest corpus.Digest) bool {
	if len(raw) == 0 {
		return true
	}
	for p := range bloomProbes {
		if i := bloomAt(digest, p, len(raw)); raw[i/8]&(1<<(i%8)) == 0 {
			return false
		}
	}
	return true
}

// bloomAt takes probes from the digest itself: it is uniform already.
func bloomAt(k corpus.Digest, probe, size int) int {
	return int(uint64(binary.LittleEndian.Uint32(k[4*probe:])) % uint64(8*size))
}
