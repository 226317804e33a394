package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func (b *book) put(t *testing.T, task string, from, to int) {
	for i := from; i < to; i++ {
		musttest.Get(b.Put(t.Context(), task, key(i), 0, ledger.Result{Value: []byte(value(i))}))(t)
	}
}

func keysFrom(from, to int) (keys []core.Digest) {
	for i := from; i < to; i++ {
		keys = append(keys, key(i))
	}
	return keys
}

func TestOfTwoResultsOfOneKeyOneCountsEverywhereAndAfterAMerge(t *testing.T) {
	b := paidBook(t, ledger.Extract, 0, 5)
	other := newBook(t) // a worker that did not see the first pack
	for i := range 6 {
		result := ledger.Result{Value: []byte("another")}
		musttest.Get(other.Put(t.Context(), ledger.Extract, key(i), 0, result))(t)
	}
	require.Equal(t, 6, musttest.Get(other.Pack(t.Context(), ledger.Extract, keysFrom(0, 6)))(t))
	for _, object := range other.store.Keys("ledger/extract/packs/") {
		raw, _ := musttest.Get2(blob.Read(t.Context(), other.store, object))(t)
		musttest.Get(blob.Write(t.Context(), b.store, object, raw, blob.Cond{}))(t)
	}
	answer := func() string {
		b.reopen()
		out := ""
		for i := range 6 {
			e, err := b.Get(t.Context(), ledger.Extract, key(i), 0)
			require.True(t, err == nil && e != nil, "%v %v %v", i, e, err)
			out += string(e.Value) + "|"
		}
		return out
	}
	first := answer()
	for range 5 {
		require.Equal(t, first, answer(), "one process says")
	}
	b.payShards(t, ledger.Extract, 1, 12, 20)
	musttest.Get(b.Merge(t.Context(), ledger.Extract, b.now))(t)
	assert.Equal(t, first, answer(), "after a merge")
}

// A process that is slow may look into a pack that was merged and deleted since it listed it.
func TestAPackThatIsGoneIsPassedOver(t *testing.T) {
	b := paidBook(t, ledger.Extract, 0, 20)
	b.reopen()
	reader := b.Ledger
	if e, err := reader.Get(t.Context(), ledger.Extract, key(999), 0); e != nil || err != nil { // it lists, and reads none
		t.Fatal(e, err)
	}
	var named names
	reader.OnDamage = named.add
	for _, object := range b.store.Keys("ledger/extract/packs/") {
		require.NoError(t, b.store.Delete(t.Context(), object))
	}
	for i := range 20 {
		e, err := reader.Get(t.Context(), ledger.Extract, key(i), 0)
		require.True(t, err == nil && string(e.Value) == value(i), "entry %d: %v %v", i, e, err)
	}
	assert.Empty(t, named.all(), "named as damage")
}

// A run with few dead entries is not written again for each of them, but not kept for ever either.
func TestFewDeadEntriesWaitLongerThanMany(t *testing.T) {
	for _, c := range []struct {
		dead, day int
		goes      bool
	}{{1, 16, false}, {1, 30, true}, {20, 16, true}, {20, 13, false}} {
		b := paidBook(t, ledger.Extract, 0, 100)
		b.now = day(2)
		b.upkeep(t, ledger.Extract, nil) // swept
		b.now = day(c.day)
		kept := b.upkeep(t, ledger.Extract, listing(keysFrom(c.dead, 100)...))
		assert.Equal(t, c.goes, kept.Expired == int64(c.dead), "%d dead on day %d: %+v", c.dead, c.day, kept)
		b.want(t, ledger.Extract, 100, func(i int) bool { return !c.goes || i >= c.dead })
	}
}

// Loose entries of builds that ended early, and of tasks without shards, are packed once they are a day old.
func TestWhatLiesAboutIsPackedOnceItIsOld(t *testing.T) {
	for _, c := range []struct {
		task string
		day  int
		want int64
	}{{ledger.Shorten, 0, 0}, {ledger.Shorten, 2, 30}, {ledger.Extract, 2, 30}, {ledger.Embed, 2, 0}} {
		b := newBook(t)
		b.put(t, c.task, 0, 30)
		bad := ledger.Result{Value: []byte("why"), Negative: true}
		musttest.Get(b.Put(t.Context(), c.task, key(40), 0, bad))(t)
		b.now = day(c.day)
		assert.Equal(t, c.want, b.upkeep(t, c.task, nil).Gathered, "%s on day %d", c.task, c.day)
		assert.Zero(t, b.upkeep(t, c.task, nil).Gathered, "%s on day %d: gathered twice", c.task, c.day)
		b.want(t, c.task, 30, all)
		b.now = day(c.day + 2)
		b.upkeep(t, c.task, nil)
		b.want(t, c.task, 30, all)
		e, err := b.Get(t.Context(), c.task, key(40), 0)
		assert.True(t, err == nil && e != nil && e.Negative, "%s: the negative entry became %v %v", c.task, e, err)
	}
}

