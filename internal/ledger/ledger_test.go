package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/bolt"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func stores(t *testing.T) (blob.Store, *bolt.Store) {
	store := musttest.Get(dir.Open(t.TempDir()))(t)
	c := musttest.Get(bolt.Open(filepath.Join(t.TempDir(), "c")))(t)
	t.Cleanup(func() { _ = c.Close() })
	return store, c
}

func key(i int) core.Digest {
	return ledger.Key(ledger.Extract, "p", "m", "", "s", fmt.Sprint("input ", i))
}

// Promises: 2.
func TestEqualKeysInFlightArePaidOnce(t *testing.T) {
	store, c := stores(t)
	var paid atomic.Int64
	var wg sync.WaitGroup
	for w := range 4 { // four workers, each with a ledger of its own
		l := ledger.New(store, c)
		for range 8 {
			wg.Go(func() {
				entry, _, err := l.Do(
					t.Context(),
					ledger.Extract,
					key(1),
					0,
					func(context.Context) (ledger.Result, error) {
						paid.Add(1)
						time.Sleep(20 * time.Millisecond)
						return ledger.Result{Value: []byte(fmt.Sprint("by ", w))}, nil
					},
				)
				assert.True(t, err == nil && len(entry.Value) != 0, "%v %v", entry, err)
			})
		}
	}
	wg.Wait()
	assert.Equal(t, int64(1), paid.Load(), "paid")
}

func TestAFailedPaymentStoresNothingAndGivesItsClaimBack(t *testing.T) {
	store, c := stores(t)
	l := ledger.New(store, c)
	boom := errors.New("boom")
	fails := func(context.Context) (ledger.Result, error) { return ledger.Result{}, boom }
	_, _, err := l.Do(t.Context(), ledger.Extract, key(1), 0, fails)
	require.ErrorIs(t, err, boom)
	pays := func(context.Context) (ledger.Result, error) { return ledger.Result{Value: []byte("v")}, nil }
	e, paid, err := ledger.New(store, c).Do(t.Context(), ledger.Extract, key(1), 0, pays)
	assert.True(t, err == nil && paid && string(e.Value) == "v", "%v %v %v", e, paid, err)
}

func TestALoserAdoptsTheFirstEntry(t *testing.T) {
	s, c := stores(t)
	l := ledger.New(s, c)
	for _, v := range []string{"first", "second"} {
		e, err := l.Put(t.Context(), ledger.Extract, key(1), 0, ledger.Result{Value: []byte(v)})
		assert.True(t, err == nil && string(e.Value) == "first", "%s: %v %v", v, e, err)
	}
}

// A call that the model has admitted goes on when its worker is asked to stop. No other call may pay for its key
// meanwhile, however long it takes.
func TestAClaimLastsAsLongAsItsCallWhateverBecomesOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, shared := artifacttest.New(), newClaims()
		var paid atomic.Int64
		slow := func(context.Context) (ledger.Result, error) {
			paid.Add(1)
			time.Sleep(2 * time.Minute)
			return ledger.Result{Value: []byte("first")}, nil
		}
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			_, _, err := ledger.New(store, shared).Do(ctx, ledger.Extract, key(1), 0, slow)
			assert.NoError(t, err)
		}()
		time.Sleep(time.Second)
		stop()
		e, fresh, err := ledger.New(store, shared).Do(t.Context(), ledger.Extract, key(1), 0, slow)
		assert.True(t, err == nil && !fresh && string(e.Value) == "first",
			"the other caller got %v, paid %v, %v", e, fresh, err)
		assert.Equal(t, int64(1), paid.Load(), "paid")
	})
}

func TestAPaidResultIsHeldUntilItCanBeStored(t *testing.T) {
	for _, code := range []fault.Code{fault.StoreFull, fault.StoreDown} {
		synctest.Test(t, func(t *testing.T) {
			store := artifacttest.New()
			var tried atomic.Int64
			failPuts(store, code, func() bool { return tried.Add(1) <= 5 })
			ctx, stop := context.WithCancel(t.Context())
			e, paid, err := ledger.New(store, newClaims()).
				Do(ctx, ledger.Extract, key(1), 0, func(context.Context) (ledger.Result, error) {
					stop()
					return ledger.Result{Value: []byte("v")}, nil
				})
			assert.True(t, err == nil && paid && string(e.Value) == "v", "%s: %v %v %v", code, e, paid, err)
			e, err = ledger.New(store, newClaims()).Get(t.Context(), ledger.Extract, key(1), 0)
			assert.True(t, err == nil && e != nil, "%s: it was lost: %v", code, err)
		})
	}
}

