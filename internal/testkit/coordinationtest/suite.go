// Package coordinationtest is the conformance suite of the coordination port; every adapter passes it.
package coordinationtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// Run proves the contract of a store; open gives an empty one each time.
func Run(t *testing.T, open func(t *testing.T) coordination.Store) {
	for name, prove := range map[string]func(*testing.T, coordination.Store){
		"one of many claimants has a claim until it is released or expires": claims,
		"many claims at once are each as one":                               manyClaims,
		"limits hold and refill":                                            limits,
		"many reservations at once stay within the limit":                   crowd,
		"progress, state and control belong to a run":                       runs,
		"a problem stays until it is over":                                  problems,
		"accounts are absolute, and add up over workers":                    accounts,
		"spending enters the control record and all accounts":               spend,
		"of many who spend at once none is lost":                            spenders,
		"a run that is forgotten keeps its state alone":                     forget,
		"an index that is forgotten leaves nothing, and others all":         forgetIndex,
		"leases end":                                   leases,
		"the mirror keeps what was written last":       mirror,
		"a member that beats lives for a while":        fleet,
		"shares follow what is wanted and held":        shares,
		"shares of many are those of the arithmetic":   shareOfMany,
		"of many who want shares at once none is lost": sharers,
		"a quota is never passed, and settled once":    quotas,
		"of many the last places of a quota go once":   quotaRace,
	} {
		t.Run(name, func(t *testing.T) { prove(t, open(t)) })
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}

func claims(t *testing.T, store coordination.Store) {
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
			assert.NoError(t, err)
			if got {
				won = me
				n++
			}
		})
	}
	wg.Wait()
	require.True(t, n == 1, "%d owners", n)
	if got, err := store.Claim(t.Context(), "k", won, time.Minute); err != nil || !got {
		t.Errorf("the owner cannot renew: %v %v", got, err)
	}
	ok(t, store.Release(t.Context(), "k", "someone else"))
	assert.False(t, musttest.Get(store.Claim(t.Context(), "k", "next", time.Minute))(t),
		"a claim was taken from its owner")
	ok(t, store.Release(t.Context(), "k", won))
	assert.True(t, musttest.Get(store.Claim(t.Context(), "k", "next", 50*time.Millisecond))(t),
		"a released claim cannot be taken")
	for range 100 {
		if got, _ := store.Claim(t.Context(), "k", "last", time.Minute); got {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("an expired claim cannot be taken")
}

// manyClaims checks that many claims are taken as if one after another.
func manyClaims(t *testing.T, store coordination.Store) {
	all := func(owner string, ttl time.Duration, want []bool, keys ...string) {
		t.Helper()
		if got, err := store.ClaimAll(t.Context(), keys, owner, ttl); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s claims %v: %v, %v", owner, keys, got, err)
		}
	}
	all("a", time.Minute, []bool{true, true}, "many-1", "many-2")
	all("b", time.Minute, []bool{true, false, false}, "many-3", "many-2", "many-1")
	all("a", time.Minute, []bool{true, false}, "many-1", "many-3")
	ok(t, store.ReleaseAll(t.Context(), []string{"many-1", "many-3"}, "a"))
	all("c", 50*time.Millisecond, []bool{true, false, false}, "many-1", "many-2", "many-3")
	for range 100 {
		if got, err := store.ClaimAll(t.Context(), []string{"many-1"}, "d", time.Minute); err == nil && got[0] {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("an expired claim cannot be taken")
}

func limits(t *testing.T, store coordination.Store) {
	ask := func(ep string, req, tok, rpm, tpm int) time.Duration {
		r := musttest.Get(store.Reserve(t.Context(), ep, req, tok, rpm, tpm))(t)
		return r.Wait
	}
	for range 60 {
		require.Zero(t, ask("a", 1, 10, 60, 0), "refused within the limit")
	}
	if w := ask("a", 1, 10, 60, 0); w <= 0 || w > 2*time.Second {
		t.Errorf("over 60 a minute: wait %s, want about a second", w)
	}
	assert.Zero(t, ask("b", 1, 10, 60, 0), "another endpoint")
	assert.Zero(t, ask("c", 1, 900, 0, 1000), "tokens within the limit")
	if w := ask("c", 1, 900, 0, 1000); w <= 0 {
		t.Error("tokens over the limit do not wait")
	}
	ok(t, store.Settle(t.Context(), "c", -850))
	assert.Zero(t, ask("c", 1, 900, 0, 1000), "after settling for less")
	assert.Zero(t, ask("d", 1, 5000, 0, 1000), "a request larger than a window must go alone, not wait for ever")
}

func crowd(t *testing.T, store coordination.Store) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for range 40 {
		wg.Go(func() {
			got, err := store.Reserve(t.Context(), "e", 1, 0, 20, 0)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if got.Wait == 0 {
				granted++
			}
		})
	}
	wg.Wait()
	if granted < 20 || granted > 22 { // what refills in the time of the test is let through
		t.Errorf("%d of 40 were let through at 20 a minute", granted)
	}
}

func runs(t *testing.T, store coordination.Store) {
	ctx := t.Context()
	for range 2 {
		ok(t, store.SetProgress(ctx, "i/g", "a/1", []byte("1")))
	}
	ok(t, store.SetProgress(ctx, "i/g", "a/2", []byte("2")))
	ok(t, store.SetProgress(ctx, "i/g2", "a/1", []byte("other")))
	ok(t, store.SetState(ctx, "i/g", []byte("state")))
	ok(t, store.SetControl(ctx, "i/g", []byte("control")))
	progress := musttest.Get(store.ReadProgress(ctx, "i/g"))(t)
	same(t, "progress", progress, map[string]string{"a/1": "1", "a/2": "2"})
	assert.Equal(t, "control", string(musttest.Get(store.ReadControl(ctx, "i/g"))(t)), "control")
	assert.Equal(t, "state", string(musttest.Get(store.ReadState(ctx, "i/g"))(t)), "state")
	assert.Nil(t, musttest.Get(store.ReadState(ctx, "unknown"))(t), "state of an unknown run")
	assert.Nil(t, musttest.Get(store.ReadControl(ctx, "unknown"))(t), "control of an unknown run")
}

// same compares the fields of a run with those that are wanted.
func same(t *testing.T, what string, got map[string][]byte, want map[string]string) {
	t.Helper()
	texts := map[string]string{}
	for field, value := range got {
		texts[field] = string(value)
	}
	assert.True(t, maps.Equal(texts, want), "%s %q, want %q", what, texts, want)
}

func problems(t *testing.T, store coordination.Store) {
	ctx := t.Context()
	ok(t, store.SetProblem(ctx, "i/g", "chat", []byte("no answer")))
	ok(t, store.SetProblem(ctx, "i/g", "store", []byte("full")))
	ok(t, store.SetProblem(ctx, "i/g", "chat", []byte("still none")))
	ok(t, store.SetProblem(ctx, "i/g2", "chat", []byte("another's")))
	got := musttest.Get(store.ReadProblems(ctx, "i/g"))(t)
	same(t, "problems", got, map[string]string{"chat": "still none", "store": "full"})
	for range 2 {
		ok(t, store.SetProblem(ctx, "i/g", "chat", nil))
	}
	got = musttest.Get(store.ReadProblems(ctx, "i/g"))(t)
	same(t, "problems after one is over", got, map[string]string{"store": "full"})
	got = musttest.Get(store.ReadProgress(ctx, "i/g"))(t)
	same(t, "progress", got, map[string]string{})
}

func accounts(t *testing.T, store coordination.Store) {
	ctx := t.Context()
	for range 2 {
		ok(t, setAccount(ctx, store, "i/g", "worker-1", []byte("10")))
	}
	ok(t, setAccount(ctx, store, "i/g", "worker-2", []byte("5")))
	ok(t, setAccount(ctx, store, "i/g", "worker-1", []byte("12")))
	ok(t, setAccount(ctx, store, "i/g2", "worker-1", []byte("99")))
	got := musttest.Get(store.ReadAccounts(ctx, "i/g"))(t)
	same(t, "accounts", got, map[string]string{"worker-1": "12", "worker-2": "5"})
	got = musttest.Get(store.ReadAccounts(ctx, "unknown"))(t)
	same(t, "accounts of an unknown run", got, map[string]string{})
}

func spend(t *testing.T, store coordination.Store) {
	ctx := t.Context()
	control, all, err := store.ExchangeAccount(ctx, "i/g", "worker-1", []byte("1"))
	ok(t, err)
	assert.True(t, control == nil, "control %q before there is one", control)
	same(t, "accounts", all, map[string]string{"worker-1": "1"})
	ok(t, store.SetControl(ctx, "i/g", []byte("pause")))
	ok(t, setAccount(ctx, store, "i/g", "worker-2", []byte("7")))
	for range 2 {
		control, all, err = store.ExchangeAccount(ctx, "i/g", "worker-1", []byte("3"))
		ok(t, err)
		assert.True(t, string(control) == "pause", "control %q", control)
		same(t, "accounts", all, map[string]string{"worker-1": "3", "worker-2": "7"})
	}
	all = musttest.Get(store.ReadAccounts(ctx, "i/g"))(t)
	same(t, "accounts read again", all, map[string]string{"worker-1": "3", "worker-2": "7"})
}

func spenders(t *testing.T, store coordination.Store) {
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			me := fmt.Sprint("worker-", w)
			for total := range 20 {
				value := []byte(fmt.Sprint(total))
				_, all, err := store.ExchangeAccount(t.Context(), "i/g", me, value)
				assert.True(t, err == nil && slices.Equal(all[me], value),
					"%s wrote %s and reads %s, %v", me, value, all[me], err)
			}
		})
	}
	wg.Wait()
	all := musttest.Get(store.ReadAccounts(t.Context(), "i/g"))(t)
	require.True(t, len(all) == 8, "%d accounts", len(all))
	for worker, value := range all {
		assert.True(t, string(value) == "19", "%s ends at %s", worker, value)
	}
}

