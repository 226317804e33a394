package embed_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage"
	embedstage "github.com/unweaver/unweaver/internal/stage/embed"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

const scratch = "i/runs/g"

type bench struct {
	*testing.T
	art    artifact.Index
	claims coordination.Claims
}

func newBench(t *testing.T) bench {
	return bench{t, artifact.Index{Store: stagetest.Must(dir.Open(t.TempDir())), Name: "i"}, memory.NewClaims()}
}

func (b bench) in(embedder *stagetest.Embedder, part stage.Part) embedstage.In {
	return embedstage.In{
		Env: join.Env{
			Spec: core.Spec{Index: "i", Embedding: core.EmbedModel{MaxInputTokens: 400}}, Artifacts: b.art,
			Store: strings.Repeat("a", 32), Collections: core.Collections{Classes: "c", Chunks: "k"},
		},
		Scratch: scratch,
		Part:    part,
		Source:  embed.Source{Embedder: embedder, Ledger: ledger.New(b.art.Store, b.claims)},
	}
}

// classes writes n reduced classes, of which every tenth was shortened.
func (b bench) classes(n int) stage.Part {
	var reduced, short []stagetest.Row
	for i := range n {
		id := fmt.Sprintf("%016d", i)
		class := rows.Reduced{Name: fmt.Sprint("Class ", i), Descriptions: []string{"It is one", fmt.Sprint("of ", n)}}
		reduced = append(reduced, stagetest.Row{Key: id, Value: string(class.Encode())})
		if i%10 == 0 {
			short = append(short, stagetest.Row{Key: id, Value: string(rows.Short{Text: "made short"}.Encode())})
		}
	}
	part := stage.Part{Kind: stage.Classes, Partition: stage.Partition{Reduced: "s/reduced", Short: "s/short"}}
	stagetest.Rows(b, b.art, part.Partition.Reduced, reduced...)
	stagetest.Rows(b, b.art, part.Partition.Short, short...)
	return part
}

func (b bench) chunks(docs ...stagetest.Document) stage.Part {
	return stage.Part{Kind: stage.Chunks, Shard: stagetest.Shard(b, b.art, scratch, 0, docs...)}
}

func texts(requests [][]string) map[string]int {
	out := map[string]int{}
	for _, request := range requests {
		for _, text := range request {
			out[text]++
		}
	}
	return out
}

func TestEveryNewClassIsEmbeddedOnceWithItsFinalText(t *testing.T) {
	b := newBench(t)
	part := b.classes(500)
	embedder := &stagetest.Embedder{Dim: 4}
	var reported core.Progress
	in := b.in(embedder, part)
	in.OnProgress = func(p core.Progress) { reported = p }
	res := stagetest.Must(embedstage.Run(t.Context(), in))
	got := texts(embedder.Requests())
	assert.True(t, len(got) == 500 && got["Class 7: It is one of 500"] == 1 && got["Class 30: made short"] == 1,
		"%d texts", len(got))
	requests := len(embedder.Requests())
	want := core.Progress{Stage: "embed", Done: 500}
	assert.True(t, res.Texts == 500 && res.Progress == want && reported == want, "%+v, reported %+v", res, reported)
	for _, request := range embedder.Requests() {
		assert.True(t, len(request) <= 256, "a request of %d texts", len(request))
	}
	t.Run("a second run finds every text in the ledger", func(t *testing.T) {
		res := stagetest.Must(embedstage.Run(t.Context(), b.in(embedder, part)))
		assert.True(t, res.Progress.Hits.Embed == 500 && len(embedder.Requests()) == requests && res.Progress.Done == 500,
			"%+v after %d requests, then %d", res.Progress, requests, len(embedder.Requests()))
	})
}

// steps is an embedder that says how far it is, and fails behind the half once.
type steps struct {
	*stagetest.Embedder
	failed bool
	look   func()
}

func (s *steps) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	model.ReportProgress(ctx, len(texts)/2)
	s.look()
	if !s.failed {
		s.failed = true
		return nil, model.Usage{}, fault.ModelAuth.At("embed", "a text")
	}
	model.ReportProgress(ctx, len(texts)-len(texts)/2)
	return s.Embedder.Embed(ctx, texts)
}

func TestProgressFollowsAModelInside(t *testing.T) {
	b := newBench(t)
	var reported core.Progress
	var seen []int64
	in := b.in(&stagetest.Embedder{}, b.classes(100))
	in.OnProgress = func(p core.Progress) { reported = p }
	in.Source.Embedder = &steps{Embedder: &stagetest.Embedder{Dim: 4}, look: func() { seen = append(seen, reported.Done) }}
	_, err := embedstage.Run(t.Context(), in)
	assert.True(t, err != nil && reported.Done == 0, "a request that failed counts %d, %v", reported.Done, err)
	res := stagetest.Must(embedstage.Run(t.Context(), in))
	assert.True(t, res.Progress.Done == 100 && reported == res.Progress && slices.Equal(seen, []int64{50, 50}),
		"%+v, on the way %v", res, seen)
}

