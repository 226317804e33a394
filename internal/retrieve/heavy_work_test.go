package retrieve_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/retrieve/election"
	"github.com/unweaver/unweaver/internal/retrieve/fuse"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/testkit/searchtest"
)

// crowded returns an index of many classes that share chunks.
func crowded(t testing.TB) retrievetest.Opened {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	var documents []retrievetest.Document
	for i := range 140 {
		var entities []string
		for n := range 3 {
			entities = append(entities, fmt.Sprintf("Ship %d", 3*i+n), fmt.Sprintf("Harbour %d", random.IntN(40)))
		}
		slices.Sort(entities)
		documents = append(documents, retrievetest.Document{Key: fmt.Sprintf("%03d", i), Title: fmt.Sprintf("Log %d", i),
			Chunks: []retrievetest.Chunk{{
				Text: fmt.Sprintf("Ship %d left Harbour %d on a calm day. Ship %d carried coal to Harbour %d. ", i, i%9, i+1,
					i%7), Entities: slices.Compact(entities),
			}}})
	}
	return retrievetest.Open(t, documents, retrievetest.Options{Facts: true})
}

// largest gives the queries of a method at its largest parameters: each of its rules, with every choice of each
// parameter, numbers at both ends, and whole numbers at the upper one.
func largest(t *testing.T, base retrieve.Query, spec retrieve.Spec) []retrieve.Query {
	t.Helper()
	base.TopEntities, base.TopChunks = 1000, 100
	out := []retrieve.Query{base}
	for _, rule := range spec.Rules {
		base.Rule = rule.Name
		out = append(out, base)
	}
	few := base
	few.TopChunks, few.Rule = 2, "pav" // exactly
	if len(spec.Rules) > 0 {
		out = append(out, few)
	}
	for _, param := range spec.Params {
		var values []any
		switch param.Schema["type"] {
		case "string":
			for _, word := range param.Schema["enum"].([]string) {
				values = append(values, word)
			}
		case "boolean":
			values = []any{true, false}
		case "number":
			values = []any{param.Schema["minimum"], param.Schema["maximum"]}
		case "integer":
			values = []any{float64(param.Schema["maximum"].(int))}
		default:
			continue
		}
		var next []retrieve.Query
		for _, query := range out {
			for _, value := range values {
				parsed, why := param.Parse(value)
				require.True(t, why == "", "%s %s: %s", spec.Name, param.Name, why)
				wider := query
				wider.Params = retrieve.Params{param.Name: parsed}
				maps.Copy(wider.Params, query.Params)
				if wider.Params["summaries"] != false || wider.Params.Int("themes") == 0 { // themes are read by their summaries
					next = append(next, wider)
				}
			}
		}
		out = next
	}
	return out
}

func TestEveryMethodStopsSoonAfterItsCallerLeft(t *testing.T) {
	o := crowded(t)
	for _, method := range methods.Registry().All() {
		spec := method.Spec()
		base := o.Query(t, spec.Name, "Which ship left Harbour 7?")
		for _, query := range largest(t, base, spec) {
			run := func(ctx context.Context) error {
				_, err := o.Searcher().Run(ctx, o.Generation, query)
				return err
			}
			least := 3
			if spec.Name == retrieve.Vector || spec.Name == retrieve.BM25 {
				least = 0
			}
			searchtest.CheckEnds(t, fmt.Sprint(spec.Name, query.Rule, query.Params), least, 100, 2, run)
		}
	}
}

// held is a context that is looked at only once it is let go.
type held struct {
	context.Context
	once   sync.Once
	looked chan<- struct{}
	let    <-chan struct{}
}

func (h *held) Err() error {
	h.once.Do(func() {
		h.looked <- struct{}{}
		<-h.let
	})
	return nil
}

