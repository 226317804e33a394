// Package powerloss_test plays a record of what the embedded stack wrote into fresh folders, cut at every sync, with
// what a disk may have lost: the stack must start on each, answer from what was published, and go on.
package powerloss_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/boltfile"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// everyCut makes the test look at each cut, and start the stack on many.
var everyCut = os.Getenv("UNWEAVER_TEST_EVERY_CUT") != ""

// transaction is how many records the transaction that is being written may hold: it is not acknowledged yet.
const transaction = 10

// replay walks through a recording and looks at the disk at its cuts.
type replay struct {
	t            *testing.T
	rec          *recording
	random       *rand.Rand
	kinds        map[string]*tally
	acked        int64 // of Temporal's records, by the last sync of its log
	cuts, failed int
}

// every says which cut of a kind is looked at where not each is.
var every = map[string]int{"engine.db": 20, "bolt files": 20, "data directory": 1, "artifacts, vectors, cache": 4}

type tally struct {
	took         time.Duration
	cuts, checks int
	lag          int64 // of Temporal's records, strict behind all
}

// model replays a recording and calls cut at every sync that returned.
func (r *recording) model(t *testing.T, cut func(d *disk, name string, file *node, at time.Time) error) *disk {
	d := newDisk(r.base)
	d.owner = processes{map[string]string{}, map[string]string{}}
	require.NoError(t, readFile(r.trace, d.owner))
	tmp := newFolder("tmp")
	d.top.names["tmp"], d.top.durable["tmp"] = tmp, tmp
	if cut != nil {
		d.cut = func(name string, file *node, at time.Time) error { return cut(d, name, file, at) }
	}
	require.NoError(t, readFile(r.trace, d))
	return d
}

// part returns what of a data directory a synced file belongs to.
func part(file *node, d *disk) string {
	switch {
	case strings.HasPrefix(file.name, "engine.db"):
		return "engine.db"
	case strings.HasPrefix(file.name, "classes.bolt"):
		return "bolt files"
	case file == d.top.names["data"]:
		return "data directory"
	}
	return "artifacts, vectors, cache"
}

// Every sync of two builds is a cut, and at each a disk may have kept what syncs cover, all, or something between.
// Promises: 55.
func TestNoLossOfPowerTakesBackWhatWasAcknowledged(t *testing.T) {
	longtest.Nightly(t)
	rec := record(t)
	t.Logf("recorded: the second build took %.1f s below strace", rec.seconds)
	begin := time.Now()
	same(t, rec, rec.model(t, nil))
	t.Logf("the record is what the disk holds: %.1f s", time.Since(begin).Seconds())
	run := &replay{t: t, rec: rec, random: rand.New(rand.NewPCG(2026, 11)), kinds: map[string]*tally{}}
	begin = time.Now()
	rec.model(t, run.stores)
	t.Logf("%d cuts, looked at in %.1f s", run.cuts, time.Since(begin).Seconds())
	for kind, n := range run.kinds {
		t.Logf("%-26s %5d cuts, %5d states checked in %.1f s, records behind at most %d",
			kind, n.cuts, n.checks, n.took.Seconds(), n.lag)
		assert.True(t, n.lag <= transaction,
			"%s: syncs cover %d records less than Temporal wrote, which is no single transaction", kind, n.lag)
	}
	assert.True(t, run.cuts >= 300 && run.kinds["artifacts, vectors, cache"].checks >= 60 &&
		run.kinds["engine.db"].checks >= 60, "the record has few cuts: %d", run.cuts)
	run.samples()
}

// same makes sure that the model is what the disk really holds at the end.
func same(t *testing.T, rec *recording, d *disk) {
	t.Helper()
	tree, n := left(d.top.names["data"], all, nil), 0
	err := filepath.WalkDir(filepath.Join(rec.base, "data"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "-shm") {
			return err
		}
		rel, err := filepath.Rel(filepath.Join(rec.base, "data"), path)
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		kept, ok := tree[rel]
		if n++; err == nil && (!ok || !bytes.Equal(kept.raw, raw)) {
			t.Errorf("%s: the record says %d bytes, the disk has %d others", rel, len(kept.raw), len(raw))
		}
		return err
	})
	assert.True(t, err == nil && n >= 40, "%d files, %v", n, err)
}

