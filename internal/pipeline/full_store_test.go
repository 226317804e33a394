package pipeline_test

import (
	"context"
	"encoding/json"
	"io/fs"
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
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
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
	s.Artifacts = artifacttest.Around{Store: s.Artifacts, Do: one.do}
	s.Coordination = processRuns{runs{s.Coordination}, coordmemory.NewClaims(), one}
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
		halts++
		require.True(t, fault.Is(err, code) && halts <= 1, "%s at write %d: halt %d is %v", code, at, halts, err)
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

// A store takes twenty requests a second for minutes from the middle of a stage on, and answers 503 SlowDown to the
// others, as a bucket does that is asked too much: what is tried again every half a minute, as by an engine that waits
// for an outage, comes to the same index without a person, and nothing is lost or paid for twice.
func TestAStoreThatThrottlesForMinutesCostsTimeAlone(t *testing.T) {
	const lasts, wait = 4 * time.Minute, 30 * time.Second
	undisturbed, _ := fillingSite(t, func(string) error { return nil })
	undisturbed.write(t, sample(60))
	built(t, undisturbed, func(err error, _ func() error) { t.Fatal(err) })
	want := hashesOf(t, undisturbed)
	test := func(t *testing.T, stage string) {
		var mu sync.Mutex
		var began, second time.Time
		var taken, refused, units, halts int
		admit := func(key string) error {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			if began.IsZero() || now.Sub(began) >= lasts {
				return nil
			}
			if now.Sub(second) >= time.Second {
				second, taken = now, 0
			}
			if taken++; taken <= 20 {
				return nil
			}
			refused++
			return fault.StoreDown.At("ask for", key).Because("503 SlowDown: please reduce your request rate")
		}
		s, owed := fillingSite(t, admit)
		s.Coordination.(processRuns).get = admit
		s.write(t, sample(60))
		s.width = 8
		s.before = func(now string) {
			mu.Lock()
			defer mu.Unlock()
			if now == stage {
				units++
			}
			if began.IsZero() && (units == 2 || units == 1 && stage == "publish") {
				began = time.Now()
			}
		}
		built(t, s, func(err error, _ func() error) {
			halts++
			require.True(t, fault.Is(err, fault.StoreDown) && halts <= 100, "halt %d: %v", halts, err)
			time.Sleep(wait)
		})
		took := time.Since(began)
		assert.True(t, refused != 0 && halts != 0, "%d requests were refused, and the build halted %d times", refused, halts)
		assert.LessOrEqual(t, took, lasts+2*time.Minute)
		require.NoError(t, s.Ledger.Drain(t.Context()))
		assert.Nil(t, s.Ledger.FindTrouble(), "something is still held")
		assert.Equal(t, want, hashesOf(t, s))
		assert.Zero(t, owed.twice, "paid for twice")
	}
	for _, stage := range []string{"chunk", "extract", "embed", "load", "publish"} {
		t.Run(stage, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, stage) }) })
	}
}

// The text of documents is in almost everything that a build writes: only the owner can read any of it, whatever the
// umask of the process is.
// Promises: 137.
func TestNothingThatABuildWritesIsReadableForOthers(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	s := newPaidSite(t, 4, calm)
	data := s.onDisk(t)
	s.night(t)
	s.buildFiles(t, map[string]string{"place-001.md": "# New\n\nThe harbour of Port Selm was built by Carla Ruiz.\n"})
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