// Its caller hears why it cannot be stored, at once or after a while, and the result is stored all the same when it can
// be: also after hours, and it is not paid for again meanwhile.
func TestWhatCouldNotBeStoredIsHeldAndStoredWhenItCanBe(t *testing.T) {
	for code, longest := range map[fault.Code]time.Duration{
		fault.StoreDenied: 0, fault.StoreFull: 20 * time.Second, fault.StoreDown: 6 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			store, shared := artifacttest.New(), newClaims()
			var away atomic.Bool
			away.Store(true)
			failPuts(store, code, away.Load)
			var paid atomic.Int64 // by whichever process
			pay := func(context.Context) (ledger.Result, error) {
				paid.Add(1)
				return ledger.Result{Value: []byte("v")}, nil
			}
			mine := ledger.New(store, shared)
			began := time.Now()
			_, _, err := mine.Do(t.Context(), ledger.Extract, key(1), 0, pay)
			assert.True(t, fault.Is(err, code) && time.Since(began) <= longest, "%s: %v after %v", code, err, time.Since(began))
			musttest.Code(t, mine.FindTrouble(), code, "%s: the trouble", code)
			began = time.Now()
			if err := mine.AwaitReady(t.Context()); !fault.Is(err, code) || time.Since(began) > 10*time.Second {
				t.Errorf("%s: ready says %v after %v", code, err, time.Since(began))
			}
			_, _, err = mine.Do(t.Context(), ledger.Extract, key(1), 0, pay)
			assert.True(t, fault.Is(err, code), "%s: a second look says %v", code, err)
			other := make(chan bool, 1)
			go func() { // another process waits for its claim, however long that takes
				_, fresh, err := ledger.New(store, shared).Do(t.Context(), ledger.Extract, key(1), 0, pay)
				other <- err == nil && !fresh
			}()
			time.Sleep(3 * time.Hour)
			away.Store(false)
			e, fresh, err := mine.Do(t.Context(), ledger.Extract, key(1), 0, pay)
			assert.True(t, err == nil && !fresh && string(e.Value) == "v" && <-other && paid.Load() == 1,
				"%s: %v %v %v, paid %d times", code, e, fresh, err, paid.Load())
			err = mine.AwaitReady(t.Context())
			assert.True(t, err == nil && mine.FindTrouble() == nil && mine.Drain(t.Context()) == nil, "%s: still %v", code, err)
		})
	}
}

func TestAResultThatCanNeverBeStoredIsAnErrorAtOnce(t *testing.T) {
	store := artifacttest.New()
	failPuts(store, fault.StoreOwned, func() bool { return true })
	mine := ledger.New(store, newClaims())
	_, err := mine.Put(t.Context(), ledger.Extract, key(1), 0, ledger.Result{Value: []byte("v")})
	assert.True(t, fault.Is(err, fault.StoreOwned) && mine.FindTrouble() == nil, "%v, held: %v", err, mine.FindTrouble())
}

func TestAProcessThatEndsWaitsForWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := artifacttest.New()
		var full atomic.Bool
		full.Store(true)
		failPuts(store, fault.StoreFull, full.Load)
		mine := ledger.New(store, newClaims())
		_, err := mine.Put(t.Context(), ledger.Extract, key(1), 0, ledger.Result{Value: []byte("v")})
		require.True(t, fault.Is(err, fault.StoreFull), "%v", err)
		short, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		musttest.Code(t, mine.Drain(short), fault.StoreFull)
		time.AfterFunc(time.Minute, func() { full.Store(false) })
		err = mine.Drain(t.Context())
		assert.True(t, err == nil && len(store.Keys("ledger/extract/loose/")) == 1, "%v, stored %v", err, store.Keys(""))
	})
}

