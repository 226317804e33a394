package retrieve_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/index/graph"
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/retrieve/election"
	"github.com/unweaver/unweaver/internal/retrieve/fuse"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// synthetic returns a search side of n documents whose words follow Zipf's law (exponent 1.1; 200,000 words, the
// hundred most frequent left out as function words are), and a source of questions.
func synthetic(b *testing.B, n, length int, seed uint64) (*lexical.Index, func() []string) {
	b.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	z := rand.NewZipf(r, 1.1, 2, 200_000)
	word := func() string {
		for {
			if w := z.Uint64(); w >= 100 {
				return fmt.Sprintf("w%d", w)
			}
		}
	}
	bl := postings.NewBuilder()
	defer bl.Close()
	for range n {
		names := make([]string, 1+r.IntN(2*length))
		for i := range names {
			names[i] = word()
		}
		require.NoError(b, bl.Add(names))
	}
	path := filepath.Join(b.TempDir(), "side")
	file, err := os.Create(path)
	require.NoError(b, err)
	w := mapped.NewWriter(file, "search", 1, nil)
	st, err := bl.Write(w, "x_")
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = file.Close()
	}
	require.NoError(b, err)
	s, err := mapped.Open(path, "search", 1)
	require.NoError(b, err)
	b.Cleanup(s.Close)
	index, err := lexical.Compose([]lexical.Part{{Side: postings.Open(s, "x_", st)}}, nil)
	require.NoError(b, err)
	return index, func() []string {
		q := make([]string, 12)
		for i := range q {
			q[i] = word()
		}
		return q
	}
}

// bipartite has so many classes to a chunk; nine of ten classes are mentioned once, the others by a power law up to a
// tenth of the chunks, as measured on the recorded extractions of MuSiQue.
func bipartite(chunks, perChunk int) *walk.Graph {
	r := rand.New(rand.NewPCG(3, 3))
	zipf := rand.NewZipf(r, 1.6, 1, uint64(chunks/10))
	g := &walk.Graph{Adjacency: graph.Adjacency{ClassOff: []uint64{0}, ChunkOff: []uint64{0}}}
	of := make([][]uint32, chunks)
	for c := range perChunk * chunks {
		n := 1
		if c%10 == 0 {
			n = 2 + int(zipf.Uint64())
		}
		at := len(g.ClassTo)
		for range n {
			if k := uint32(r.IntN(chunks)); n > 1000 || !slices.Contains(g.ClassTo[at:], k) {
				g.ClassTo = append(g.ClassTo, k)
			}
		}
		slices.Sort(g.ClassTo[at:])
		g.ClassTo = append(g.ClassTo[:at], slices.Compact(g.ClassTo[at:])...)
		for _, k := range g.ClassTo[at:] {
			of[k] = append(of[k], uint32(c))
		}
		g.ClassOff = append(g.ClassOff, uint64(len(g.ClassTo)))
	}
	for _, cs := range of {
		g.ChunkTo = append(g.ChunkTo, cs...)
		g.ChunkOff = append(g.ChunkOff, uint64(len(g.ChunkTo)))
	}
	return g
}

// BenchmarkHybrid measures hybrid without its dense list and without stores: BM25 over chunks and classes, fusion,
// walk, ranking, at the sizes S (100,000 chunks, 1,000,000 classes) and, where UNWEAVER_TEST_BENCH_M is set, M
// (1,000,000 and 7,000,000).
func BenchmarkHybrid(b *testing.B) {
	b.Run("S", func(b *testing.B) { hybridAt(b, 100_000, 10) })
	if os.Getenv("UNWEAVER_TEST_BENCH_M") != "" {
		b.Run("M", func(b *testing.B) { hybridAt(b, 1_000_000, 7) })
	}
}

