package ledger_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
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
	t.Helper()
	objects := must(l.FindTexts(t.Context(), all))
	vectors := must(l.ReadVectors(t.Context(), all, objects))
	for i, vector := range vectors {
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
		group.Go(func() {
			assert.NoError(t, seller.buy(t.Context(), l, mine))
		})
	}
	group.Wait()
	assert.True(t, seller.twice() == 0 && len(seller.sold) == 400,
		"%d texts, %d of them twice", len(seller.sold), seller.twice())
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
	if marks := b.store.Keys("ledger/texts/loose/"); len(marks) != 0 || kept.Gathered != 250 {
		t.Errorf("%d marks after %+v", len(marks), kept)
	}
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

// distant is a store whose every request takes a while.
type distant struct {
	*artifacttest.Memory
	wait time.Duration
}

func (d distant) Put(ctx context.Context, key string, r io.Reader, n int64, c blob.Cond) (blob.Info, error) {
	time.Sleep(d.wait)
	return d.Memory.Put(ctx, key, r, n, c)
}

func (d distant) Get(ctx context.Context, key string, r blob.Range) (io.ReadCloser, blob.Info, error) {
	time.Sleep(d.wait)
	return d.Memory.Get(ctx, key, r)
}

func (d distant) Stat(ctx context.Context, key string) (blob.Info, error) {
	time.Sleep(d.wait)
	return d.Memory.Stat(ctx, key)
}

func (d distant) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return d.ListRange(ctx, prefix, after, "")
}

func (d distant) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	time.Sleep(d.wait)
	return d.Memory.ListRange(ctx, prefix, after, until)
}

// far returns a distant store with n texts in an index, each answer as large as a request.
func far(b testing.TB, n int) distant {
	store := distant{artifacttest.New(), 0}
	l, seller := ledger.New(store, memory.NewClaims()), &shop{sold: map[core.Digest]int{}}
	require.NoError(b, seller.buy(b.Context(), l, texts(0, n)))
	require.NoError(b, l.SealTexts(b.Context()))
	store.wait = 15 * time.Millisecond
	store.Reset()
	return store
}

func requests(store distant) float64 {
	return float64(store.Calls(artifacttest.Get) + store.Calls(artifacttest.Stat) + store.Calls(artifacttest.List) +
		store.Calls(artifacttest.Put))
}

// Looking up costs about two requests for an answer of a hundred texts, and hardly any for texts that are new.
func TestALookUpCostsRequestsByTheAnswerNotByTheText(t *testing.T) {
	for name, from := range map[string]int{"all are there": 0, "all are new": 1 << 20} {
		store := far(t, 10_000)
		store.wait = 0
		l := ledger.New(store, memory.NewClaims())
		for at := 0; at < 10_000; at += 1000 {
			has1, err := l.FindTexts(t.Context(), texts(from+at, from+at+1000))
			require.True(t, err == nil && has1[0].IsZero() == (from > 0), "%v", err)
		}
		asked := requests(store)
		assert.False(t, asked > 350 || (from > 0 && asked > 30), "%s: %.0f requests for 10,000 texts", name, asked)
	}
}

func BenchmarkLookUpOf10000TextsFarAway(b *testing.B) {
	for name, from := range map[string]int{"hits": 0, "misses": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			store := far(b, 100_000)
			for b.Loop() {
				store.Reset()
				l := ledger.New(store, memory.NewClaims())
				for at := 0; at < 10_000; at += 1000 {
					must(l.FindTexts(b.Context(), texts(from+at, from+at+1000)))
				}
			}
			b.ReportMetric(requests(store)/10, "requests/1000texts")
		})
	}
}
