package ledger_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestManyPacksBecomeFewAndEveryEntryIsFoundAllTheWhile(t *testing.T) {
	b := newBook(t)
	n := 0
	for night := range 60 {
		b.now = day(night)
		for range 3 { // shards
			b.pay(t, ledger.Extract, n, n+5)
			n += 5
		}
		b.upkeep(t, ledger.Extract, nil)
	}
	b.want(t, ledger.Extract, n, all)
	b.now = day(62)
	b.upkeep(t, ledger.Extract, nil)
	b.want(t, ledger.Extract, n, all)
	packs := len(b.store.Keys("ledger/extract/packs/")) + len(b.store.Keys("ledger/extract/merged/"))
	if loose := b.store.Keys("ledger/extract/loose/"); packs > 16 || len(loose) > 0 { // packs and their marks
		t.Errorf("%d packs and %d loose entries after 60 nights: %v", packs, len(loose), b.store.Keys("ledger/"))
	}
	b.reopen()
	b.store.Reset()
	e, err := b.Get(t.Context(), ledger.Extract, key(n+1), 0)
	require.True(t, e == nil && err == nil, "%v %v", e, err)
	if gets := b.store.Calls(artifacttest.Get); gets > 3*8+2 { // footer, trailer and filter of each
		t.Errorf("the first miss of a process costs %d reads", gets)
	}
}

func TestALargeMergeIsCutByTheFirstByteOfItsKeys(t *testing.T) {
	defer ledger.SetMergedEntries(40)()
	b := newBook(t)
	b.payShards(t, ledger.Extract, 0, 12, 20)
	n, err := b.Merge(t.Context(), ledger.Extract, b.now)
	require.True(t, err == nil && n >= 8, "%v %v", n, err)
	merged := b.store.Keys("ledger/extract/merged/")
	require.True(t, len(merged) >= 3, "merged packs %v", merged)
	last := ""
	for _, name := range merged {
		parts := strings.Split(name, "-")
		assert.True(t, parts[1] <= parts[2] && parts[1] > last, "the ranges of %v overlap", merged)
		last = parts[2]
	}
	b.want(t, ledger.Extract, 240, all)
}

// A worker may die after any write or delete: what was paid for must be found at once and after the next upkeep, and
// the ledger must come out about as small.
func TestUpkeepMayEndAfterAnyWriteOrDelete(t *testing.T) {
	defer ledger.SetMergedEntries(30)()
	boom := errors.New("killed")
	fill := func() *book {
		b := newBook(t)
		b.payShards(t, ledger.Extract, 0, 11, 10)
		b.now = day(2)
		b.upkeep(t, ledger.Extract, nil) // swept and merged
		for i := 110; i < 120; i++ {     // of a build that ended early
			musttest.Get(b.Put(t.Context(), ledger.Extract, key(i), 0, ledger.Result{Value: []byte(value(i))}))(t)
		}
		b.now = day(20)
		return b
	}
	listed := func() iter.Seq2[core.Digest, error] {
		var keys []core.Digest
		for i := range 120 {
			if i%3 > 0 {
				keys = append(keys, key(i))
			}
		}
		return listing(keys...)
	}
	kept := func(i int) bool { return i%3 > 0 }
	settle := func(b *book) int { // until nothing is left to do
		for n := 21; n < 26; n++ {
			b.now = day(n)
			b.upkeep(t, ledger.Extract, listed())
		}
		b.want(t, ledger.Extract, 120, kept)
		return len(b.store.Keys("ledger/"))
	}
	calm := settle(fill())
	for crash := 1; ; crash++ {
		b := fill()
		b.reopen()
		var changes atomic.Int64
		b.store.Fail = func(op artifacttest.Op, _ string) error {
			if (op == artifacttest.Put || op == artifacttest.Delete) && changes.Add(1) >= int64(crash) {
				return boom
			}
			return nil
		}
		_, err := b.RunUpkeep(t.Context(), ledger.Extract, listed(), b.now)
		b.store.Fail = nil
		if err == nil {
			assert.True(t, crash >= 8, "it ends after %d changes", crash)
			return
		}
		require.ErrorIs(t, err, boom)
		b.reopen()
		for i := range 120 {
			e, err := b.Get(t.Context(), ledger.Extract, key(i), 0)
			require.True(t, !kept(i) || err == nil && e != nil, "killed at change %d: entry %d is lost: %v", crash, i, err)
		}
		if n := settle(b); n > calm+4 { // packs of a merge that was not recorded count as a run of their own
			t.Errorf("killed at change %d: %d objects in the end, %d undisturbed", crash, n, calm)
		}
	}
}

// The loose entries of several packs are deleted at once: each is read first, and then waits for its deletions.
// Promises: 120.
func TestSeveralPacksAreSweptAtOnce(t *testing.T) {
	for name, merged := range map[string]bool{"packs": false, "inputs of a merge": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { sweepFarAway(t, merged) }) })
	}
}

