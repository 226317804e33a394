package pipeline_test

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/store/blob"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// bill counts what models in memory were asked for, and what of it twice.
type bill struct {
	mu    sync.Mutex
	paid  map[string]int
	twice int
}

func (b *bill) pay(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paid[text]++; b.paid[text] > 1 {
		b.twice++
	}
}

// answer answers a call as a good model does; it takes its time.
func (b *bill) answer(call model.Call) (model.Reply, error) {
	b.pay(call.System + call.User)
	time.Sleep(50 * time.Millisecond)
	content := any(map[string]any{"entities": builtin.FindEntities(call.Input)})
	if call.Task == model.Shorten {
		content = map[string]string{"description": builtin.Summarize(call.Input, 200)}
	}
	raw, err := json.Marshal(content)
	return model.Reply{Text: string(raw), Usage: model.Usage{Prompt: 10, Completion: 10}}, err
}

// fillingSite returns a site whose artifact store refuses the writes that refuse names, with models in memory.
func fillingSite(t *testing.T, refuse func(key string) error) (*site, *bill) {
	s, owed := newSite(t, sample(6)), &bill{paid: map[string]int{}}
	s.spec.Shortening.Threshold = 300
	s.spec.Embedding.Classes, s.spec.Embedding.Dimension = "model", 8
	one := &process{put: refuse}
	s.Artifacts = processBlobs{s.Artifacts, one}
	s.Coordination = processRuns{s.Coordination, one, coordmemory.NewClaims()}
	s.Ledger = ledger.New(s.Artifacts, s.Coordination)
	s.Models = func(_ core.Spec, meter model.Meter) (model.Set, error) {
		embedder := model.MeterEmbedder(&stagetest.Embedder{Dim: 8, Before: func(texts []string) error {
			for _, text := range texts {
				owed.pay("embed " + text)
			}
			return nil
		}}, meter)
		chat := model.MeterChat(&stagetest.Chat{Answer: owed.answer}, meter)
		return model.Set{Chat: chat, Classes: embedder, Chunks: embedder}, nil
	}
	return s, owed
}

// built does the stages of a run, and again as a person resumes it, until it is done; halted receives each error, and
// may resume it itself.
func built(t *testing.T, s *site, halted func(err error, resume func() error)) {
	job, holder := s.leased(t)
	collects := false
	run := func() error {
		if collects {
			return s.collect(t.Context(), job, holder)
		}
		out, err := s.stages(t.Context(), job, holder)
		collects = out.collects
		return err
	}
	for err := run(); err != nil; err = run() {
		halted(err, run)
	}
}

// The disk fills, or the store goes away, at every write in turn: the run halts with that name, in the process where
// something paid for is held; when it is mended the same index comes out, and nothing was paid for twice.
// Promises: 64.
func TestAStoreThatFailsAtEveryWriteInTurnCostsNothing(t *testing.T) {
	var count atomic.Int64
	var want core.Hashes
	synctest.Test(t, func(t *testing.T) {
		undisturbed, _ := fillingSite(t, func(string) error { count.Add(1); return nil })
		built(t, undisturbed, func(err error, _ func() error) { t.Fatal(err) })
		want = hashesOf(t, undisturbed)
	})
	writes, step := count.Load(), int64(longtest.Count(10, 1))
	for _, code := range []fault.Code{fault.StoreFull, fault.StoreDown} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			held := 0
			for at := int64(3); at <= writes; at += step { // configuration and lease are there before the run
				synctest.Test(t, func(t *testing.T) { // they wait more than they work
					if failsAt(t, code, at, want) {
						held++
					}
				})
				if t.Failed() {
					return
				}
			}
			assert.True(t, held != 0, "%s: nothing was ever held", code)
			t.Logf("%s at each of %d writes: something paid for was held %d times", code, (writes-2)/step, held)
		})
	}
}