// What was answered is stored before its slot asks for more, so that a process that dies pays again for no more than
// one request a slot.
func TestADeathCostsAtMostOneRequestASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		part := b.classes(8000)
		const answered, slots = 12, 8
		var mu sync.Mutex
		var asked int
		var inFlight [][]string
		died := make(chan struct{})
		first := &stagetest.Embedder{Dim: 4, Before: func(texts []string) error {
			mu.Lock()
			asked++
			late := asked > answered
			if late {
				inFlight = append(inFlight, texts)
			}
			mu.Unlock()
			if !late {
				return nil
			}
			<-died
			return fault.ModelQuota.At("embed", "a process that died")
		}}
		ended := make(chan error)
		go func() {
			_, err := embedstage.Run(t.Context(), b.in(first, part))
			ended <- err
		}()
		synctest.Wait()
		b.claims = memory.NewClaims() // those of the dead process have run out
		second := &stagetest.Embedder{Dim: 4}
		stagetest.Must(embedstage.Run(t.Context(), b.in(second, part)))
		paid, again := texts(first.Requests()), texts(second.Requests())
		for text := range paid {
			assert.Zero(t, again[text], "%q was answered, and is paid again", text)
		}
		assert.Len(t, again, 8000-len(paid))
		assert.True(t, 0 < len(inFlight) && len(inFlight) <= slots, "%d requests in flight", len(inFlight))
		close(died)
		assert.Error(t, <-ended)
	})
}

func TestLongChunksAreEmbeddedInWindows(t *testing.T) {
	b := newBench(t)
	words := make([]string, 380)
	for i := range words {
		words[i] = fmt.Sprint("w", i)
	}
	part := b.chunks(
		stagetest.Document{Key: "a", Title: "Short", Chunks: []string{"A few words."}},
		stagetest.Document{Key: "b", Title: "Long", Chunks: []string{strings.Join(words, " ")}},
	)
	embedder := &stagetest.Embedder{Dim: 4}
	res := stagetest.Must(embedstage.Run(t.Context(), b.in(embedder, part)))
	got := texts(embedder.Requests())
	assert.True(t, got["Short\n\nA few words."] == 1 && res.Texts == 2 && len(got) >= 4, "%d texts, %+v", len(got), res)
	for text := range got {
		assert.True(t, strings.HasPrefix(text, "Short\n\n") || strings.HasPrefix(text, "Long\n\nw"),
			"a window without its title: %.30q", text)
	}
	t.Run("for parity without their title", func(t *testing.T) {
		embedder := &stagetest.Embedder{Dim: 4}
		in := b.in(embedder, part)
		in.Env.Spec.Parity = true
		stagetest.Must(embedstage.Run(t.Context(), in))
		got := texts(embedder.Requests())
		assert.True(t, got["A few words."] == 1, "%v", got)
	})
}

func TestAHitIsCountedOnlyWhenTheLedgerAnswered(t *testing.T) {
	b := newBench(t)
	part := b.classes(1000)
	refused := fault.ModelAuth.At("embed", "m")
	res, err := embedstage.Run(t.Context(), b.in(
		&stagetest.Embedder{Dim: 4, Before: func([]string) error { return refused }}, part,
	))
	assert.True(t, fault.Is(err, fault.ModelAuth) && res.Progress == (core.Progress{Stage: "embed"}) && res.Texts == 0,
		"a server that refuses: %v, %+v", err, res)
	var asked atomic.Int64
	quota := &stagetest.Embedder{Dim: 4, Before: func([]string) error {
		if asked.Add(1) > 3 {
			return fault.ModelQuota.At("embed", "m")
		}
		return nil
	}}
	musttest.Refuse(embedstage.Run(t.Context(), b.in(quota, part)))(t, fault.ModelQuota)
	paid := int64(0)
	for _, request := range quota.Requests() {
		paid += int64(len(request))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stuck := &stagetest.Embedder{Dim: 4, Before: func([]string) error { <-ctx.Done(); return ctx.Err() }}
	in := b.in(stuck, part)
	in.OnProgress = func(p core.Progress) {
		if p.Hits.Embed == paid {
			cancel()
		}
	}
	if res, err = embedstage.Run(ctx, in); err == nil || res.Progress.Hits.Embed != paid {
		t.Errorf("%v: a cancelled run reports %d hits of %d", err, res.Progress.Hits.Embed, paid)
	}
}

func TestBuiltInEmbeddersAreLeftToLoad(t *testing.T) {
	b := newBench(t)
	embedder := &stagetest.Embedder{Free: true, Dim: 4}
	res, err := embedstage.Run(t.Context(), b.in(embedder, b.classes(10)))
	assert.True(t, err == nil && res.Texts == 0 && len(embedder.Requests()) == 0, "%v, %+v", err, res)
}