func sweepFarAway(t *testing.T, merged bool) {
	const packs = 8
	b := newBook(t)
	b.now = time.Now() // of the bubble
	for shard := range packs {
		b.pay(t, ledger.Extract, 10*shard, 10*shard+10)
	}
	if merged { // with one more there are enough
		b.pay(t, ledger.Extract, 10*packs, 10*packs+10)
		n, err := b.Merge(t.Context(), ledger.Extract, b.now)
		require.True(t, n != 0 && err == nil, "%v %v", n, err)
	}
	requests := distance.New(time.Millisecond)
	far := ledger.New(distance.Blob(b.store, requests), newClaims())
	n, err := far.Sweep(t.Context(), ledger.Extract, b.now.Add(2*ledger.LooseGrace))
	counted := requests.Take()
	loose := b.store.Keys("ledger/extract/loose/")
	assert.True(t, err == nil && n != 0 && len(loose) <= 0, "%d, %v, left %v", n, err, loose)
	assert.True(t, counted.Of("") >= 3*packs && counted.Chain <= int(counted.Of(""))*2/3, "%s", counted)
}

// A caller that watches an upkeep that takes long sees that it gets on, in each of its parts.
// Promises: 120.
func TestUpkeepShowsThatItGetsOn(t *testing.T) {
	const packs, each = 9, 1000
	b := newBook(t)
	var keys []core.Digest
	for shard := range packs {
		b.pay(t, ledger.Extract, each*shard, each*(shard+1))
	}
	for i := range packs * each {
		keys = append(keys, key(i))
	}
	var signs atomic.Int64
	ctx := ledger.WithAlive(t.Context(), func() { signs.Add(1) })
	for _, part := range []struct {
		name  string
		do    func() error
		least int64
	}{
		{"merge", func() error { _, err := b.Merge(ctx, ledger.Extract, b.now); return err }, 5 * each / 1024},
		{"sweep", func() error { _, err := b.Sweep(ctx, ledger.Extract, day(2)); return err }, packs},
		{"expire", func() error {
			_, err := b.Expire(ctx, ledger.Extract, listing(keys...), day(20))
			return err
		}, 2 * (packs * each / 1024)},
	} {
		signs.Store(0)
		if err := part.do(); err != nil || signs.Load() < part.least {
			t.Errorf("%s: %d signs, want %d, %v", part.name, signs.Load(), part.least, err)
		}
	}
}

func TestEntriesThatNothingListsGoWhenTheyAreOld(t *testing.T) {
	for _, task := range []string{ledger.Extract, ledger.Shorten} { // answers go with the texts that they hold
		b := newBook(t)
		b.pay(t, task, 0, 40) // packed
		for i := 40; i < 60; i++ {
			musttest.Get(b.Put(t.Context(), task, key(i), 0, ledger.Result{Value: []byte(value(i))}))(t)
		}
		for i := 60; i < 64; i++ { // content failures
			musttest.Get(b.Put(t.Context(), task, key(i), 1, ledger.Result{Value: []byte("why"), Negative: true}))(t)
		}
		b.now = day(5)
		b.pay(t, task, 70, 80) // young when the others go
		var keys []core.Digest
		for i := 0; i < 80; i += 2 {
			keys = append(keys, key(i), key(i)) // two generations list it
		}
		slices.Reverse(keys) // the order is no matter
		for _, night := range []int{2, 13} {
			b.now = day(night)
			b.upkeep(t, task, listing(keys...))
			b.want(t, task, 60, all)
		}
		for _, night := range []int{15, 16, 17} {
			b.now = day(night)
			b.upkeep(t, task, listing(keys...))
		}
		b.want(t, task, 60, func(i int) bool { return i%2 == 0 })
		for i := 60; i < 64; i++ {
			e, err := b.Get(t.Context(), task, key(i), 1)
			assert.True(t, err == nil && (e != nil) == (i%2 == 0), "%s: negative entry %d: %v %v", task, i, e, err)
		}
		for i := 70; i < 80; i++ {
			e, err := b.Get(t.Context(), task, key(i), 0)
			assert.True(t, err == nil && e != nil, "%s: a young entry went: %v %v", task, e, err)
		}
	}
}

func TestOldEntriesOfAYoungMergeGo(t *testing.T) {
	b := newBook(t)
	b.payShards(t, ledger.Extract, 0, 12, 20)
	b.now = day(16)
	if n, err := b.Merge(t.Context(), ledger.Extract, b.now); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	b.now = day(18)
	musttest.Get(b.Sweep(t.Context(), ledger.Extract, b.now))(t)
	gone, err := b.Expire(t.Context(), ledger.Extract, listing(key(1)), b.now)
	assert.True(t, err == nil && gone == 12*20-1, "%d of 239 went, %v", gone, err)
}