// A loose entry has no checksum: its reader says whether it can be used.
func TestALooseEntryThatCannotBeUsedIsRemovedToldAndPaidForAgain(t *testing.T) {
	for _, task := range ledger.Tasks() {
		for _, negative := range []bool{false, true} {
			b := newBook(t)
			musttest.Get(b.Put(t.Context(), task, key(1), 0, ledger.Result{Value: []byte("damaged"), Negative: negative}))(t)
			object := b.store.Keys("ledger/" + task + "/loose/")[0]
			var named names
			b.OnDamage = named.add
			accept := func(e ledger.Entry) error {
				if string(e.Value) == "damaged" {
					return fault.SegmentDamage.At("read ledger entry", "it").Because("it is damaged")
				}
				return nil
			}
			paid := 0
			for range 2 {
				e, _, err := b.DoAccepting(t.Context(), task, key(1), 0, accept,
					func(context.Context) (ledger.Result, error) {
						paid++
						return ledger.Result{Value: []byte("whole"), Negative: negative}, nil
					})
				require.True(t, err == nil && string(e.Value) == "whole" && e.Negative == negative, "%s: %v %v", task, e, err)
			}
			assert.True(t, paid == 1 && slices.Equal(named.all(), []string{"memory:" + object}),
				"%s: paid %d times, named %v", task, paid, named.all())
		}
	}
}

// A caller that waits for another's payment can be asked to stop.
func TestWaitingForAClaimEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newClaims()
		musttest.Get(shared.Claim(t.Context(), "ledger:extract:"+key(1).String(), "another", time.Hour))(t)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		_, _, err := ledger.New(artifacttest.New(), shared).Do(ctx, ledger.Extract, key(1), 0, nil)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func pays(paid *int, result ledger.Result) func(context.Context) (ledger.Result, error) {
	return func(context.Context) (ledger.Result, error) { *paid++; return result, nil }
}

func TestAMissCostsOneLookAndItsResultOneWrite(t *testing.T) {
	near := blobmemory.New()
	requests := distance.New(0)
	l := ledger.New(distance.Blob(near, requests), newClaims())
	paid := 0
	for i := range 101 {
		if i == 1 {
			requests.Take() // what a process asks once
		}
		result := ledger.Result{Value: []byte("v"), Negative: i%2 == 0}
		musttest.Get2(l.Do(t.Context(), ledger.Extract, key(i), 0, pays(&paid, result)))(t)
	}
	if counted := requests.Take(); paid != 101 || counted.Of("", distance.Get) != 100 || counted.Of("") != 200 {
		t.Errorf("paid %d times\n%s", paid, counted)
	}
	next := ledger.New(distance.Blob(near, requests), newClaims())
	for i := range 101 {
		entry, _, err := next.Do(t.Context(), ledger.Extract, key(i), 0, pays(&paid, ledger.Result{}))
		require.True(t, err == nil && entry.Negative == (i%2 == 0) && string(entry.Value) == "v", "%v %v %v", i, entry, err)
	}
	assert.True(t, paid == 101, "%d were paid for again", paid-101)
}

func TestALaterRoundTakesThePlaceOfANegativeEntryAndNoEarlierOneDoes(t *testing.T) {
	near := blobmemory.New()
	l := ledger.New(near, newClaims())
	put := func(attempt int, result ledger.Result, want string) {
		musttest.Get(l.Put(t.Context(), ledger.Extract, key(1), attempt, result))(t)
		entry, err := ledger.New(near, newClaims()).Get(t.Context(), ledger.Extract, key(1), 0)
		assert.True(t, err == nil && entry != nil && string(entry.Value) == want, "%v %v, want %s", entry, err, want)
	}
	put(1, ledger.Result{Value: []byte("one"), Negative: true}, "one")
	put(0, ledger.Result{Value: []byte("none"), Negative: true}, "one")
	put(2, ledger.Result{Value: []byte("two"), Negative: true}, "two")
	entry, err := l.Get(t.Context(), ledger.Extract, key(1), 3)
	assert.True(t, entry == nil && err == nil, "the third round got %v %v", entry, err)
	put(0, ledger.Result{Value: []byte("good")}, "good")
	put(3, ledger.Result{Value: []byte("bad"), Negative: true}, "good")
	put(3, ledger.Result{Value: []byte("better")}, "good")
}