// failsAt has a build's writes fail from one on until the run is resumed, and says whether anything paid for was held.
func failsAt(t *testing.T, code fault.Code, at int64, want core.Hashes) (held bool) {
	t.Helper()
	var count atomic.Int64
	var mended atomic.Bool
	s, owed := fillingSite(t, func(key string) error {
		if count.Add(1) >= at && !mended.Load() {
			return code.At("write", key)
		}
		return nil
	})
	s.Ledger.Patience = 30 * time.Millisecond
	halts := 0
	built(t, s, func(err error, resume func() error) {
		if halts++; !fault.Is(err, code) || halts > 1 {
			t.Fatalf("%s at write %d: halt %d is %v", code, at, halts, err)
		}
		defer mended.Store(true)
		if s.Ledger.FindTrouble() == nil {
			return
		}
		held = true
		if shown := s.ListProblems("docs/g001"); len(shown) != 1 || shown[0].Code != string(code) {
			t.Errorf("%s at write %d: the process shows %+v", code, at, shown)
		}
		paid := owed.sum()
		again := resume()
		assert.True(t, fault.Is(again, code) && owed.sum() == paid,
			"%s at write %d: resumed while nothing can be stored: %v, paid %d more", code, at, again, owed.sum()-paid)
	})
	if got := hashesOf(t, s); got != want || owed.twice != 0 || len(s.ListProblems("docs/g001")) != 0 {
		t.Errorf("%s at write %d: same hashes %v, paid twice %d, still %v", code, at, got == want, owed.twice,
			s.ListProblems("docs/g001"))
	}
	return held
}

func (b *bill) sum() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.paid) + b.twice
}

// hashesOf returns the hashes of the published generation.
func hashesOf(t *testing.T, s *site) core.Hashes {
	current, _ := must2(s.index().ReadPointer(context.Background()))(t)
	manifest := must(s.index().Manifest(context.Background(), current.Manifest))(t)
	return manifest.Hashes
}

// A chunk that the server refused while it served others is a failure of that night; the next asks again, although
// nothing changed in the corpus.
func TestARefusedChunkIsAskedForAgainByTheNextNight(t *testing.T) {
	s, owed := fillingSite(t, func(string) error { return nil })
	refusing := true
	s.Models = func(_ core.Spec, meter model.Meter) (model.Set, error) {
		chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
			if refusing && call.Task == model.Extract && strings.Contains(call.Input, "Port Alma 3 was") {
				return model.Reply{}, fault.ModelRefused.At("call chat model", "m").Because("451 not this one")
			}
			return owed.answer(call)
		}}
		return model.Set{Chat: model.MeterChat(chat, meter), Classes: builtin.Embedder{}, Chunks: builtin.Embedder{}}, nil
	}
	s.spec.Embedding = core.EmbedModel{Provider: "builtin"}
	first := s.night(t)
	require.True(t, first.published.Status == core.StatusErrors && first.manifest.Counts.DeadLetters == 1 &&
		first.manifest.Counts.Refused == 1, "%+v, %+v", first.published, first.manifest.Counts)
	refusing = false
	next := s.night(t)
	assert.True(t, !next.planned.Unchanged && next.published.Status == core.StatusCompleted &&
		next.manifest.Counts.DeadLetters == 0, "the next night: %+v, %+v", next.planned, next.published)
	last := s.night(t)
	assert.True(t, last.planned.Unchanged, "and the one after: %+v", last.planned)
}

// throttled is a store that takes few requests a second for a while, and answers 503 SlowDown to the others, as a
// bucket does that is asked too much. Every kind of request counts.
type throttled struct {
	blob.Store
	mu            sync.Mutex
	from, until   time.Time
	second        time.Time // that is counted
	taken         int       // in it
	served, asked int       // while it lasts
}

const throttledTo = 20 // requests a second

func (s *throttled) admit(verb, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.from) || !now.Before(s.until) {
		return nil
	}
	s.asked++
	if now.Sub(s.second) >= time.Second {
		s.second, s.taken = now, 0
	}
	if s.taken >= throttledTo {
		return fault.StoreDown.At(verb, key).Because("503 SlowDown: please reduce your request rate")
	}
	s.taken++
	s.served++
	return nil
}

func (s *throttled) refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked - s.served
}

// begin throttles from now on, if it has not begun.
func (s *throttled) begin(lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from.IsZero() {
		s.from, s.until = time.Now(), time.Now().Add(lasts)
	}
}

