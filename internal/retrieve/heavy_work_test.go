package retrieve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// looks is a context that ends after so many looks at it. Looks may come from several goroutines.
type looks struct {
	context.Context
	mu         sync.Mutex
	left, late int // late: looks after its end
}

func (l *looks) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left--; l.left >= 0 {
		return nil
	}
	l.late++
	return context.Canceled
}

// crowded returns an index of many classes that share chunks.
func crowded(t testing.TB) opened {
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
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "sample", documents, retrievetest.Options{Facts: true})
	generation, err := openBuilt(t.Context(), stores, built)
	require.NoError(t, err)
	t.Cleanup(generation.Close)
	return opened{stores, built, generation}
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
				for name, value := range query.Params {
					wider.Params[name] = value
				}
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
		base := o.query(t, spec.Name, "Which ship left Harbour 7?")
		if spec.Reader != nil {
			base = o.askFacts(t, o.embedder(), base.Text)
		}
		for _, query := range largest(t, base, spec) {
			run := func(ctx context.Context) error {
				_, err := o.searcher().Run(ctx, o.generation, query)
				return err
			}
			whole := &looks{Context: t.Context(), left: 1 << 30}
			require.NoError(t, run(whole), "%v %v %v", spec.Name, query.Rule, query.Params)
			all := 1<<30 - whole.left
			search := spec.Name == retrieve.Vector || spec.Name == retrieve.BM25
			assert.True(t, all >= 3 || search, "%s %s %v: only %d looks at the context", spec.Name, query.Rule, query.Params, all)
			for after := 0; after < all; after += 1 + all/2 {
				ctx := &looks{Context: t.Context(), left: after}
				if err := run(ctx); !errors.Is(err, context.Canceled) || ctx.late > 100 {
					t.Errorf("%s %s %v, ended after %d of %d looks: %v, and %d more", spec.Name, query.Rule, query.Params,
						after, all, err, ctx.late)
				}
			}
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
	searcher := o.searcher()
	searcher.Heavy = &retrieve.Heavy{}
	ordinary, heavy := o.query(b, retrieve.Hybrid, "Which ship left Harbour 7?"), o.query(b, retrieve.Aligned, "Coal?")
	heavy.TopEntities, heavy.MinSim = 1000, -1
	ask := func() float64 {
		var took []float64
		for range b.N {
			start := time.Now()
			_, err := searcher.Run(b.Context(), o.generation, ordinary)
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
				switch _, err := searcher.Run(ctx, o.generation, heavy); {
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
	searcher := o.searcher()
	searcher.Heavy = &retrieve.Heavy{}
	heavy := o.query(t, retrieve.Aligned, "Which ship left Harbour 7?")
	heavy.TopEntities = 1000
	looked, let := make(chan struct{}), make(chan struct{})
	var under sync.WaitGroup
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		under.Go(func() {
			ctx := &held{Context: t.Context(), looked: looked, let: let}
			_, err := searcher.Run(ctx, o.generation, heavy)
			assert.True(t, err == nil, "%v", err)
		})
		<-looked
	}
	_, err := searcher.Run(t.Context(), o.generation, heavy)
	assert.True(t, fault.Is(err, fault.RateLimited) && fault.RetryAfter(err) > 0, "one heavy question more: %v", err)
	for _, method := range methods.Registry().ListPlain() {
		_, err = searcher.Run(t.Context(), o.generation, o.query(t, method, "Which ship left Harbour 7?"))
		assert.True(t, err == nil, "an ordinary question by %s beside them: %v", method, err)
	}
	close(let)
	under.Wait()
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = searcher.Run(gone, o.generation, heavy)
	assert.True(t, errors.Is(err, context.Canceled), "one that left: %v", err) // gives its place back, too
	_, err = searcher.Run(t.Context(), o.generation, heavy)
	assert.True(t, err == nil, "once they are answered: %v", err)
}
