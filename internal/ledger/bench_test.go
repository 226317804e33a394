package ledger_test

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/distance"
)

// answerWords are what the answers of BenchmarkUpkeep are made of.
var answerWords = []string{
	`{"name":"`, `","description":"`, `"},`, "harbour ", "salt ", "lake ", "built ", "ships ", "carry ", "town ", "river ",
	"of the ", "in 19", "Port ", "Alma ", "Ruiz ", "Carla ", "Tolmin ", "Verin ", "north ", "mine ", "tin ", "coast ",
}

// answerOf returns an answer of about so many bytes.
func answerOf(n, size int) []byte {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	var out []byte
	for len(out) < size {
		out = append(out, answerWords[random.IntN(len(answerWords))]...)
		if random.IntN(8) == 0 {
			out = strconv.AppendInt(out, int64(random.Uint32()), 36)
		}
	}
	return out
}

// keyOf returns a key that is spread as digests are.
func keyOf(n int) core.Digest {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], uint64(n))
	return core.Sum("bench", string(raw[:]))
}

// BenchmarkUpkeep says what the upkeep of one task costs in the nights after a first build, whose shards of 5,000 have
// a pack each: of answers about chunks, and of the index of embedded texts. UNWEAVER_BENCH_ENTRIES is how many entries
// there are.
func BenchmarkUpkeep(b *testing.B) {
	entries := 100_000
	if asked := os.Getenv("UNWEAVER_BENCH_ENTRIES"); asked != "" {
		entries = must(strconv.Atoi(asked))
	}
	b.Run("answers", func(b *testing.B) { benchmarkUpkeep(b, ledger.Extract, entries, 1700) })
	b.Run("texts", func(b *testing.B) { benchmarkUpkeep(b, ledger.Texts, entries, 36) })
}

func benchmarkUpkeep(b *testing.B, task string, entries, size int) {
	const (
		shard = 5000
		wait  = 15 * time.Millisecond // of each request
	)
	for b.Loop() {
		memory := artifacttest.New()
		now := day(0)
		memory.Now = func() time.Time { return now }
		requests := distance.New(wait)
		store := distance.Blob(memory, requests)
		l := ledger.New(store, newClaims())
		for from := 0; from < entries; from += shard {
			stored := make([]ledger.Stored, 0, shard)
			for n := from; n < min(from+shard, entries); n++ {
				stored = append(stored, ledger.Stored{Key: keyOf(n), Value: answerOf(n, size)})
			}
			slices.SortFunc(stored, func(x, y ledger.Stored) int { return bytes.Compare(x.Key[:], y.Key[:]) })
			source := func(yield func(ledger.Stored, error) bool) {
				for _, entry := range stored {
					if !yield(entry, nil) {
						return
					}
				}
			}
			must(l.PackEntries(b.Context(), task, source))
		}
		listed := func(from int) iter.Seq2[core.Digest, error] {
			return func(yield func(core.Digest, error) bool) {
				for n := from; n < entries; n++ {
					if !yield(keyOf(n), nil) {
						return
					}
				}
			}
		}
		for _, night := range []struct {
			name string
			day  int
			gone int // entries that no generation lists any more
		}{
			{"merge", 0, 0}, // the packs of the first build become few
			{"sweep", 2, 0}, // and go, with their loose entries
			{"", 4, 0},      // the ledger's clock follows that of a machine by two days a night
			{"", 6, 0},
			{"", 8, 0},
			{"", 10, 0},
			{"", 12, 0},
			{"look", 14, 0},           // all entries are looked through, and stay
			{"drop", 16, entries / 8}, // an eighth goes
			{"none", 16, entries / 8}, // the second run of a day
		} {
			now = day(night.day)
			requests.Take()
			begin := time.Now()
			kept, err := l.RunUpkeep(b.Context(), task, listed(night.gone), now)
			require.True(b, err == nil && !kept.Busy, "%v %v %v", night.name, kept, err)
			passed, counted := time.Since(begin), requests.Take()
			if night.name == "" {
				continue
			}
			b.ReportMetric(passed.Seconds(), night.name+"-s")
			b.ReportMetric(float64(counted.Of("")), night.name+"-requests")
			b.ReportMetric(float64(counted.Chain), night.name+"-chain")
			b.Logf("%s: %s, %+v\n%s", night.name, passed, kept, counted)
		}
	}
}

// Reading an entry of 4 KiB, and the answer to a request of 256 texts of 1,024 numbers, in memory.
func BenchmarkLooseEntriesAreRead(b *testing.B) {
	book := &book{store: artifacttest.New()}
	book.reopen()
	must(book.Put(b.Context(), ledger.Extract, key(0), 0, ledger.Result{Value: make([]byte, 4<<10)}))
	b.Run("extract", func(b *testing.B) {
		for b.Loop() {
			must(book.Get(b.Context(), ledger.Extract, key(0), 0))
		}
	})
	texts, vectors := make([]core.Digest, 256), make([][]float32, 256)
	for i := range texts {
		texts[i], vectors[i] = key(i), make([]float32, 1024)
		vectors[i][i] = 1
	}
	require.NoError(b, book.PutVectors(b.Context(), texts, vectors))
	b.Run("embed", func(b *testing.B) {
		for b.Loop() {
			book.reopen()
			objects := must(book.FindTexts(b.Context(), texts))
			found, err := book.ReadVectors(b.Context(), texts, objects)
			require.True(b, err == nil && len(found) == 256 && found[0] != nil, "%v", err)
		}
	})
}