// An upkeep that did not run for a while finds merges of merges.
func TestMergesOfMergesAreSweptOldestFirst(t *testing.T) {
	b := newBook(t)
	n := 0
	for range 4 {
		for range 9 {
			b.pay(t, ledger.Extract, n, n+4)
			n += 4
		}
		b.now = b.now.Add(time.Hour)
		b.reopen()
		musttest.Get(b.Merge(t.Context(), ledger.Extract, b.now))(t)
	}
	merges := b.store.Keys("ledger/extract/merges/")
	require.True(t, len(merges) >= 3, "merges %v", merges)
	b.now = day(3)
	for range 2 {
		b.reopen()
		musttest.Get(b.Sweep(t.Context(), ledger.Extract, b.now))(t)
		b.want(t, ledger.Extract, n, all)
	}
	assert.Empty(t, b.store.Keys("ledger/extract/merges/"), "left")
	assert.Empty(t, b.store.Keys("ledger/extract/loose/"), "loose entries are left")
}

// The cost of merging: an entry is written again a few times, not every night.
func TestAnEntryIsRewrittenFewTimes(t *testing.T) {
	b := newBook(t)
	var paid, written int64
	b.store.Fail = nil
	seen := map[string]bool{}
	for night := range 120 {
		b.now = day(night)
		b.pay(t, ledger.Extract, 10*night, 10*night+10)
		paid += 10
		b.upkeep(t, ledger.Extract, nil)
		for _, object := range b.store.Keys("ledger/extract/merged/") {
			if !seen[object] {
				seen[object] = true
				written += musttest.Get(b.store.Stat(t.Context(), object))(t).Size
			}
		}
	}
	size := int64(0)
	for _, object := range b.store.Keys("ledger/extract/merged/") {
		size += musttest.Get(b.store.Stat(t.Context(), object))(t).Size
	}
	assert.True(t, written <= 8*size, "merges wrote %d bytes for %d that stand", written, size)
}

// Builds look up and pay while another process keeps the ledger.
func TestLookUpsAndUpkeepGoOnSideBySide(t *testing.T) {
	b := newBook(t)
	b.store.Now = nil
	b.payShards(t, ledger.Extract, 0, 10, 10)
	shared := newClaims()
	var all sync.WaitGroup
	for worker := range 3 {
		all.Go(func() {
			l := ledger.New(b.store, shared)
			for i := range 120 {
				e, paid, err := l.Do(t.Context(), ledger.Extract, key(i), 0, func(context.Context) (ledger.Result, error) {
					return ledger.Result{Value: []byte(value(i))}, nil
				})
				assert.True(t, err == nil && (!paid || i >= 100) && string(e.Value) == value(i),
					"worker %d, entry %d: %v paid %v, %v", worker, i, e, paid, err)
			}
		})
	}
	all.Go(func() {
		for hours := range 11 { // less than LooseGrace: what the workers listed at first stays there
			now := time.Now().Add(time.Duration(hours) * 2 * time.Hour)
			assert.NoError(t, musttest.Err(ledger.New(b.store, shared).RunUpkeep(t.Context(), ledger.Extract, nil, now)))
		}
	})
	all.Wait()
}

func TestACancelledUpkeepSaysSoAndLosesNothing(t *testing.T) {
	b := paidBook(t, ledger.Extract, 0, 20)
	ctx := musttest.EndedContext(t)
	_, err := b.RunUpkeep(ctx, ledger.Extract, listing(), day(30))
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, musttest.Err(b.Expire(ctx, ledger.Extract, listing(key(1)), day(30))), context.Canceled)
	b.want(t, ledger.Extract, 20, all)
}