// A list of live keys that breaks off would make live entries look dead.
func TestNothingExpiresWhenTheListOfLiveKeysFails(t *testing.T) {
	b := newBook(t)
	b.pay(t, ledger.Extract, 0, 20)
	b.now = day(30)
	lost := fault.SegmentDamage.At("read", "extract segment")
	broken := func(yield func(core.Digest, error) bool) {
		if yield(key(1), nil) {
			yield(core.Digest{}, lost)
		}
	}
	kept, err := b.RunUpkeep(t.Context(), ledger.Extract, broken, b.now)
	assert.True(t, errors.Is(err, lost) && kept.Expired == 0, "%+v %v", kept, err)
	b.want(t, ledger.Extract, 20, all)
}

func TestEntriesAreLookedThroughOnceADay(t *testing.T) {
	b := newBook(t)
	b.pay(t, ledger.Extract, 0, 20)
	asked := 0
	count := func(yield func(core.Digest, error) bool) {
		asked++
		for i := 0; i < 20 && yield(key(i), nil); i++ {
		}
	}
	for _, c := range []struct{ first, want int }{{1, 0}, {20, 2}} { // what is young does not go, listed or not
		asked = 0
		for _, hours := range []int{0, 1, 23, 25, 26} {
			b.now = day(c.first).Add(time.Duration(hours) * time.Hour)
			b.upkeep(t, ledger.Extract, count)
		}
		assert.True(t, asked == c.want,
			"asked for the live keys %d times in 26 hours from day %d, want %d", asked, c.first, c.want)
	}
	b.want(t, ledger.Extract, 20, all)
}

// One damaged pack must not stop every build of every index: loose entries serve, the rest is paid again.
func TestADamagedPackIsSetAsideAndNamedOnce(t *testing.T) {
	testDamagedPack(t, ledger.Extract)
	testDamagedPack(t, ledger.Shorten) // embeddings are indexed, and their index is mended from the answers
}

func testDamagedPack(t *testing.T, task string) {
	t.Helper()
	for situation, edit := range map[string]func([]byte) []byte{
		"a frame": func(raw []byte) []byte { raw[20] ^= 1; return raw },
		"its end": func(raw []byte) []byte { return raw[:len(raw)-9] }, "all gone": func([]byte) []byte { return nil },
	} {
		b := newBook(t)
		b.pay(t, task, 0, 20)
		pack := b.store.Keys("ledger/" + task + "/packs/")[0]
		b.store.Change(pack, edit)
		b.payShards(t, task, 1, 12, 20)
		b.reopen()
		var named names
		b.OnDamage = named.add
		if e, err := b.Get(t.Context(), task, key(3), 0); err != nil || string(e.Value) != value(3) {
			t.Fatalf("%s: %v %v", situation, e, err)
		}
		b.now = day(3)
		_, err := b.RunUpkeep(t.Context(), task, nil, b.now)
		require.NoError(t, err, "%s", situation)
		for i := range 240 {
			e, paid, err := b.Do(t.Context(), task, key(i), 0, func(context.Context) (ledger.Result, error) {
				return ledger.Result{}, errors.New("paid again")
			})
			require.True(t, err == nil && !paid && string(e.Value) == value(i), "%s: entry %d: %v %v", situation, i, e, err)
		}
		assert.Equal(t, []string{"memory/" + pack}, named.all(), "%s: named", situation)
		assert.True(t, len(b.store.Keys(pack)) != 0, "%s: the damaged pack was deleted", situation)
	}
}

func TestOneProcessAtATimeKeepsALedger(t *testing.T) {
	b := newBook(t)
	shared := newClaims()
	musttest.Get(shared.Claim(t.Context(), "ledger-upkeep:"+ledger.Extract, "another", time.Hour))(t)
	b.Ledger = ledger.New(b.store, shared)
	b.store.Reset()
	kept, err := b.RunUpkeep(t.Context(), ledger.Extract, listing(), b.now)
	assert.True(t, err == nil && kept.Busy && b.store.Calls(artifacttest.List) == 0, "%+v %v", kept, err)
	kept, err = b.RunUpkeep(t.Context(), ledger.Shorten, listing(), b.now)
	assert.True(t, err == nil && !kept.Busy, "another task: %+v %v", kept, err)
}