func forget(t *testing.T, store coordination.Store) {
	ctx := t.Context()
	reads := map[string]func(run string) (map[string][]byte, error){
		"progress": func(run string) (map[string][]byte, error) { return store.ReadProgress(ctx, run) },
		"problems": func(run string) (map[string][]byte, error) { return store.ReadProblems(ctx, run) },
		"accounts": func(run string) (map[string][]byte, error) { return store.ReadAccounts(ctx, run) },
	}
	for _, run := range []string{"i/g", "i/g2"} {
		for _, field := range []string{"a", "b", "c"} {
			ok(t, store.SetProgress(ctx, run, field, []byte("1")))
			ok(t, store.SetProblem(ctx, run, field, []byte("1")))
			ok(t, setAccount(ctx, store, run, field, []byte("1")))
		}
		ok(t, store.SetState(ctx, run, []byte("state")))
		ok(t, store.SetControl(ctx, run, []byte("control")))
	}
	for range 2 {
		ok(t, store.ForgetRun(ctx, "i/g"))
	}
	for what, read := range reads {
		forgotten := musttest.Get(read("i/g"))(t)
		kept := musttest.Get(read("i/g2"))(t)
		assert.True(t, len(forgotten) == 0 && len(kept) == 3,
			"%s: %q of the run that is forgotten, %q of the other", what, forgotten, kept)
	}
	for run, want := range map[string]string{"i/g": "", "i/g2": "control"} {
		assert.Equal(t, want, string(musttest.Get(store.ReadControl(ctx, run))(t)), "control of %s", run)
		assert.Equal(t, "state", string(musttest.Get(store.ReadState(ctx, run))(t)), "state of %s", run)
	}
}