func TestObjectsThatAreNoEntriesAreLeftAlone(t *testing.T) {
	b := newBook(t)
	b.put(t, ledger.Shorten, 0, 4)
	strange := []string{"ledger/shorten/loose/ab/README", "ledger/shorten/loose/x", "ledger/shorten/merges/torn.json"}
	for _, object := range strange {
		musttest.Get(blob.Write(t.Context(), b.store, object, []byte("{"), blob.Cond{}))(t)
	}
	b.now = day(20)
	b.upkeep(t, ledger.Shorten, listing(key(1)))
	for _, object := range strange {
		assert.Len(t, b.store.Keys(object), 1, "%s went", object)
	}
	b.want(t, ledger.Shorten, 4, func(i int) bool { return i == 1 })
	assert.Equal(t, 1, strings.Count(strings.Join(b.store.Keys("ledger/shorten/loose/"), " "), fmt.Sprint(key(1))), "left")
}

// flipEach changes each byte of the objects below a prefix, and cuts them there. It calls look each time with the names
// that are reported.
func (b *book) flipEach(t *testing.T, prefix string, look func(where string, i int, named *names)) {
	whole := map[string][]byte{}
	for _, object := range b.store.Keys("ledger/") {
		raw, _ := musttest.Get2(blob.Read(t.Context(), b.store, object))(t)
		whole[object] = raw
	}
	flips := 0
	for _, object := range b.store.Keys(prefix) {
		for i := range whole[object] {
			flipped := bytes.Clone(whole[object])
			flipped[i] ^= 1 << (i % 8)
			for _, raw := range [][]byte{flipped, flipped[:i]} {
				musttest.Get(blob.Write(t.Context(), b.store, object, raw, blob.Cond{}))(t)
				b.reopen()
				named := &names{}
				b.OnDamage = named.add
				look(object, i, named)
				for name, raw := range whole { // what does not hold is removed
					musttest.Get(blob.Write(t.Context(), b.store, name, raw, blob.Cond{}))(t)
				}
			}
			flips++
		}
	}
	require.NotZero(t, flips, "below %s", prefix)
}

// Whatever byte of a loose entry is damaged: it is absent, named, removed, and paid for once more.
func TestALooseEntryWithAChangedByteIsAbsent(t *testing.T) {
	for _, task := range ledger.Tasks() {
		if task == ledger.Embed {
			continue
		}
		for _, negative := range []bool{false, true} {
			b := newBook(t)
			result := ledger.Result{Value: []byte(`{"entities":[]}`), Negative: negative}
			musttest.Get(b.Put(t.Context(), task, key(1), 0, result))(t)
			b.flipEach(t, "ledger/"+task+"/loose/", func(where string, i int, named *names) {
				entry, err := b.Get(t.Context(), task, key(1), 0)
				require.True(t, err == nil && entry == nil && len(named.all()) == 1 && len(b.store.Keys(where)) == 0,
					"byte %d of %s: %v, %v, %v", i, where, entry, err, named.all())
			})
			b.flipEach(t, "ledger/"+task+"/loose/", func(where string, i int, _ *names) {
				entry, err := b.Put(t.Context(), task, key(1), 0, ledger.Result{Value: []byte("new")})
				require.True(t, err == nil && string(entry.Value) == "new", "byte %d of %s: %v, %v", i, where, entry, err)
			})
			b.flipEach(t, "ledger/"+task+"/loose/", func(where string, i int, _ *names) {
				packed, err := b.Pack(t.Context(), task, []core.Digest{key(1), key(2)})
				require.True(t, err == nil && packed == 0, "byte %d of %s is packed: %v", i, where, err)
			})
		}
	}
}

func TestAnEntryUnderAnotherNameIsAbsent(t *testing.T) {
	b := newBook(t)
	b.put(t, ledger.Extract, 0, 1)
	object := b.store.Keys("ledger/extract/")[0]
	raw, _ := musttest.Get2(blob.Read(t.Context(), b.store, object))(t)
	b.put(t, ledger.Extract, 1, 2)
	for _, other := range b.store.Keys("ledger/extract/") {
		musttest.Get(blob.Write(t.Context(), b.store, other, raw, blob.Cond{}))(t)
	}
	b.want(t, ledger.Extract, 2, func(i int) bool { return i == 0 })
}