func TestWhatAMergeTookInStaysForThoseWhoListedItBefore(t *testing.T) {
	b := newBook(t)
	b.payShards(t, ledger.Extract, 0, 12, 20)
	b.want(t, ledger.Extract, 1, all) // this process has listed them
	reader := b.Ledger
	b.reopen()
	musttest.Get(b.Merge(t.Context(), ledger.Extract, b.now))(t)
	for _, c := range []struct {
		hours int
		packs int
	}{{1, 12}, {23, 12}, {25, 0}} {
		b.now = day(0).Add(time.Duration(c.hours) * time.Hour)
		musttest.Get(b.Sweep(t.Context(), ledger.Extract, b.now))(t)
		n := len(b.store.Keys("ledger/extract/packs/"))
		assert.True(t, n == c.packs, "%d packs after %d hours, want %d", n, c.hours, c.packs)
		e, err := reader.Get(t.Context(), ledger.Extract, key(7), 0)
		assert.True(t, c.packs <= 0 || err == nil && e != nil, "after %d hours it finds %v %v", c.hours, e, err)
	}
	b.want(t, ledger.Extract, 240, all)
}

// A pack that was removed by hand is no reason to delete what it was made from.
func TestAMergeWhoseResultIsGoneGivesItsInputsBack(t *testing.T) {
	b := newBook(t)
	b.payShards(t, ledger.Extract, 0, 12, 20)
	musttest.Get(b.Merge(t.Context(), ledger.Extract, b.now))(t)
	for _, name := range b.store.Keys("ledger/extract/merged/") {
		require.NoError(t, b.store.Delete(t.Context(), name))
	}
	b.now = day(2)
	musttest.Get(b.Sweep(t.Context(), ledger.Extract, b.now))(t)
	b.want(t, ledger.Extract, 240, all)
}

func TestSweepDeletesByBatches(t *testing.T) {
	b := newBook(t)
	b.pay(t, ledger.Extract, 0, 2500)
	require.Zero(t, musttest.Get(b.Sweep(t.Context(), ledger.Extract, b.now))(t), "at once")
	b.now = day(2)
	b.store.Reset()
	require.Equal(t, 2500, musttest.Get(b.Sweep(t.Context(), ledger.Extract, b.now))(t))
	assert.Equal(t, 3, b.store.Calls(artifacttest.Delete))
}

func TestPackLeavesOutWhatLiesInPacksAlready(t *testing.T) {
	b := newBook(t)
	b.pay(t, ledger.Extract, 0, 100)
	b.now = day(2)
	b.upkeep(t, ledger.Extract, nil)
	var keys []core.Digest
	for i := range 100 {
		keys = append(keys, key(i))
	}
	b.reopen()
	b.store.Reset()
	require.Equal(t, 100, musttest.Get(b.Pack(t.Context(), ledger.Extract, keys))(t))
	gets, puts := b.store.Calls(artifacttest.Get), b.store.Calls(artifacttest.Put)
	assert.True(t, gets <= 10 && puts == 0, "%d reads and %d writes to pack 100 entries again", gets, puts)
}

func TestAReadErrorOfTheStoreIsNotTakenForAMiss(t *testing.T) {
	b := newBook(t)
	b.pay(t, ledger.Extract, 0, 20)
	for _, part := range []string{"packs/", "loose/", "merges/"} {
		b.reopen()
		b.store.Fail = func(_ artifacttest.Op, k string) error {
			if strings.Contains(k, part) {
				return fault.StoreDown.At("read", k)
			}
			return nil
		}
		_, paid, err := b.Do(t.Context(), ledger.Extract, key(500), 0, func(context.Context) (ledger.Result, error) {
			return ledger.Result{Value: []byte("v")}, nil
		})
		b.store.Fail = nil
		assert.True(t, fault.Is(err, fault.StoreDown) && !paid, "%s: paid %v, %v", part, paid, err)
	}
}

// The clock of the machine is wrong for one night: what nothing lists is kept as long as ever.
// Promises: 113.
func TestAClockThatJumpsDropsNoEntryEarly(t *testing.T) {
	for situation, wrong := range map[string]func(time.Time) time.Time{
		"a year ahead": func(at time.Time) time.Time { return at.AddDate(1, 0, 0) },
		"a day ahead":  func(at time.Time) time.Time { return at.AddDate(0, 0, 1) },
		"an hour back": func(at time.Time) time.Time { return at.Add(-time.Hour) },
		"a year back":  func(at time.Time) time.Time { return at.AddDate(-1, 0, 0) },
	} {
		b := newBook(t)
		b.pay(t, ledger.Extract, 0, 20)
		for night := 1; night < 12; night++ {
			b.now = day(night)
			if night == 3 {
				b.now = wrong(b.now)
			}
			b.upkeep(t, ledger.Extract, listing())
			if night == 3 { // what it wrote that night is as old as its clock said
				b.now = day(night)
			}
			b.want(t, ledger.Extract, 20, all)
		}
		for night := 12; night < 45; night++ {
			b.now = day(night)
			b.upkeep(t, ledger.Extract, listing())
		}
		t.Log(situation)
		b.want(t, ledger.Extract, 20, func(int) bool { return false })
	}
}
