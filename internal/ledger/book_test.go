package ledger_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
)

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

// day returns when the n-th day of a test begins.
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

// reopen opens the ledger again, as another process sees it.
func (b *book) reopen() { b.Ledger = ledger.New(b.store, newClaims()) }

func value(i int) string { return fmt.Sprint("value ", i) }

// pay stores entries from..to as one shard does, and packs them.
func (b *book) pay(t *testing.T, task string, from, to int) {
	var keys []core.Digest
	for i := from; i < to; i++ {
		must(b.Put(t.Context(), task, key(i), 0, ledger.Result{Value: []byte(value(i))}))
		keys = append(keys, key(i))
	}
	require.Equal(t, to-from, must(b.Pack(t.Context(), task, keys)))
}

// want checks which of the entries below n a fresh process finds.
func (b *book) want(t *testing.T, task string, n int, has func(i int) bool) {
	b.reopen()
	for i := range n {
		e := must(b.Get(t.Context(), task, key(i), 0))
		require.True(t, (e != nil) == has(i) && (e == nil || string(e.Value) == value(i)),
			"entry %d: %v, want it: %v", i, e, has(i))
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

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
