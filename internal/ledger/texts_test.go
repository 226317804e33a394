package ledger_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

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
	for i, vector := range musttest.Get(l.ReadVectors(t.Context(), all, musttest.Get(l.FindTexts(t.Context(), all))(t)))(t) {
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

func TestWhatCanBeReadAgainIsForgottenWhenNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ledger.New(artifacttest.New(), memory.NewClaims())
		vectors := [][]float32{{1}, {2}, {3}, {4}}
		inIndex, lacking := texts(0, 4), texts(4, 8)
		put := func(of []core.Digest) { require.NoError(t, l.PutVectors(t.Context(), of, vectors)) }
		look := func(of []core.Digest) {
			for i, vector := range musttest.Get(l.ReadVectors(t.Context(), of, musttest.Get(l.FindTexts(t.Context(), of))(t)))(t) {
				assert.True(t, len(vector) == 1 && vector[0] == vectors[i][0],
					"the vector of text %d is %v, want %v", i, vector, vectors[i])
			}
		}
		put(inIndex)
		require.NoError(t, l.SealTexts(t.Context()))
		put(lacking)
		for range 2 {
			look(inIndex)
			look(lacking)
			time.Sleep(10 * time.Second)
			look(lacking)
			time.Sleep(10 * time.Second)
			if answers, held := l.Remembered(); answers != 2 || held != 8 {
				t.Errorf("%d answers and %d vectors are remembered while somebody looks, want 2 and 8", answers, held)
			}
			time.Sleep(10 * time.Second)
			if answers, held := l.Remembered(); answers != 1 || held != 0 {
				t.Errorf("%d answers and %d vectors are remembered, want 1, which the index lacks, and 0", answers, held)
			}
		}
	})
}