func (s *throttled) Put(ctx context.Context, key string, body io.Reader, n int64, c blob.Cond) (blob.Info, error) {
	if err := s.admit("write", key); err != nil {
		return blob.Info{}, err
	}
	return s.Store.Put(ctx, key, body, n, c)
}

func (s *throttled) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	if err := s.admit("read", key); err != nil {
		return nil, blob.Info{}, err
	}
	return s.Store.Get(ctx, key, part)
}

func (s *throttled) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := s.admit("stat", key); err != nil {
		return blob.Info{}, err
	}
	return s.Store.Stat(ctx, key)
}

func (s *throttled) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return s.ListRange(ctx, prefix, after, "")
}

func (s *throttled) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	if err := s.admit("list", prefix); err != nil {
		return func(yield func(blob.Info, error) bool) { yield(blob.Info{}, err) }
	}
	return s.Store.ListRange(ctx, prefix, after, until)
}

func (s *throttled) DeleteAll(ctx context.Context, keys []string) error {
	if err := s.admit("delete", ""); err != nil {
		return err
	}
	return s.Store.DeleteAll(ctx, keys)
}

func (s *throttled) Delete(ctx context.Context, key string) error {
	return s.DeleteAll(ctx, []string{key})
}

// A store throttles for minutes from the middle of a stage on: what is tried again every half a minute, as by an engine
// that waits for an outage, comes to the same index without a person, and nothing is lost or paid for twice.
func TestAStoreThatThrottlesForMinutesCostsTimeAlone(t *testing.T) {
	undisturbed, _ := fillingSite(t, func(string) error { return nil })
	undisturbed.write(t, sample(60))
	built(t, undisturbed, func(err error, _ func() error) { t.Fatal(err) })
	want := hashesOf(t, undisturbed)
	for _, stage := range []string{"chunk", "extract", "embed", "load", "publish"} {
		t.Run(stage, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testThrottled(t, stage, want) }) })
	}
}

func testThrottled(t *testing.T, stage string, want core.Hashes) {
	const lasts, wait = 4 * time.Minute, 30 * time.Second
	s, owed := fillingSite(t, func(string) error { return nil })
	s.write(t, sample(60))
	s.width = 8
	store := &throttled{Store: s.Artifacts}
	s.Artifacts = store
	s.Ledger = ledger.New(s.Artifacts, s.Coordination)
	var units atomic.Int64
	s.before = func(now string) {
		if now == stage && (units.Add(1) == 2 || stage == "publish") {
			store.begin(lasts)
		}
	}
	begun, halts := time.Now(), 0
	built(t, s, func(err error, _ func() error) {
		if halts++; !fault.Is(err, fault.StoreDown) || halts > 100 {
			t.Fatalf("halt %d: %v", halts, err)
		}
		time.Sleep(wait)
	})
	took, refused := time.Since(begun), store.refused()
	t.Logf("%d requests were refused, the build halted %d times and took %s", refused, halts, took)
	assert.True(t, refused != 0 && halts != 0, "%d requests were refused, and the build halted %d times", refused, halts)
	assert.True(t, took <= lasts+2*time.Minute, "it took %s of a store that throttles for %s", took, lasts)
	if err := s.Ledger.Drain(t.Context()); err != nil || s.Ledger.FindTrouble() != nil {
		t.Errorf("something is still held: %v, %v", err, s.Ledger.FindTrouble())
	}
	got := hashesOf(t, s)
	assert.True(t, got == want && owed.twice == 0, "same hashes %v, paid for twice: %d", got == want, owed.twice)
}

// The text of documents is in almost everything that a build writes: only the owner can read any of it, whatever the
// umask of the process is.
func TestNothingThatABuildWritesIsReadableForOthers(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	s := newPaidSite(t, 4, calm)
	data := s.onDisk(t)
	s.night(t)
	s.write(t, map[string]string{"place-001.md": "# New\n\nThe harbour of Port Selm was built by Carla Ruiz.\n"})
	s.night(t)
	seen := 0
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		seen++
		assert.True(t, path == data || info.Mode().Perm()&0o077 == 0, "%s %s", info.Mode(), path)
		return nil
	})
	assert.True(t, err == nil && seen >= 30, "%d files, %v", seen, err)
}
