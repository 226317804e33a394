package ledger_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/artifact/artifacttest"
)

// A call that the model has admitted goes on when its worker is told to stop. Nobody else may pay for its key
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
			if _, _, err := ledger.New(store, shared).Do(ctx, ledger.Extract, key(1), 0, slow); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Second)
		stop()
		e, fresh, err := ledger.New(store, shared).Do(t.Context(), ledger.Extract, key(1), 0, slow)
		if err != nil || fresh || string(e.Value) != "first" {
			t.Errorf("the other caller got %v, paid %v, %v", e, fresh, err)
		}
		if paid.Load() != 1 {
			t.Errorf("paid %d times", paid.Load())
		}
	})
}

// What was paid for is held while there is no room or no answer, and stored when there is.
func TestAPaidResultIsHeldUntilItCanBeStored(t *testing.T) {
	for _, code := range []fault.Code{fault.StoreFull, fault.StoreDown} {
		synctest.Test(t, func(t *testing.T) {
			store := artifacttest.New()
			left := 5
			store.Fail = func(op artifacttest.Op, key string) error {
				if op != artifacttest.Put || left == 0 {
					return nil
				}
				left--
				return code.At("write", key)
			}
			ctx, stop := context.WithCancel(t.Context())
			e, paid, err := ledger.New(store, newClaims()).
				Do(ctx, ledger.Extract, key(1), 0, func(context.Context) (ledger.Result, error) {
					stop()
					return ledger.Result{Value: []byte("v")}, nil
				})
			if err != nil || !paid || string(e.Value) != "v" {
				t.Errorf("%s: %v %v %v", code, e, paid, err)
			}
			if e, err = ledger.New(store, newClaims()).Get(t.Context(), ledger.Extract, key(1), 0); err != nil ||
				e == nil {
				t.Errorf("%s: it was lost: %v", code, err)
			}
		})
	}
}

func TestAResultThatCanNeverBeStoredIsAnErrorAtOnceOrInTheEnd(t *testing.T) {
	for code, longest := range map[fault.Code]time.Duration{fault.StoreDenied: 0, fault.StoreFull: 6 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			store := artifacttest.New()
			store.Fail = func(op artifacttest.Op, key string) error {
				if op == artifacttest.Put {
					return code.At("write", key)
				}
				return nil
			}
			began := time.Now()
			_, err := ledger.New(store, newClaims()).
				Put(t.Context(), ledger.Extract, key(1), 0, ledger.Result{Value: []byte("v")})
			if !fault.Is(err, code) || time.Since(began) > longest {
				t.Errorf("%s: %v after %v", code, err, time.Since(began))
			}
		})
	}
}

// A caller that waits for another's payment can be told to stop.
func TestWaitingForAClaimEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newClaims()
		if _, err := shared.Claim(t.Context(), "ledger:extract:"+key(1).String(), "another", time.Hour); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		_, _, err := ledger.New(artifacttest.New(), shared).Do(ctx, ledger.Extract, key(1), 0, nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