func hybridAt(b *testing.B, chunks, perChunk int) {
	begin := time.Now()
	kc, ask := synthetic(b, chunks, 80, 1)
	cc, _ := synthetic(b, perChunk*chunks, 20, 2)
	built := time.Since(begin).Seconds()
	g := bipartite(chunks, perChunk)
	var ms, walked, summed []float64
	pushes := 0
	for b.Loop() {
		names := ask()
		start := time.Now()
		kl, cl := fuse.List{Lexical: true}, fuse.List{Lexical: true}
		done := make(chan struct{})
		go func() {
			for _, h := range cc.Search(names, 100, nil, nil) {
				cl.Hits = append(cl.Hits, fuse.Hit{ID: h.Doc, Score: h.Score})
			}
			close(done)
		}()
		for _, h := range kc.Search(names, 100, nil, nil) {
			kl.Hits = append(kl.Hits, fuse.Hit{ID: h.Doc, Score: h.Score})
		}
		<-done
		at := time.Now()
		s := fuse.MakeSeeds(fuse.Default, []fuse.List{kl}, []fuse.List{cl}, g.ChunksOf, fuse.Titles{})
		scoring := time.Now()
		steps := byWords(kc.ScoreAll(names), cc.ScoreAll(names), kl, cl)
		summed = append(summed, float64(time.Since(scoring).Microseconds())/1000)
		mass := g.RunToChunks(s.Start, fuse.Default.Damping, fuse.Eps, steps)
		fuse.Rank(fuse.Default, mass.Chunks, s.P, 10)
		walked = append(walked, float64(time.Since(at).Microseconds())/1000)
		ms = append(ms, float64(time.Since(start).Microseconds())/1000)
		pushes += mass.Pushes
	}
	slices.Sort(ms)
	slices.Sort(walked)
	slices.Sort(summed)
	b.ReportMetric(summed[len(summed)/2], "scores-p50-ms")
	b.ReportMetric(ms[len(ms)/2], "p50-ms")
	b.ReportMetric(ms[len(ms)*99/100], "p99-ms")
	b.ReportMetric(walked[len(walked)/2], "walk-p50-ms")
	b.ReportMetric(float64(pushes)/float64(len(ms)), "pushes/query")
	b.ReportMetric(built, "index-build-s")
}

// byWords returns the steps of hybrid without titles.
func byWords(chunks, classes *lexical.Scores, chunkList, classList fuse.List) walk.Steps {
	weigh := func(scores *lexical.Scores, list fuse.List, floor float64) func(uint32, []uint32, []float64) {
		return func(_ uint32, to []uint32, weights []float64) {
			for i, one := range to {
				weights[i] = floor + scores.ScoreOf(one)/list.Hits[0].Score
			}
		}
	}
	return walk.Steps{
		ToChunks:  weigh(chunks, chunkList, fuse.Default.ChunkFloor),
		ToClasses: weigh(classes, classList, fuse.Default.ClassFloor),
	}
}

// BenchmarkPassagesAtS measures one BM25 search over 100,000 chunks of 80 words on average, for 12 words.
func BenchmarkPassagesAtS(b *testing.B) {
	begin := time.Now()
	index, ask := synthetic(b, 100_000, 80, 1)
	built := time.Since(begin).Seconds()
	var ms []float64
	for b.Loop() {
		q := ask()
		start := time.Now()
		index.Search(q, 100, nil, nil)
		ms = append(ms, float64(time.Since(start).Microseconds())/1000)
	}
	slices.Sort(ms)
	b.ReportMetric(ms[len(ms)/2], "p50-ms")
	b.ReportMetric(ms[len(ms)*99/100], "p99-ms")
	b.ReportMetric(built, "index-build-s")
}

// BenchmarkElections measures elections of k0 voters over candidates, with ballots as of mostly rare classes.
func BenchmarkElections(b *testing.B) {
	for _, k0 := range []int{10, 100, 1000} {
		for _, candidates := range []int{10, 1000, 100_000} {
			r := rand.New(rand.NewPCG(uint64(k0), uint64(candidates)))
			profile := election.Profile{Candidates: candidates}
			for range k0 {
				var ballot []uint32
				for range max(1, candidates/k0) {
					ballot = append(ballot, uint32(r.IntN(candidates)))
				}
				slices.Sort(ballot)
				profile.Ballots = append(profile.Ballots, slices.Compact(ballot))
			}
			for _, rule := range []string{election.RuleAV, election.RuleSeqPAV, election.RulePhragmen, election.RuleMES} {
				b.Run(fmt.Sprintf("%s/voters=%d/candidates=%d", rule, k0, candidates), func(b *testing.B) {
					for b.Loop() {
						_, err := election.Elect(b.Context(), rule, profile, election.Options{Seats: 5})
						require.True(b, err == nil, "%v", err)
					}
				})
			}
			b.Run(fmt.Sprintf("weighted/voters=%d/candidates=%d", k0, candidates), func(b *testing.B) {
				for b.Loop() {
					election.ElectWeighted(profile.Ballots, k0, 5)
				}
			})
		}
	}
}