// stores looks at a cut at the level of the stores that the synced file belongs to.
func (r *replay) stores(d *disk, _ string, file *node, at time.Time) error {
	data := d.top.names["data"]
	if data == nil || r.failed > 20 {
		return nil
	}
	r.cuts++
	kind := part(file, d)
	n := r.kinds[kind]
	if n == nil {
		n = &tally{}
		r.kinds[kind] = n
	}
	n.cuts++
	if !everyCut && n.cuts%every[kind] != 0 {
		return nil
	}
	begin := time.Now()
	defer func() { n.took += time.Since(begin) }()
	var clocks [3]int64
	for _, v := range []variant{all, strict, scattered} {
		tree := left(d.top, v, r.random)
		folder, err := os.MkdirTemp(scratch(), "unweaver-cut-")
		if err != nil {
			return err
		}
		name := fmt.Sprintf("cut %d (%s of %s, %s)", r.cuts, kind, file.name, v)
		if kind == "engine.db" || kind == "data directory" || n.cuts%20 == 0 {
			clock, err := temporal(folder, tree)
			if clocks[v] = clock; err == nil && v == all && kind == "engine.db" {
				r.acked = max(r.acked, clock)
			}
			if err == nil && clock < r.acked {
				err = fmt.Errorf("Temporal had acknowledged %d records, %d are left", r.acked, clock)
			}
			r.check(name, err)
			n.lag = max(n.lag, clocks[all]-clock)
		}
		if kind == "bolt files" || kind == "data directory" || n.cuts%100 == 0 {
			r.check(name, bolts(folder, tree))
		}
		if kind != "engine.db" && kind != "bolt files" {
			r.check(name, whole(tree))
			r.check(name, r.published(tree, at))
		}
		n.checks++
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) check(name string, err error) {
	if err != nil {
		r.failed++
		r.t.Errorf("%s: %v", name, err)
	}
}

// temporal lets SQLite recover what is left of its file; it gives the number of records that Temporal has written.
func temporal(folder string, tree map[string]leaf) (int64, error) {
	if _, ok := tree["data/engine.version"]; !ok {
		return 0, nil // it was not complete: no client has seen it, and the next start makes it again
	}
	err := put(folder, tree, func(path string) bool { return strings.HasPrefix(path, "data/engine.db") })
	if err != nil {
		return 0, err
	}
	look := exec.Command("sqlite3", filepath.Join(folder, "data/engine.db"), "PRAGMA integrity_check; "+countRecords)
	if _, err := exec.LookPath("sqlite3"); err != nil { // the library of Python has SQLite, too, and takes longer
		look = exec.Command("python3", "-c", lookIntoSQLite, filepath.Join(folder, "data/engine.db"), countRecords)
	}
	raw, err := look.CombinedOutput()
	said := strings.Fields(string(raw))
	if err != nil || len(said) != 2 || said[0] != "ok" {
		return 0, fmt.Errorf("SQLite says %s: %w", raw, err)
	}
	return strconv.ParseInt(said[1], 10, 64)
}

const (
	countRecords = `SELECT (SELECT count(*) FROM history_node) +
		(SELECT coalesce(sum(db_record_version), 0) FROM executions)`
	lookIntoSQLite = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("PRAGMA integrity_check").fetchone()[0], db.execute(sys.argv[2]).fetchone()[0])
`
)

func bolts(folder string, tree map[string]leaf) error {
	for _, name := range []string{"data/classes.bolt", "data/classes.bolt.runs"} {
		if _, ok := tree[name]; !ok {
			continue
		}
		if err := put(folder, tree, func(path string) bool { return path == name }); err != nil {
			return err
		}
		db, err := boltfile.Open(filepath.Join(folder, name), false)
		if err != nil {
			return err
		}
		if err := db.Close(); err != nil {
			return err
		}
	}
	return nil
}

// whole reports whether each file that has its final name has its whole content.
func whole(tree map[string]leaf) error {
	for path, kept := range tree {
		folder, name := filepath.Split(strings.TrimPrefix(path, "data/"))
		store, _, _ := strings.Cut(folder, "/")
		switch {
		case name == ".lock": // what it says is for people; the lock is the system's
		case kept.node.folder || strings.Contains(folder, "/.tmp/") || strings.HasSuffix(name, ".tmp"):
		case store == "artifacts" || store == "vectors":
			if !bytes.Equal(kept.raw, kept.node.seen) {
				return fmt.Errorf("%s has %d of %d bytes", path, len(kept.raw), len(kept.node.seen))
			}
		case store == "cache" && !strings.HasPrefix(name, ".in-"):
			if sum := sha256.Sum256(kept.raw); hex.EncodeToString(sum[:]) != name {
				return fmt.Errorf("%s is torn", path)
			}
		}
	}
	return nil
}

// published reports whether the artifact store has its name and every segment of the generation that it must serve.
func (r *replay) published(tree map[string]leaf, at time.Time) error {
	store, ctx := blobmemory.New(), r.t.Context()
	for path, kept := range tree {
		key, ok := strings.CutPrefix(path, "data/artifacts/")
		if !ok || kept.node.folder || !strings.HasPrefix(key, "store.json") && !strings.HasPrefix(key, index+"/") {
			continue
		}
		if _, err := blob.Write(ctx, store, key, kept.raw, blob.Cond{}); err != nil {
			return err
		}
	}
	if _, ok := tree["data/artifacts/store.json"]; ok {
		if _, err := artifact.StoreID(ctx, store); err != nil {
			return err
		}
	}
	pointer, err := complete(store)
	if err == nil && at.After(r.rec.firstAt) && pointer != "g1" && pointer != "g2" ||
		err == nil && at.After(r.rec.secondAt) && pointer != "g2" {
		err = fmt.Errorf("%q is served", pointer)
	}
	return err
}

// complete reads every segment that the current generation names, and gives its name.
func complete(store blob.Store) (string, error) {
	ctx, x := context.Background(), artifact.Index{Store: store, Name: index}
	pointer, _, err := x.ReadPointer(ctx)
	if err != nil || pointer.Manifest == "" {
		return "", err
	}
	manifest, err := x.Manifest(ctx, pointer.Manifest)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(manifest.Segments)
	if err != nil {
		return "", err
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return "", err
	}
	named := segments(tree)
	if len(named) < 3 {
		return "", fmt.Errorf("the manifest names %d segments", len(named))
	}
	for _, sha := range named {
		raw, _, err := blob.Read(ctx, store, x.SegmentKey(sha))
		if sum := sha256.Sum256(raw); err == nil && hex.EncodeToString(sum[:]) != sha {
			err = errors.New("its content does not match")
		}
		if err != nil {
			return "", fmt.Errorf("segment %s of %s: %w", sha, pointer.Generation, err)
		}
	}
	return pointer.Generation, nil
}

func segments(value any) []string {
	var out []string
	switch value := value.(type) {
	case map[string]any:
		if sha, ok := value["sha256"].(string); ok && sha != "" {
			out = append(out, sha)
		}
		for _, below := range value {
			out = append(out, segments(below)...)
		}
	case []any:
		for _, below := range value {
			out = append(out, segments(below)...)
		}
	}
	return out
}

// scratch returns a folder in memory where there is some: what is written there need not be durable.
func scratch() string {
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

// samples starts the stack on what is left at some cuts of the second build.
func (r *replay) samples() {
	count := 8
	if everyCut {
		count = 60
	}
	number, during := 0, 0
	r.rec.model(r.t, func(_ *disk, _ string, _ *node, at time.Time) error {
		if at.After(r.rec.firstAt) && at.Before(r.rec.secondAt) {
			during++
		}
		return nil
	})
	variants, taken := []variant{strict, scattered, strict, all}, 0
	r.rec.model(r.t, func(d *disk, _ string, file *node, at time.Time) error {
		if !at.After(r.rec.firstAt) || !at.Before(r.rec.secondAt) {
			return nil
		}
		number++
		if number*count < (taken+1)*during-during/2 || taken == count {
			return nil
		}
		v := variants[taken%len(variants)]
		taken++
		tree := left(d.top, v, r.random)
		r.t.Run(fmt.Sprintf("the stack on cut %d of %d, %s", number, during, v), func(t *testing.T) {
			r.stack(t, tree, file.name, at)
		})
		return nil
	})
}

func (r *replay) stack(t *testing.T, tree map[string]leaf, synced string, at time.Time) {
	folder := t.TempDir()
	require.NoError(t, put(folder, tree, func(path string) bool { return strings.HasPrefix(path, "data/") }))
	r.rec.asked.take()
	begin, p := time.Now(), start(t, filepath.Join(folder, "data"))
	started := time.Since(begin)
	generations, err := p.control().ListGenerations(t.Context(), index)
	assert.True(t, err == nil && len(generations) != 0, "generations: %v, %v", generations, err)
	assert.NoError(t, p.answers())
	how := "went on"
	status, err := p.control().ReadStatus(t.Context(), index+"/g2")
	if err != nil { // it had not begun when the power went
		how = "was begun again"
		status = musttest.Get(p.build(r.rec.spec, "g2"))(t)
	} else if !core.IsTerminal(status.Status) {
		status = musttest.Get(p.ended(index + "/g2"))(t)
	}
	want := r.rec.second
	assert.True(t, status.Status == core.StatusCompleted && status.ContentHash == want.ContentHash &&
		status.TextHash == want.TextHash && status.VectorHash == want.VectorHash, "%s: hashes %s %s %s, want %s %s %s",
		status.Status, status.ContentHash, status.TextHash, status.VectorHash, want.ContentHash, want.TextHash,
		want.VectorHash)
	assert.NoError(t, p.answers())
	twice, paid := 0, 0
	for text := range r.rec.asked.take() {
		if answered, ok := r.rec.paid[text]; ok && answered.Before(at) && !strings.HasPrefix(text, "answer") {
			twice++
		}
	}
	for _, answered := range r.rec.paid {
		if answered.Before(at) {
			paid++
		}
	}
	t.Logf("synced %s, %.1f s in: started in %.1f s, the build %s, done after %.1f s; of %d answers %d were paid twice",
		synced, at.Sub(r.rec.firstAt).Seconds(), started.Seconds(), how, time.Since(begin).Seconds(), paid, twice)
	assert.True(t, twice <= flight, "%d answers were paid twice, %d were in flight at most", twice, flight)
	p.kill()
}