// BenchmarkOrdinaryBesideSixHeavy asks ordinary questions while six clients ask heavy ones, one after another.
func BenchmarkOrdinaryBesideSixHeavy(b *testing.B) {
	o := crowded(b)
	searcher := o.Searcher()
	searcher.Heavy = &retrieve.Heavy{}
	ordinary, heavy := o.Query(b, retrieve.Hybrid, "Which ship left Harbour 7?"), o.Query(b, retrieve.Aligned, "Coal?")
	heavy.TopEntities, heavy.MinSim = 1000, -1
	ask := func() float64 {
		var took []float64
		for range b.N {
			start := time.Now()
			_, err := searcher.Run(b.Context(), o.Generation, ordinary)
			require.True(b, err == nil, "%v", err)
			took = append(took, time.Since(start).Seconds()*1000)
		}
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	alone := ask()
	ctx, stop := context.WithCancel(b.Context())
	var six sync.WaitGroup
	var answered, refused atomic.Int64
	for range 6 {
		six.Go(func() {
			for ctx.Err() == nil {
				switch _, err := searcher.Run(ctx, o.Generation, heavy); {
				case err == nil:
					answered.Add(1)
				case fault.Is(err, fault.RateLimited):
					refused.Add(1)
					select {
					case <-time.After(fault.RetryAfter(err)):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	beside := ask()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	stop()
	six.Wait()
	b.ReportMetric(alone, "alone-p99-ms")
	b.ReportMetric(beside, "beside-p99-ms")
	b.ReportMetric(float64(memory.Sys)/(1<<20), "MiB")
	b.ReportMetric(float64(answered.Load()), "answered")
	b.ReportMetric(float64(refused.Load()), "refused")
}

func TestFewHeavyQuestionsAreAnsweredAtOnceAndOrdinaryOnesAlways(t *testing.T) {
	o := crowded(t)
	searcher := o.Searcher()
	searcher.Heavy = &retrieve.Heavy{}
	heavy := o.Query(t, retrieve.Aligned, "Which ship left Harbour 7?")
	heavy.TopEntities = 1000
	looked, let := make(chan struct{}), make(chan struct{})
	var under sync.WaitGroup
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		under.Go(func() {
			ctx := &held{Context: t.Context(), looked: looked, let: let}
			_, err := searcher.Run(ctx, o.Generation, heavy)
			assert.NoError(t, err)
		})
		<-looked
	}
	_, err := searcher.Run(t.Context(), o.Generation, heavy)
	assert.True(t, fault.Is(err, fault.RateLimited) && fault.RetryAfter(err) > 0, "one heavy question more: %v", err)
	for _, method := range retrievetest.ListPlain() {
		_, err = searcher.Run(t.Context(), o.Generation, o.Query(t, method, "Which ship left Harbour 7?"))
		assert.True(t, err == nil, "an ordinary question by %s beside them: %v", method, err)
	}
	close(let)
	under.Wait()
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = searcher.Run(gone, o.Generation, heavy)
	assert.True(t, errors.Is(err, context.Canceled), "one that left: %v", err) // gives its place back, too
	_, err = searcher.Run(t.Context(), o.Generation, heavy)
	assert.True(t, err == nil, "once they are answered: %v", err)
}

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
	documents := make([][]string, n)
	for i := range documents {
		documents[i] = make([]string, 1+r.IntN(2*length))
		for j := range documents[i] {
			documents[i][j] = word()
		}
	}
	index, err := lexical.Compose([]lexical.Part{{Side: searchtest.OpenSide(b, documents)}}, nil)
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
	lists := make([][]uint32, perChunk*chunks)
	for c := range lists {
		n := 1
		if c%10 == 0 {
			n = 2 + int(zipf.Uint64())
		}
		for range n {
			lists[c] = append(lists[c], uint32(r.IntN(chunks)))
		}
		slices.Sort(lists[c])
		lists[c] = slices.Compact(lists[c])
	}
	return &walk.Graph{Adjacency: searchtest.MakeGraph(lists, chunks)}
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
	h, ask := newWordsAndWalk(b, chunks, perChunk)
	built := time.Since(begin).Seconds()
	var ms, walked, summed []float64
	pushes := 0
	for b.Loop() {
		names := ask()
		start := time.Now()
		mass, steps, scores := h.answer(names, nil)
		ms = append(ms, float64(time.Since(start).Microseconds())/1000)
		walked, summed = append(walked, steps), append(summed, scores)
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

// BenchmarkFilteredHybridAtS asks each question of BenchmarkHybrid without a filter and with one, and gives the ratio.
func BenchmarkFilteredHybridAtS(b *testing.B) {
	h, ask := newWordsAndWalk(b, 100_000, 10)
	set := documentsAtS(b, 100_000, nil)
	for _, one := range filtersAtS(b) {
		b.Run(one.name, func(b *testing.B) {
			var plain, filtered []float64
			generation := retrieve.GenerationOf(set) // which remembers its filters
			for b.Loop() {
				names := ask()
				start := time.Now()
				h.answer(names, nil)
				between := time.Now()
				h.answer(names, func() func(uint32) bool { return retrieve.AllowedBy(generation, one.filter) })
				plain = append(plain, float64(between.Sub(start).Microseconds())/1000)
				filtered = append(filtered, float64(time.Since(between).Microseconds())/1000)
			}
			slices.Sort(plain)
			slices.Sort(filtered)
			middle, last := len(plain)/2, len(plain)*99/100
			b.ReportMetric(filtered[middle], "p50-ms")
			b.ReportMetric(filtered[last], "p99-ms")
			b.ReportMetric(filtered[middle]/plain[middle], "p50-ratio")
			b.ReportMetric(filtered[last]/plain[last], "p99-ratio")
		})
	}
}

// wordsAndWalk is hybrid without its dense list and without stores.
type wordsAndWalk struct {
	chunks, classes *lexical.Index
	graph           *walk.Graph
}

func newWordsAndWalk(b *testing.B, chunks, perChunk int) (h wordsAndWalk, ask func() []string) {
	h.chunks, ask = synthetic(b, chunks, 80, 1)
	h.classes, _ = synthetic(b, perChunk*chunks, 20, 2)
	h.graph = bipartite(chunks, perChunk)
	return h, ask
}

// answer ranks the chunks that a filter leaves, all where it is nil, and gives the milliseconds of the walk and of the
// scores in it.
func (h wordsAndWalk) answer(
	names []string, filter func() (allows func(uint32) bool),
) (mass walk.Mass, walked, summed float64) {
	chunksOf := h.graph.ChunksOf
	var allows, anyAllowed func(uint32) bool
	if filter != nil {
		allows = filter()
		chunksOf = func(class uint32) (out []uint32) {
			for _, chunk := range h.graph.ChunksOf(class) {
				if allows(chunk) {
					out = append(out, chunk)
				}
			}
			return out
		}
		beside := filter()
		anyAllowed = func(class uint32) bool { return slices.ContainsFunc(h.graph.ChunksOf(class), beside) }
	}
	kl, cl := fuse.List{Lexical: true}, fuse.List{Lexical: true}
	done := make(chan struct{})
	go func() {
		for _, hit := range h.classes.Search(names, 100, anyAllowed, nil) {
			cl.Hits = append(cl.Hits, fuse.Hit{ID: hit.Doc, Score: hit.Score})
		}
		close(done)
	}()
	for _, hit := range h.chunks.Search(names, 100, allows, nil) {
		kl.Hits = append(kl.Hits, fuse.Hit{ID: hit.Doc, Score: hit.Score})
	}
	<-done
	at := time.Now()
	s := fuse.MakeSeeds(fuse.Default, []fuse.List{kl}, []fuse.List{cl}, chunksOf, fuse.Titles{})
	scoring := time.Now()
	steps := byWords(h.chunks.ScoreAll(names), h.classes.ScoreAll(names), kl, cl)
	summed = float64(time.Since(scoring).Microseconds()) / 1000
	if filter == nil {
		mass = h.graph.Run(s.Start, fuse.Default.Damping, fuse.Eps, walk.View{}, steps)
	} else {
		mass = h.graph.Run(s.Start, fuse.Default.Damping, fuse.Eps, walk.View{Chunk: allows}, steps)
	}
	fuse.Rank(fuse.Default, mass.Chunks, s.P, 10)
	return mass, float64(time.Since(at).Microseconds()) / 1000, summed
}

// byWords returns the steps of hybrid without titles.
func byWords(chunks, classes *lexical.Scores, chunkList, classList fuse.List) walk.Steps {
	weigh := func(scores *lexical.Scores, list fuse.List, floor float64) func(uint32, []uint32, []float64) {
		return func(_ uint32, to []uint32, weights []float64) {
			for i, one := range to {
				if weights[i] = floor; len(list.Hits) > 0 {
					weights[i] += scores.ScoreOf(one) / list.Hits[0].Score
				}
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
