package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
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
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/stream/parallel"
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
	require.Nil(t, musttest.Get(b.Get(t.Context(), ledger.Extract, key(n+1), 0))(t))
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
	for shard := range packs {
		b.pay(t, ledger.Extract, each*shard, each*(shard+1))
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
			return musttest.Err(b.Expire(ctx, ledger.Extract, listing(keysFrom(0, packs*each)...), day(20)))
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
		b := paidBook(t, task, 0, 40) // packed
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
	n, err := b.Merge(t.Context(), ledger.Extract, b.now)
	require.True(t, err == nil && n != 0, "%v %v", n, err)
	b.now = day(18)
	musttest.Get(b.Sweep(t.Context(), ledger.Extract, b.now))(t)
	gone, err := b.Expire(t.Context(), ledger.Extract, listing(key(1)), b.now)
	assert.True(t, err == nil && gone == 12*20-1, "%d of 239 went, %v", gone, err)
}

// A list of live keys that breaks off would make live entries look dead.
func TestNothingExpiresWhenTheListOfLiveKeysFails(t *testing.T) {
	b := paidBook(t, ledger.Extract, 0, 20)
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
	b := paidBook(t, ledger.Extract, 0, 20)
	asked := 0
	count := func(yield func(core.Digest, error) bool) {
		asked++
		for i := 0; i < 20 && yield(key(i), nil); i++ {
		}
	}
	for _, hours := range []int{0, 1, 23, 25, 26} {
		b.now = day(20).Add(time.Duration(hours) * time.Hour)
		b.upkeep(t, ledger.Extract, count)
	}
	assert.Equal(t, 2, asked, "asked for the live keys in 26 hours")
	b.want(t, ledger.Extract, 20, all)
}

