package ledger_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
)

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

// What was paid for is held while there is no room or no answer, and stored when there is.
func TestAPaidResultIsHeldUntilItCanBeStored(t *testing.T) {
	for _, code := range []fault.Code{fault.StoreFull, fault.StoreDown} {
		synctest.Test(t, func(t *testing.T) {
			store := artifacttest.New()
			var tried atomic.Int64
			store.Fail = func(op artifacttest.Op, key string) error {
				if op != artifacttest.Put || tried.Add(1) > 5 {
					return nil
				}
				return code.At("write", key)
			}
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
			store.Fail = func(op artifacttest.Op, key string) error {
				if op == artifacttest.Put && away.Load() {
					return code.At("write", key)
				}
				return nil
			}
			var paid atomic.Int64 // by whichever process
			pay := func(context.Context) (ledger.Result, error) {
				paid.Add(1)
				return ledger.Result{Value: []byte("v")}, nil
			}
			mine := ledger.New(store, shared)
			began := time.Now()
			_, _, err := mine.Do(t.Context(), ledger.Extract, key(1), 0, pay)
			assert.True(t, fault.Is(err, code) && time.Since(began) <= longest, "%s: %v after %v", code, err, time.Since(began))
			err = mine.FindTrouble()
			assert.True(t, fault.Is(err, code), "%s: the trouble is %v", code, err)
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

// What can never be stored is an error at once.
func TestAResultThatCanNeverBeStoredIsAnErrorAtOnce(t *testing.T) {
	store := artifacttest.New()
	store.Fail = func(op artifacttest.Op, key string) error {
		if op == artifacttest.Put {
			return fault.StoreOwned.At("write", key)
		}
		return nil
	}
	mine := ledger.New(store, newClaims())
	_, err := mine.Put(t.Context(), ledger.Extract, key(1), 0, ledger.Result{Value: []byte("v")})
	assert.True(t, fault.Is(err, fault.StoreOwned) && mine.FindTrouble() == nil, "%v, held: %v", err, mine.FindTrouble())
}

func TestAProcessThatEndsWaitsForWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := artifacttest.New()
		var full atomic.Bool
		full.Store(true)
		store.Fail = func(op artifacttest.Op, key string) error {
			if op == artifacttest.Put && full.Load() {
				return fault.StoreFull.At("write", key)
			}
			return nil
		}
		mine := ledger.New(store, newClaims())
		_, err := mine.Put(t.Context(), ledger.Extract, key(1), 0, ledger.Result{Value: []byte("v")})
		require.True(t, fault.Is(err, fault.StoreFull), "%v", err)
		short, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		err = mine.Drain(short)
		assert.True(t, fault.Is(err, fault.StoreFull), "it got %v", err)
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
			if _, err := b.Put(t.Context(), task, key(1), 0,
				ledger.Result{Value: []byte("damaged"), Negative: negative}); err != nil {
				t.Fatal(err)
			}
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
			assert.True(t, paid == 1 && slices.Equal(named.all(), []string{"memory/" + object}),
				"%s: paid %d times, named %v", task, paid, named.all())
		}
	}
}

// A caller that waits for another's payment can be asked to stop.
func TestWaitingForAClaimEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newClaims()
		if _, err := shared.Claim(t.Context(), "ledger:extract:"+key(1).String(), "another", time.Hour); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		_, _, err := ledger.New(artifacttest.New(), shared).Do(ctx, ledger.Extract, key(1), 0, nil)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