func forgetIndex(t *testing.T, store coordination.Store) {
	ctx := t.Context()
	read := func(index string) (out []string) {
		for _, name := range []string{index + "/g1", "latest:" + index, "audit:" + index} {
			progress := musttest.Get(store.ReadProgress(ctx, name))(t)
			problems := musttest.Get(store.ReadProblems(ctx, name))(t)
			accounts := musttest.Get(store.ReadAccounts(ctx, name))(t)
			control := musttest.Get(store.ReadControl(ctx, name))(t)
			state := musttest.Get(store.ReadState(ctx, name))(t)
			out = append(out, fmt.Sprint(len(progress), len(problems), len(accounts), string(control), string(state)))
		}
		mirrored := musttest.Get(store.ReadMirror(ctx, index))(t)
		_, all, err := store.ReadMirrors(ctx, "")
		ok(t, err)
		leased := musttest.Get(store.ListLeased(ctx, index))(t)
		return append(out, fmt.Sprint(string(mirrored), string(all[index]), len(leased)))
	}
	empty := read("i")
	indexes := []string{"i", "i-2", "ii"}
	for _, index := range indexes {
		for _, name := range []string{index + "/g1", "latest:" + index, "audit:" + index} {
			ok(t, store.SetProgress(ctx, name, "f", []byte("1")))
			ok(t, store.SetProblem(ctx, name, "f", []byte("1")))
			ok(t, setAccount(ctx, store, name, "w", []byte("1")))
			ok(t, store.SetState(ctx, name, []byte("state")))
			ok(t, store.SetControl(ctx, name, []byte("control")))
		}
		ok(t, store.Mirror(ctx, index, []byte("{}")))
		ok(t, store.Lease(ctx, []coordination.Held{{Index: index, Generation: "g1"}}, "r", time.Minute))
	}
	full := read("i")
	version, _, err := store.ReadMirrors(ctx, "")
	ok(t, err)
	for range 2 {
		ok(t, store.ForgetIndex(ctx, "i"))
	}
	assert.Equal(t, empty, read("i"), "of the index that is forgotten")
	for _, index := range indexes[1:] {
		assert.Equal(t, full, read(index), "of %s", index)
	}
	now, _, err := store.ReadMirrors(ctx, version)
	ok(t, err)
	assert.NotEqual(t, version, now, "readers learn that a mirror is gone")
}