// A pack whose entries lie nowhere else: each reads as it was written, or is absent.
func TestAPackWithAChangedByteGivesNoOtherValue(t *testing.T) {
	b := paidBook(t, ledger.Shorten, 0, 3)
	b.now = day(3)
	b.upkeep(t, ledger.Shorten, nil) // sweeps the loose ones
	require.Empty(t, b.store.Keys("ledger/shorten/loose/"))
	absent := 0
	b.flipEach(t, "ledger/shorten/packs/", func(where string, i int, named *names) {
		for n := range 3 {
			entry := musttest.Get(b.Get(t.Context(), ledger.Shorten, key(n), 0))(t)
			if entry == nil {
				absent++
				require.Len(t, named.all(), 1, "byte %d of %s", i, where)
				continue
			}
			require.Equal(t, value(n), string(entry.Value), "byte %d of %s", i, where)
		}
	})
	assert.NotZero(t, absent)
}

func TestVectorsWithAChangedByteAreAbsent(t *testing.T) {
	texts, vectors := []core.Digest{key(1), key(2)}, [][]float32{{1, 0, 0}, {0, 0.6, 0.8}}
	for _, sealed := range []bool{false, true} {
		b := newBook(t)
		require.NoError(t, b.PutVectors(t.Context(), texts, vectors))
		if sealed {
			require.NoError(t, b.SealTexts(t.Context()))
		}
		read := func() ([][]float32, error) {
			return b.ReadVectors(t.Context(), texts, musttest.Get(b.FindTexts(t.Context(), texts))(t))
		}
		b.flipEach(t, "ledger/embed/", func(where string, i int, named *names) {
			found, err := read()
			require.True(t, err == nil && found[0] == nil && found[1] == nil && len(named.all()) == 1,
				"sealed %t, byte %d of %s: %v, %v, %v", sealed, i, where, found, err, named.all())
			require.NoError(t, b.PutVectors(t.Context(), texts, vectors))
			b.reopen()
			found, err = read()
			require.True(t, err == nil && assert.ObjectsAreEqual(vectors, found), "paid again: %v, %v", found, err)
		})
		if !sealed {
			continue
		}
		b.flipEach(t, "ledger/texts/packs/", func(where string, i int, named *names) {
			found := musttest.Get(read())(t)
			for n := range found {
				require.True(t, found[n] == nil && len(named.all()) == 1 || assert.ObjectsAreEqual(vectors[n], found[n]),
					"byte %d of %s: %v, %v", i, where, found, named.all())
			}
		})
	}
}

// The server is not asked, so it is not at fault.
func TestAStoredVectorThatIsNotFiniteIsDamage(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		b := newBook(t)
		texts := []core.Digest{key(1)}
		require.NoError(t, b.PutVectors(t.Context(), texts, [][]float32{{1, float32(bad)}}))
		b.reopen()
		var named names
		b.OnDamage = named.add
		found, err := b.ReadVectors(t.Context(), texts, musttest.Get(b.FindTexts(t.Context(), texts))(t))
		assert.True(t, err == nil && found[0] == nil && len(named.all()) == 1, "%v: %v, %v, %v", bad, found, err, named.all())
	}
}

var errPaid = errors.New("it would be paid for again")

// What is removed lies nowhere any more, in no pack, no former copy of one and not loose; everything else is found,
// also by a process that listed the packs before, and not paid for again.
func TestWhatIsRemovedIsGoneAndNothingElseIsPaidForAgain(t *testing.T) {
	b := newBook(t)
	for first := 0; first < 120; first += 10 { // more packs than a look-up should read
		b.pay(t, ledger.Extract, first, first+10)
	}
	b.put(t, ledger.Extract, 120, 125)
	musttest.Get(b.Merge(t.Context(), ledger.Extract, day(0)))(t)
	other := ledger.New(b.store, newClaims())
	has := func(l *ledger.Ledger, i int) bool {
		entry, paid, err := l.Do(t.Context(), ledger.Extract, key(i), 0, func(context.Context) (ledger.Result, error) {
			return ledger.Result{}, errPaid
		})
		require.True(t, (err == nil || errors.Is(err, errPaid)) && !paid, "%v", err)
		return err == nil && bytes.Equal(entry.Value, []byte(value(i)))
	}
	gone := map[core.Digest]bool{key(3): true, key(57): true, key(122): true, key(999): true}
	require.True(t, has(other, 3) && has(b.Ledger, 57), "nothing is there")
	removed, err := b.Remove(t.Context(), ledger.Extract, gone, day(1))
	require.True(t, err == nil && removed != 0, "%v %v", removed, err)
	for name, l := range map[string]*ledger.Ledger{"own": b.Ledger, "other": other, "new": ledger.New(b.store, newClaims())} {
		for i := range 125 {
			if has(l, i) == gone[key(i)] && (name != "other" || !gone[key(i)]) { // the other may remember what it read
				t.Errorf("%s process, entry %d: removed %v", name, i, gone[key(i)])
			}
		}
	}
	for info, err := range b.store.List(t.Context(), "ledger/", "") {
		require.NoError(t, err)
		raw, _ := musttest.Get2(blob.Read(t.Context(), b.store, info.Key))(t)
		held := bytes.Contains(raw, []byte(key(57).String()))
		for row, err := range artifact.ScanAll(t.Context(), b.store, info.Key) {
			if err != nil {
				break // no row file
			}
			held = held || gone[parsed(string(row.Key))]
		}
		assert.False(t, held, "%s still has it", info.Key)
	}
	assert.Equal(t, int64(0), musttest.Get(b.Remove(t.Context(), ledger.Extract, gone, day(1)))(t), "once more")
}