// One damaged pack must not stop every build of every index: loose entries serve, the rest is paid again.
func TestADamagedPackIsSetAsideAndNamedOnce(t *testing.T) {
	const task = ledger.Extract
	for situation, edit := range map[string]func([]byte) []byte{
		"a frame": func(raw []byte) []byte { raw[20] ^= 1; return raw },
		"its end": func(raw []byte) []byte { return raw[:len(raw)-9] }, "all gone": func([]byte) []byte { return nil },
	} {
		b := paidBook(t, task, 0, 20)
		pack := b.store.Keys("ledger/" + task + "/packs/")[0]
		b.store.Change(pack, edit)
		b.payShards(t, task, 1, 12, 20)
		b.reopen()
		var named names
		b.OnDamage = named.add
		require.Equal(t, value(3), string(musttest.Get(b.Get(t.Context(), task, key(3), 0))(t).Value), situation)
		b.now = day(3)
		require.NoError(t, musttest.Err(b.RunUpkeep(t.Context(), task, nil, b.now)), "%s", situation)
		for i := range 240 {
			e, paid, err := b.Do(t.Context(), task, key(i), 0, func(context.Context) (ledger.Result, error) {
				return ledger.Result{}, errors.New("paid again")
			})
			require.True(t, err == nil && !paid && string(e.Value) == value(i), "%s: entry %d: %v %v", situation, i, e, err)
		}
		assert.Equal(t, []string{"memory:" + pack}, named.all(), "%s: named", situation)
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
	b := paidBook(t, ledger.Extract, 0, 2500)
	require.Zero(t, musttest.Get(b.Sweep(t.Context(), ledger.Extract, b.now))(t), "at once")
	b.now = day(2)
	b.store.Reset()
	require.Equal(t, 2500, musttest.Get(b.Sweep(t.Context(), ledger.Extract, b.now))(t))
	assert.Equal(t, 3, b.store.Calls(artifacttest.Delete))
}

func TestPackLeavesOutWhatLiesInPacksAlready(t *testing.T) {
	b := paidBook(t, ledger.Extract, 0, 100)
	b.now = day(2)
	b.upkeep(t, ledger.Extract, nil)
	b.reopen()
	b.store.Reset()
	require.Equal(t, 100, musttest.Get(b.Pack(t.Context(), ledger.Extract, keysFrom(0, 100)))(t))
	gets, puts := b.store.Calls(artifacttest.Get), b.store.Calls(artifacttest.Put)
	assert.True(t, gets <= 10 && puts == 0, "%d reads and %d writes to pack 100 entries again", gets, puts)
}

func TestAReadErrorOfTheStoreIsNotTakenForAMiss(t *testing.T) {
	b := paidBook(t, ledger.Extract, 0, 20)
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
		b := paidBook(t, ledger.Extract, 0, 20)
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

// shop sells vectors: a text's number, and how often it was sold.
type shop struct {
	mu   sync.Mutex
	sold map[core.Digest]int
	wait time.Duration
}

func texts(from, to int) []core.Digest {
	out := make([]core.Digest, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, core.Sum("text", fmt.Sprint(i)))
	}
	return out
}

// buy has a ledger hold texts, in requests of at most 100.
func (s *shop) buy(ctx context.Context, l *ledger.Ledger, all []core.Digest) error {
	for len(all) > 0 {
		part := all[:min(100, len(all))]
		all = all[len(part):]
		err := l.PayTexts(ctx, part, func(ctx context.Context, places []int) error {
			var wanted []core.Digest
			var vectors [][]float32
			time.Sleep(s.wait)
			s.mu.Lock()
			for _, i := range places {
				s.sold[part[i]]++
				wanted = append(wanted, part[i])
				vectors = append(vectors, []float32{float32(part[i][0]), 1})
			}
			s.mu.Unlock()
			return l.PutVectors(ctx, wanted, vectors)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *shop) twice() int {
	n := 0
	for _, times := range s.sold {
		n += times - 1
	}
	return n
}

// has checks which texts a process finds, and that their vectors are theirs.
func has(t *testing.T, l *ledger.Ledger, all []core.Digest, want func(i int) bool) {
	found := musttest.Get(l.FindTexts(t.Context(), all))(t)
	for i, vector := range musttest.Get(l.ReadVectors(t.Context(), all, found))(t) {
		require.True(t, (vector != nil) == want(i) && (vector == nil || vector[0] == float32(all[i][0])),
			"text %d: %v, want it: %v", i, vector, want(i))
	}
}

// Promises: 59.
func TestTextsInFlightArePaidForOnceInWhateverOrderTheyAreAskedFor(t *testing.T) {
	store, claims := artifacttest.New(), memory.NewClaims()
	seller := &shop{sold: map[core.Digest]int{}, wait: 10 * time.Millisecond}
	all := texts(0, 400)
	var group sync.WaitGroup
	for worker := range 6 {
		l := ledger.New(store, claims)
		mine := append(append([]core.Digest{}, all[50*worker:]...), all[:50*worker]...)
		if worker%2 == 1 {
			for i, j := 0, len(mine)-1; i < j; i, j = i+1, j-1 {
				mine[i], mine[j] = mine[j], mine[i]
			}
		}
		group.Go(func() { assert.NoError(t, seller.buy(t.Context(), l, mine)) })
	}
	group.Wait()
	assert.True(t, seller.twice() == 0 && len(seller.sold) == 400, "%d, %d", len(seller.sold), seller.twice())
	has(t, ledger.New(store, claims), all, all1)
}

func all1(int) bool { return true }

// A process that dies leaves marks beside the index; one that lives writes it when it has enough, or at upkeep.
func TestWhatADeadProcessPaidForIsFoundAndComesIntoTheIndex(t *testing.T) {
	b := newBook(t)
	seller := &shop{sold: map[core.Digest]int{}}
	require.NoError(t, seller.buy(t.Context(), b.Ledger, texts(0, 250)))
	b.reopen()
	has(t, b.Ledger, texts(0, 260), func(i int) bool { return i < 250 })
	assert.Len(t, b.store.Keys("ledger/texts/loose/"), 3, "marks")
	b.now = b.now.Add(2 * time.Hour)
	kept := b.upkeep(t, ledger.Embed, nil)
	marks := b.store.Keys("ledger/texts/loose/")
	assert.True(t, len(marks) == 0 && kept.Gathered == 250, "%d marks after %+v", len(marks), kept)
	b.reopen()
	has(t, b.Ledger, texts(0, 260), func(i int) bool { return i < 250 })
}

// A process that listed before another one wrote the index must not pay for what the index took in.
func TestAMarkThatComesAndGoesIsNotMissed(t *testing.T) {
	store, claims := artifacttest.New(), memory.NewClaims()
	seller := &shop{sold: map[core.Digest]int{}}
	slow, other := ledger.New(store, claims), ledger.New(store, claims)
	has(t, slow, texts(0, 10), func(int) bool { return false }) // it lists marks and packs: there are none
	require.NoError(t, seller.buy(t.Context(), other, texts(0, 10)))
	require.NoError(t, other.SealTexts(t.Context()))
	err := seller.buy(t.Context(), slow, texts(0, 10))
	assert.True(t, err == nil && seller.twice() == 0, "%v, %d paid twice", err, seller.twice())
}

func TestTextsThatNothingListsGoWithTheirAnswersWhenTheyAreOld(t *testing.T) {
	b := newBook(t)
	seller := &shop{sold: map[core.Digest]int{}}
	live, dead := texts(0, 200), texts(200, 500)
	for _, part := range [][]core.Digest{live, dead} {
		require.NoError(t, seller.buy(t.Context(), b.Ledger, part))
	}
	for night := range 40 {
		b.now = day(night)
		b.upkeep(t, ledger.Embed, listing(live...))
		has(t, b.Ledger, live, all1)
		if night < 14 {
			has(t, b.Ledger, dead, all1)
		}
	}
	has(t, b.Ledger, dead, func(int) bool { return false })
	assert.Len(t, b.store.Keys("ledger/embed/loose/"), 2, "answers are left of two that live")
}

// The objects of answers are whole; without their index they are found again, not paid for again.
func TestADamagedPackOfTheIndexIsMendedFromTheAnswers(t *testing.T) {
	b := newBook(t)
	seller := &shop{sold: map[core.Digest]int{}}
	all := texts(0, 200)
	require.NoError(t, seller.buy(t.Context(), b.Ledger, all))
	b.upkeep(t, ledger.Embed, listing(all...)) // by another process: too early for the marks of this one
	require.NoError(t, b.SealTexts(t.Context()))
	b.now = day(1)
	b.upkeep(t, ledger.Embed, listing(all...))
	packs := b.store.Keys("ledger/texts/packs/")
	require.True(t, len(packs) != 0, "no index was written")
	b.store.Change(packs[0], func(raw []byte) []byte { return raw[:len(raw)/2] })
	b.now = day(40)
	b.upkeep(t, ledger.Embed, listing(all...))
	b.reopen()
	has(t, b.Ledger, all, all1)
}

func TestALookUpCostsRequestsByTheAnswerNotByTheText(t *testing.T) {
	store, seller, requests := artifacttest.New(), &shop{sold: map[core.Digest]int{}}, distance.New(0)
	filling := ledger.New(store, memory.NewClaims())
	require.NoError(t, seller.buy(t.Context(), filling, texts(0, 10_000)))
	require.NoError(t, filling.SealTexts(t.Context()))
	for name, from := range map[string]int{"all are there": 0, "all are new": 1 << 20} {
		l := ledger.New(distance.Blob(store, requests), memory.NewClaims())
		for at := 0; at < 10_000; at += 1000 {
			found, err := l.FindTexts(t.Context(), texts(from+at, from+at+1000))
			require.True(t, err == nil && found[0].IsZero() == (from > 0), "%v", err)
		}
		asked := requests.Take().Of("")
		assert.False(t, asked > 350 || (from > 0 && asked > 30), "%s: %d requests for 10,000 texts", name, asked)
	}
}

// All who pay side by side see that the index lacks enough texts for a pack. One of them writes it; the others must not
// wait and then write packs of the few texts that came meanwhile, each of which every look-up would ask.
func TestThoseWhoPaySideBySideWriteFullPacksOfTheIndex(t *testing.T) {
	const requests, perRequest, packTexts = 300, 256, 32_768
	store := artifacttest.New()
	l := ledger.New(store, memory.NewClaims())
	vectors := make([][]float32, perRequest)
	for i := range vectors {
		vectors[i] = []float32{1}
	}
	require.NoError(t, parallel.Each(t.Context(), requests, 32, func(ctx context.Context, i int) error {
		return l.PutVectors(ctx, texts(i*perRequest, (i+1)*perRequest), vectors)
	}))
	packs := 0
	for _, key := range store.Keys("ledger/texts/packs/") {
		if !strings.HasSuffix(key, ".swept") {
			packs++
		}
	}
	assert.True(t, packs != 0 && packs <= requests*perRequest/packTexts, "%d, %d", packs, requests*perRequest)
}

// A first build looks up as many texts as it writes, and each look-up asks every run of the index: while it runs, runs
// are merged, and every text is still found.
func TestABuildMergesTheIndexWhileItRuns(t *testing.T) {
	const most, perPack, packs = 10, 512, 60
	defer ledger.SetMostRuns(most, perPack)()
	store := artifacttest.New()
	l := ledger.New(store, memory.NewClaims())
	vectors := make([][]float32, perPack)
	for i := range vectors {
		vectors[i] = []float32{1}
	}
	for n := range packs {
		require.NoError(t, l.PutVectors(t.Context(), texts(n*perPack, (n+1)*perPack), vectors))
		if _, err := l.FindTexts(t.Context(), texts(packs*perPack, packs*perPack+1)); err != nil { // a new one asks all
			t.Fatal(err)
		}
		runs := l.Runs()
		require.True(t, runs <= most+1, "%d runs after %d packs", runs, n+1)
	}
	merges := len(store.Keys("ledger/texts/merges/"))
	assert.True(t, merges != 0 && merges <= packs/2, "%d merges of %d packs", merges, packs)
	fresh := ledger.New(store, memory.NewClaims())
	for n := range packs {
		for i, object := range musttest.Get(fresh.FindTexts(t.Context(), texts(n*perPack, n*perPack+100)))(t) {
			require.False(t, object.IsZero(), "text %d of pack %d is not found", i, n)
		}
	}
}

// A merge takes in the rows of answers that were lost beside those of the answers that were paid for in their place.
// Promises: 59.
func TestTextsPaidForAfterDamageAreFoundAfterAMerge(t *testing.T) {
	const packs = 12
	b := newBook(t)
	seller := &shop{sold: map[core.Digest]int{}}
	store := func(from, to int) {
		b.now = b.now.Add(time.Minute)
		require.NoError(t, seller.buy(t.Context(), b.Ledger, texts(from, to)))
		require.NoError(t, b.SealTexts(t.Context()))
	}
	for n := range packs {
		store(100*n, 100*n+100)
	}
	for _, object := range b.store.Keys("ledger/embed/loose/") { // their vectors: the texts still read
		b.store.Change(object, func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw })
	}
	b.reopen()
	has(t, b.Ledger, texts(0, 100*packs), func(int) bool { return false })
	for from := 0; from < 100*packs; from += 60 { // in other requests than before
		store(from, from+60)
	}
	require.Equal(t, 100*packs, seller.twice())
	for range 2 {
		kept := b.upkeep(t, ledger.Embed, listing(texts(0, 100*packs)...))
		has(t, b.Ledger, texts(0, 100*packs), all1)
		b.now = b.now.Add(25 * time.Hour)
		require.True(t, b.now.Day() > 2 || kept.Merged > 0, "%+v", kept)
	}
}
