// Package classestest is the conformance suite of the classes port; every adapter passes it.
package classestest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/classes"
	"github.com/unweaver/unweaver/internal/store/records"
)

// Run proves the contract of a store; open gives an empty one each time.
func Run(t *testing.T, open func(t *testing.T) classes.Store) {
	t.Run(
		"records are read back in the order of their keys, twice written or not",
		func(t *testing.T) { written(t, open(t)) },
	)
	t.Run("a scan gives each key with the prefix at least once", func(t *testing.T) { scan(t, open(t)) })
	t.Run(
		"one of many claimants has a claim until it is released or expires",
		func(t *testing.T) { claims(t, open(t)) },
	)
	t.Run("limits hold and refill", func(t *testing.T) { limits(t, open(t)) })
	t.Run("progress, state and control belong to a run", func(t *testing.T) { runs(t, open(t)) })
	t.Run("leases end", func(t *testing.T) { leases(t, open(t)) })
	t.Run("the mirror keeps the higher epoch", func(t *testing.T) { mirror(t, open(t)) })
	t.Run("another owner is refused", func(t *testing.T) { owner(t, open(t)) })
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func some(n int) []records.Record {
	rs := make([]records.Record, n)
	for i := range rs {
		rs[i] = records.Record{Key: fmt.Sprintf("ab:c:i:%05d", i), Value: []byte(fmt.Sprint("value ", i))}
	}
	return rs
}

func written(t *testing.T, store classes.Store) {
	rs := some(4500)
	for range 2 {
		ok(t, store.PutRecords(t.Context(), rs))
	}
	ok(t, store.PutRecords(t.Context(), nil))
	got, err := store.GetRecords(t.Context(), []string{rs[4321].Key, "ab:c:i:absent", rs[7].Key})
	ok(t, err)
	if string(got[0]) != "value 4321" || got[1] != nil || string(got[2]) != "value 7" {
		t.Errorf("got %q", got)
	}
	ok(t, store.DeleteRecords(t.Context(), []string{rs[7].Key, "ab:c:i:absent"}))
	got, err = store.GetRecords(t.Context(), []string{rs[7].Key})
	ok(t, err)
	if got[0] != nil {
		t.Error("a deleted record is still there")
	}
}

func scan(t *testing.T, store classes.Store) {
	rs := some(4500)
	ok(t, store.PutRecords(t.Context(), rs))
	ok(t, store.PutRecords(t.Context(), []records.Record{{Key: "zz:c:other:1", Value: []byte("x")}}))
	seen := map[string]bool{}
	ok(t, store.ScanRecords(t.Context(), "ab:c:i:", func(keys []string) error {
		for _, k := range keys {
			seen[k] = true
		}
		return nil
	}))
	if len(seen) != len(rs) || seen["zz:c:other:1"] {
		t.Errorf("saw %d of %d keys", len(seen), len(rs))
	}
}

func claims(t *testing.T, store classes.Store) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := ""
	n := 0
	for i := range 20 {
		wg.Go(func() {
			me := fmt.Sprint("owner-", i)
			got, err := store.Claim(t.Context(), "k", me, time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if got {
				won = me
				n++
			}
		})
	}
	wg.Wait()
	if n != 1 {
		t.Fatalf("%d owners", n)
	}
	if got, err := store.Claim(t.Context(), "k", won, time.Minute); err != nil || !got {
		t.Errorf("the owner cannot renew: %v %v", got, err)
	}
	ok(t, store.Release(t.Context(), "k", "someone else"))
	if got, _ := store.Claim(t.Context(), "k", "next", time.Minute); got {
		t.Error("a claim was taken from its owner")
	}
	ok(t, store.Release(t.Context(), "k", won))
	if got, _ := store.Claim(t.Context(), "k", "next", 50*time.Millisecond); !got {
		t.Error("a released claim cannot be taken")
	}
	for range 100 {
		if got, _ := store.Claim(t.Context(), "k", "last", time.Minute); got {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("an expired claim cannot be taken")
}

func limits(t *testing.T, store classes.Store) {
	ask := func(ep string, req, tok, rpm, tpm int) time.Duration {
		r, err := store.Reserve(t.Context(), ep, req, tok, rpm, tpm)
		ok(t, err)
		return r.Wait
	}
	for range 60 {
		if w := ask("a", 1, 10, 60, 0); w != 0 {
			t.Fatalf("refused within the limit: wait %s", w)
		}
	}
	if w := ask("a", 1, 10, 60, 0); w <= 0 || w > 2*time.Second {
		t.Errorf("over 60 a minute: wait %s, want about a second", w)
	}
	if w := ask("b", 1, 10, 60, 0); w != 0 {
		t.Errorf("another endpoint waits %s", w)
	}
	if w := ask("c", 1, 900, 0, 1000); w != 0 {
		t.Errorf("tokens within the limit wait %s", w)
	}
	if w := ask("c", 1, 900, 0, 1000); w <= 0 {
		t.Error("tokens over the limit do not wait")
	}
	ok(t, store.Settle(t.Context(), "c", -850))
	if w := ask("c", 1, 900, 0, 1000); w != 0 {
		t.Errorf("after settling for less: wait %s", w)
	}
	if w := ask("d", 1, 5000, 0, 1000); w != 0 {
		t.Errorf("a request larger than a window must go alone, not wait for ever: %s", w)
	}
}

func runs(t *testing.T, store classes.Store) {
	ctx := t.Context()
	for range 2 {
		ok(t, store.SetProgress(ctx, "i/g", "a/1", []byte("1")))
	}
	ok(t, store.SetProgress(ctx, "i/g", "a/2", []byte("2")))
	ok(t, store.SetProgress(ctx, "i/g2", "a/1", []byte("other")))
	ok(t, store.SetState(ctx, "i/g", []byte("state")))
	ok(t, store.SetControl(ctx, "i/g", []byte("control")))
	p, err := store.Progress(ctx, "i/g")
	ok(t, err)
	if len(p) != 2 || string(p["a/1"]) != "1" || string(p["a/2"]) != "2" {
		t.Errorf("progress %q", p)
	}
	ok(t, store.ForgetRun(ctx, "i/g"))
	if p, _ = store.Progress(ctx, "i/g"); len(p) != 0 {
		t.Errorf("progress after forgetting %q", p)
	}
	if p, _ = store.Progress(ctx, "i/g2"); len(p) != 1 {
		t.Errorf("another run lost its progress: %q", p)
	}
	if c, _ := store.Control(ctx, "i/g"); c != nil {
		t.Errorf("control after forgetting %q", c)
	}
	if st, _ := store.State(ctx, "i/g"); string(st) != "state" {
		t.Errorf("state %q", st)
	}
	if st, err := store.State(ctx, "unknown"); st != nil || err != nil {
		t.Errorf("state of an unknown run: %q %v", st, err)
	}
}

func leases(t *testing.T, store classes.Store) {
	ok(t, store.Lease(t.Context(), "i", "g1", "r1", time.Minute))
	ok(t, store.Lease(t.Context(), "i", "g2", "r1", 20*time.Millisecond))
	ok(t, store.Lease(t.Context(), "j", "g3", "r1", time.Minute))
	time.Sleep(50 * time.Millisecond)
	l, err := store.Leased(t.Context(), "i")
	ok(t, err)
	if !l["g1"] || l["g2"] || l["g3"] {
		t.Errorf("leased %v", l)
	}
}

func mirror(t *testing.T, store classes.Store) {
	if v, err := store.Mirrored(t.Context(), "i"); v != nil || err != nil {
		t.Errorf("nothing mirrored: %q %v", v, err)
	}
	ok(t, store.Mirror(t.Context(), "i", 2, []byte("two")))
	ok(t, store.Mirror(t.Context(), "i", 1, []byte("one")))
	if v, _ := store.Mirrored(t.Context(), "i"); string(v) != "two" {
		t.Errorf("mirrored %q", v)
	}
	ok(t, store.Mirror(t.Context(), "i", 3, []byte("three")))
	if v, _ := store.Mirrored(t.Context(), "i"); string(v) != "three" {
		t.Errorf("mirrored %q", v)
	}
}

func owner(t *testing.T, store classes.Store) {
	a, b := "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdee"
	for range 2 {
		ok(t, store.Own(t.Context(), a))
	}
	if err := store.Own(t.Context(), b); !fault.Is(err, fault.StoreOwned) {
		t.Errorf("another owner: %v", err)
	}
	x, err := store.Identity(t.Context())
	ok(t, err)
	if y, _ := store.Identity(t.Context()); x == "" || x != y {
		t.Errorf("identity %q, then %q", x, y)
	}
}