func parsed(name string) (out core.Digest) {
	_ = out.UnmarshalText([]byte(name))
	return out
}

func TestATextLeavesTheAnswerThatHoldsItAndTheOthersStay(t *testing.T) {
	b := newBook(t)
	seller := &shop{sold: map[core.Digest]int{}}
	all := texts(0, 250)
	require.NoError(t, seller.buy(t.Context(), b.Ledger, all))
	gone := map[core.Digest]bool{all[5]: true, all[120]: true}
	for _, text := range all[200:] {
		gone[text] = true
	}
	require.Equal(t, int64(52), musttest.Get(b.Remove(t.Context(), ledger.Embed, gone, day(1)))(t))
	stays := func(i int) bool { return !gone[all[i]] }
	has(t, b.Ledger, all, stays)
	has(t, ledger.New(b.store, newClaims()), all, stays)
	for info, err := range b.store.List(t.Context(), "ledger/", "") {
		require.NoError(t, err)
		raw, _, err := blob.Read(t.Context(), b.store, info.Key)
		assert.True(t, err == nil && !bytes.Contains(raw, all[5][:]), "%s still has it, %v", info.Key, err)
	}
	assert.Equal(t, int64(0), musttest.Get(b.Remove(t.Context(), ledger.Embed, gone, day(1)))(t), "once more")
}

func TestLookUpsInADistantPackReadEachFrameOnceAndSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const entries = 1000
		near := blobmemory.New()
		noise := rand.New(rand.NewPCG(1, 2))
		stored := func(yield func(ledger.Stored, error) bool) {
			for i := range entries { // as many first bytes as there are, so that keys are spread over the frames
				key := core.Digest{byte(i >> 2), byte(i << 6)}
				value := make([]byte, 1000)
				for j := range value {
					value[j] = byte(noise.Uint32())
				}
				if !yield(ledger.Stored{Key: key, Value: append(value, fmt.Sprint(i)...)}, nil) {
					return
				}
			}
		}
		packed := musttest.Get(ledger.New(near, newClaims()).PackEntries(t.Context(), ledger.Extract, stored))(t)
		require.Equal(t, entries, packed)
		requests := distance.New(15 * time.Millisecond)
		l := ledger.New(distance.Blob(near, requests), newClaims())
		if _, err := l.Get(t.Context(), ledger.Extract, key(0), 0); err != nil { // it opens the packs; others wait for it
			t.Fatal(err)
		}
		for range 2 {
			var all sync.WaitGroup
			for i := range entries {
				all.Go(func() {
					key := core.Digest{byte(i >> 2), byte(i << 6)}
					entry, err := l.Get(t.Context(), ledger.Extract, key, 0)
					assert.True(t, err == nil && entry != nil && entry.Packed && string(entry.Value[1000:]) == fmt.Sprint(i),
						"entry %d: %v, %v", i, entry != nil, err)
				})
			}
			all.Wait()
		}
		counted := requests.Take()
		assert.True(t, counted.Chain <= 14 && counted.Of("ledger/extract/packs", distance.Get) <= 30,
			"in a chain of %d:\n%s", counted.Chain, counted)
	})
}