func leases(t *testing.T, store coordination.Store) {
	ok(t, store.Lease(t.Context(), []coordination.Held{{Index: "i", Generation: "g1"}}, "r1", time.Minute))
	ok(t, store.Lease(t.Context(), []coordination.Held{{Index: "i", Generation: "g2"}}, "r1", 20*time.Millisecond))
	ok(t, store.Lease(t.Context(), []coordination.Held{{Index: "j", Generation: "g3"}}, "r1", time.Minute))
	time.Sleep(50 * time.Millisecond)
	l := musttest.Get(store.ListLeased(t.Context(), "i"))(t)
	assert.True(t, l["g1"] && !l["g2"] && !l["g3"], "leased %v", l)
	held := []coordination.Held{
		{Index: "i", Generation: "g2"}, {Index: "i", Generation: "g4"}, {Index: "k", Generation: "g5"},
	}
	ok(t, store.Lease(t.Context(), held, "r2", time.Minute))
	ok(t, store.Lease(t.Context(), nil, "r2", time.Minute))
	for index, want := range map[string]int{"i": 3, "j": 1, "k": 1} {
		if l, err := store.ListLeased(t.Context(), index); err != nil || len(l) != want {
			t.Errorf("%s: leased %v, %v", index, l, err)
		}
	}
}

func mirror(t *testing.T, store coordination.Store) {
	assert.Nil(t, musttest.Get(store.ReadMirror(t.Context(), "i"))(t), "nothing mirrored")
	ok(t, store.Mirror(t.Context(), "i", []byte("two")))
	ok(t, store.Mirror(t.Context(), "j", []byte("another's")))
	for _, pointer := range []string{"zero", "one", "two", "three"} { // the last counts
		ok(t, store.Mirror(t.Context(), "i", []byte(pointer)))
		if v, err := store.ReadMirror(t.Context(), "i"); string(v) != pointer || err != nil {
			t.Errorf("mirrored %q, want %q: %v", v, pointer, err)
		}
	}
	version, all, err := store.ReadMirrors(t.Context(), "")
	ok(t, err)
	assert.True(t, len(all) == 2 && string(all["i"]) == "three" && string(all["j"]) == "another's",
		"all of them: %q", all)
	if again, all, err := store.ReadMirrors(t.Context(), version); again != version || all != nil || err != nil {
		t.Errorf("nothing changed: %q, %q: %v", again, all, err)
	}
	ok(t, store.Mirror(t.Context(), "i", []byte("four")))
	if next, all, err := store.ReadMirrors(t.Context(), version); next == version || string(all["i"]) != "four" ||
		err != nil {
		t.Errorf("after a change: %q, %q: %v", next, all, err)
	}
}

func setAccount(ctx context.Context, store coordination.Runs, run, worker string, value []byte) error {
	_, _, err := store.ExchangeAccount(ctx, run, worker, value)
	return err
}