// claims are those of one process, in memory, by the clock of the test.
type claims struct {
	coordination.Claims
	mu    sync.Mutex
	owner map[string]string
	until map[string]time.Time
}

func newClaims() *claims { return &claims{owner: map[string]string{}, until: map[string]time.Time{}} }

func (c *claims) Claim(ctx context.Context, key, owner string, ttl time.Duration) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner[key] != owner && c.until[key].After(time.Now()) {
		return false, nil
	}
	c.owner[key], c.until[key] = owner, time.Now().Add(ttl)
	return true, nil
}

func (c *claims) Release(ctx context.Context, key, owner string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner[key] == owner {
		delete(c.owner, key)
		delete(c.until, key)
	}
	return nil
}

func (c *claims) ClaimAll(ctx context.Context, keys []string, owner string, ttl time.Duration) ([]bool, error) {
	got := make([]bool, len(keys))
	for i, key := range keys {
		var err error
		if got[i], err = c.Claim(ctx, key, owner, ttl); err != nil {
			return nil, err
		}
	}
	return got, nil
}

func (c *claims) ReleaseAll(ctx context.Context, keys []string, owner string) error {
	for _, key := range keys {
		if err := c.Release(ctx, key, owner); err != nil {
			return err
		}
	}
	return nil
}

func day(n int) time.Time { return time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC).AddDate(0, 0, n) }

// book is a ledger over a memory store whose clock the test sets.
type book struct {
	*ledger.Ledger
	store *artifacttest.Memory
	now   time.Time
}

func newBook(t *testing.T) *book {
	b := &book{store: artifacttest.New(), now: day(0)}
	b.store.Now = func() time.Time { return b.now }
	b.reopen()
	return b
}

// paidBook returns a book in which some keys of a task are paid.
func paidBook(t *testing.T, task string, from, to int) *book {
	b := newBook(t)
	b.pay(t, task, from, to)
	return b
}

func (b *book) reopen() { b.Ledger = ledger.New(b.store, newClaims()) }

func value(i int) string { return fmt.Sprint("value ", i) }

// pay stores entries from..to as one shard does, and packs them.
func (b *book) pay(t *testing.T, task string, from, to int) {
	var keys []core.Digest
	for i := from; i < to; i++ {
		musttest.Get(b.Put(t.Context(), task, key(i), 0, ledger.Result{Value: []byte(value(i))}))(t)
		keys = append(keys, key(i))
	}
	require.Equal(t, to-from, musttest.Get(b.Pack(t.Context(), task, keys))(t))
}

// payShards pays for shards from..to, of so many entries each.
func (b *book) payShards(t *testing.T, task string, from, to, each int) {
	for shard := from; shard < to; shard++ {
		b.pay(t, task, each*shard, each*(shard+1))
	}
}

// want checks which of the entries below n a fresh process finds.
func (b *book) want(t *testing.T, task string, n int, has func(i int) bool) {
	b.reopen()
	for i := range n {
		e := musttest.Get(b.Get(t.Context(), task, key(i), 0))(t)
		require.True(t, (e != nil) == has(i) && (e == nil || string(e.Value) == value(i)), "%d, %v, %v", i, e, has(i))
	}
}

func all(int) bool { return true }

// names are the objects that a ledger was asked to be damaged, from whichever goroutine.
type names struct {
	mu    sync.Mutex
	named []string
}

func (n *names) add(object string, _ error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.named = append(n.named, object)
}

func (n *names) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.named)
}

func listing(keys ...core.Digest) iter.Seq2[core.Digest, error] {
	return func(yield func(core.Digest, error) bool) {
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
	}
}

func (b *book) upkeep(t *testing.T, task string, listed iter.Seq2[core.Digest, error]) ledger.Kept {
	b.reopen()
	kept, err := b.RunUpkeep(t.Context(), task, listed, b.now)
	require.True(t, err == nil && !kept.Busy, "%v %v", kept, err)
	return kept
}

// failPuts has the writes of a store fail as long as asked says so.
func failPuts(store *artifacttest.Memory, code fault.Code, asked func() bool) {
	store.Fail = func(op artifacttest.Op, key string) error {
		if op == artifacttest.Put && asked() {
			return code.At("write", key)
		}
		return nil
	}
}
