package bisect_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

const leaseQuestion = "Who signed the lease of the harbour?"

// models are the built-in ones and a reranker that takes three passages and leaves them as they are.
type (
	models struct{ answer.Models }
	ranker struct{ rerank.Ranker }
)

func (models) Embedder(core.Spec, string, int) (model.Embedder, error) {
	return builtin.Embedder{}, nil
}
func (models) Ranker(core.Spec) (rerank.Ranker, error) { return ranker{}, nil }
func (ranker) Rerank(_ context.Context, _ string, texts []string) ([]float64, model.Usage, error) {
	return []float64{3, 2, 1}[:min(3, len(texts))], model.Usage{Prompt: 7}, nil // too few are an error
}

// free is who asks.
type free struct{ answer.Caller }

func (free) ID() string           { return "" }
func (free) AdmitCall() error     { return nil }
func (free) Spend(int64, float64) {}

// nights are the generations of an index, n1 to the last, each built from the one before.
type nights struct {
	t      *testing.T
	stores retrievetest.Stores
	broken map[string]error  // of generations that cannot be opened
	lacks  map[string]string // part that answers of a generation are without
}

// publish publishes the next generations.
func publish(t *testing.T, documents [][]retrievetest.Document, edit func(int, *retrievetest.Options)) *nights {
	n, parent := &nights{t: t, stores: retrievetest.NewStores(t), lacks: map[string]string{}}, ""
	for i, of := range documents {
		options := retrievetest.Options{
			Generation: fmt.Sprintf("n%d", i+1), Seq: int64(i + 1), Unasked: true,
			Edit: func(m *core.Manifest) { m.Parent = parent },
		}
		if edit != nil {
			edit(i+1, &options)
		}
		built := retrievetest.Build(t, n.stores, "docs", of, options)
		retrievetest.Publish(t, built, int64(i+1))
		parent = built.SHA
	}
	return n
}

// find searches for the night.
func (n *nights) find(request bisect.Request) (bisect.Found, error) {
	service := answer.New(models{}, retrieve.Searcher{
		Vectors: n.stores.Vectors, Records: n.stores.Records, Methods: methods.Registry(),
	}, slog.New(slog.DiscardHandler))
	index := artifact.Index{Store: n.stores.Blobs, Name: "docs"}
	open := func(ctx context.Context, _, name string) (*retrieve.Generation, error) {
		ref, err := index.GenerationRef(ctx, name)
		if err = cmp.Or(n.broken[name], err); err != nil {
			return nil, err
		}
		return retrieve.Opening{
			Artifacts: index.Store, Cache: n.stores.Cache, Vectors: n.stores.Vectors, Index: "docs", Manifest: ref.Manifest,
			Release: 1,
		}.Open(ctx)
	}
	ask := func(ctx context.Context, index string, body answer.Request, f answer.Found) (answer.Response, error) {
		generation := musttest.Get(open(ctx, index, *body.Generation))(n.t)
		defer generation.Close()
		out, err := service.Ask(ctx, generation, body, free{}, f)
		if lacks := n.lacks[*body.Generation]; lacks != "" {
			out.Degraded = append(out.Degraded, lacks)
		}
		return out, err
	}
	request.Query = leaseQuestion
	return bisect.Find(n.t.Context(), bisect.Index{Index: index, Ask: ask, Open: open}, request)
}

// lease is the document that questions are to find.
func lease(edit func(*retrievetest.Document)) retrievetest.Document {
	out := retrievetest.Document{Key: "m-lease.md", Title: "Lease", Chunks: []retrievetest.Chunk{{
		Text: "Ada Berg signed the lease of the harbour. ", Entities: []string{"Ada Berg", "Harbour"},
	}}}
	if edit != nil {
		edit(&out)
	}
	return out
}

// plain is a document about something else.
func plain(key, text string) retrievetest.Document {
	return retrievetest.Document{Key: key, Title: key, Chunks: []retrievetest.Chunk{{Text: text, Entities: []string{key}}}}
}

// leaving are eight nights; d2 goes with the second, d3 with the third and so on. late comes with the third and goes
// with the seventh.
func leaving() (nights [][]retrievetest.Document) {
	for night := 1; night <= 8; night++ {
		var documents []retrievetest.Document
		for d := max(2, night+1); d <= 9; d++ {
			documents = append(documents, plain(fmt.Sprintf("d%d.md", d), fmt.Sprintf("Berth %d of the harbour. ", d)))
		}
		if night >= 3 && night < 7 {
			documents = append(documents, plain("late.md", "The lease is late. "))
		}
		nights = append(nights, documents)
	}
	return nights
}

// The night is the right one wherever it is, by about as many questions as it takes to halve the nights.
func TestTheNightIsFoundWhereverItIs(t *testing.T) {
	n := publish(t, leaving(), nil)
	for night := 2; night <= 8; night++ {
		key := fmt.Sprintf("d%d.md", night)
		got := musttest.Get(n.find(bisect.Request{Expect: key, TopChunks: new(answer.Count(100))}))(t)
		cause := got.Causes[0]
		assert.True(t, got.Good.Seq == int64(night-1) && got.Bad.Seq == int64(night) && got.Good.Rank > 0 &&
			cause.Change == "removed" && cause.Object == key && cause.Confirmed && got.Questions <= 4, "%s: %+v", key, got)
	}
	got := musttest.Get(n.find(bisect.Request{Expect: "late.md"}))(t)
	assert.True(t, got.Good.Generation == "n6" && got.Bad.Generation == "n7" && len(got.Notices) == 0,
		"it came after the oldest night: %+v", got)
}

func TestEndsThatDoNotDifferAreRefused(t *testing.T) {
	n := publish(t, leaving(), nil)
	for _, one := range []struct {
		request bisect.Request
		says    string
	}{
		{bisect.Request{Expect: "d9.md"}, `generation n8 still returns "d9.md", at rank 1 of 5`},
		{bisect.Request{Expect: "late.md", From: "n2", To: "n7"}, "none of the 2 generations"},
		{bisect.Request{Expect: "d3.md", From: "n2", To: "n4", TopChunks: new(answer.Count(1))}, "first 1 passages"},
		{bisect.Request{Expect: "d4.md", From: "n8", To: "n2"}, "older than from"},
		{bisect.Request{Expect: "old/D9.txt"}, "none of the 8 generations"},
		{bisect.Request{Expect: "d4.md", From: "n0"}, "no generation of that name"},
		{bisect.Request{Expect: "d4.md", Method: "best"}, "best"},
		{bisect.Request{}, "none of the 8 generations"},
	} {
		_, err := n.find(one.request)
		assert.ErrorContains(t, err, one.says)
	}
}

// What changed between the two nights is named, and what was tried without it is confirmed.
func TestTheCauseIsNamed(t *testing.T) {
	for name, one := range map[string]struct {
		text   string               // is added to the passage
		more   []retrievetest.Chunk // of the document
		name   string               // of the entity that is else Ada Berg
		was    func(*core.Spec)     // the first night
		edit   func(*core.Manifest) // of the second
		expect string               // else the passage
		want   string               // kind, change, object of causes, and whether they are confirmed
	}{
		"changed": {text: "No. ", want: "document changed m-lease.md true"},
		"longer": {want: "document changed m-lease.md false",
			more: []retrievetest.Chunk{{Text: "It ends in May. ", Entities: []string{"May"}}}},
		"above":    {want: "passage_above added a.md true"},
		"together": {want: "passage_above together  true"},
		"hidden": {text: "No. ", expect: "m-lease.md",
			want: "document changed m-lease.md false|passage_above added a.md true"},
		"removed": {name: "Berg", want: "entity removed Ada Berg false"},
		"setting": {was: func(spec *core.Spec) { spec.Retrieval.TopChunks = 3 },
			want: "setting changed indexes.docs.retrieval.top_chunks true"},
		"others": {was: func(spec *core.Spec) { spec.Embedding.Model, spec.Chat.Batch.Poll = "other", 1 },
			edit: func(m *core.Manifest) { m.Made.Chunker = "chunk/2" },
			want: "setting changed models.embedding.model false|program changed chunker none → chunk/2 false|" +
				"entity changed Harbour false"},
	} {
		t.Run(name, func(t *testing.T) {
			mention := func(d *retrievetest.Document) {
				d.Chunks = append(d.Chunks, one.more...)
				d.Chunks[0].Entities[0], d.Chunks[0].Text = cmp.Or(one.name, "Ada Berg"), d.Chunks[0].Text+one.text
			}
			near := lease(mention)
			near.Key, near.Title, near.Chunks[0].Text = "a.md", leaseQuestion, leaseQuestion+" Ada Berg signed the lease. "
			others := []retrievetest.Document{plain("b.md", "Boats moor in the bay. "), plain("c.md", "Cranes lift cargo. ")}
			before, after := append(slices.Clone(others), lease(nil)), append(others, lease(mention))
			after = append([]retrievetest.Document{near}, after...)
			if near.Key = "a2.md"; name == "together" {
				after = slices.Insert(after, 1, near)
			}
			n := publish(t, [][]retrievetest.Document{before, after}, func(night int, o *retrievetest.Options) {
				edit := o.Edit
				o.Edit = func(m *core.Manifest) {
					if edit(m); night == 2 && one.edit != nil {
						one.edit(m)
					}
				}
				o.Types = map[string]string{"Harbour": map[bool]string{true: "place"}[name == "others" && night == 2]}
				o.Spec = func(spec *core.Spec) {
					spec.Rerank = core.RerankModel{Provider: "http", Top: 3, Timeout: core.Duration(time.Minute)}
					if spec.Retrieval.TopChunks = 1; night == 1 && one.was != nil {
						one.was(spec)
					}
				}
			})
			expect := cmp.Or(one.expect, retrievetest.ChunkID(lease(nil), 0).String())
			got := musttest.Get(n.find(bisect.Request{Expect: expect}))(t)
			causes := ""
			for _, cause := range got.Causes {
				causes += fmt.Sprint(cause.Kind, " ", cause.Change, " ", cause.Object, " ", cause.Confirmed, "|")
			}
			for _, want := range strings.Split(one.want, "|") {
				assert.Contains(t, causes, want+"|", "%+v", got.Causes)
			}
			at := slices.IndexFunc(got.Ranking, func(row bisect.Row) bool { return row.Expected })
			assert.True(t, name == "changed" && at < 0 || at >= 0 && got.Ranking[at].After != 1, "%+v", got.Ranking)
			assert.True(t, len(got.Notices) == 0 && !strings.Contains(causes, "batch"), "%s %v", causes, got.Notices)
		})
	}
}

// A generation that cannot be asked is passed over, and one that was not built from the other is said. An answer by a
// part of the search ends the search.
func TestGenerationsThatCannotBeAskedAreSkipped(t *testing.T) {
	n := publish(t, leaving(), func(night int, o *retrievetest.Options) {
		if edit := o.Edit; night == 3 {
			o.Edit = func(m *core.Manifest) { edit(m); m.Collections.Chunks += "-gone" }
		}
	})
	options := retrievetest.Options{Generation: "n9", Seq: 9, Unasked: true}
	retrievetest.Hold(t, retrievetest.Build(t, n.stores, "docs", leaving()[0][:1], options), core.GenerationHeld)
	n.broken, n.lacks["n2"] = map[string]error{"n1": fault.GenCollected.At("open", "n1")}, "records" // not of the ranking
	request := bisect.Request{Expect: "d4.md", TopChunks: new(answer.Count(100))}
	got := musttest.Get(n.find(request))(t)
	assert.True(t, got.Good.Generation == "n2" && got.Bad.Generation == "n4", "%+v", got)
	for _, want := range []string{"n1 was skipped: open", "n3 was skipped: load", "n4 was not built from n2"} {
		assert.Contains(t, strings.Join(got.Notices, "\n"), want)
	}
	held := musttest.Get(n.find(bisect.Request{Expect: "d9.md", To: "n9"}))(t)
	assert.True(t, held.Good.Generation == "n8" && held.Bad.Generation == "n9", "a held one: %+v", held)
	n.lacks["n2"] = "dense"
	_, err := n.find(request)
	require.ErrorContains(t, err, "without its part dense")
	for _, ends := range [][2]string{{"", "n1"}, {"n7", "n7"}} {
		request.From, request.To = ends[0], ends[1]
		_, err = n.find(request)
		require.ErrorContains(t, err, "no earlier generation")
	}
	delete(n.lacks, "n2")
	n.broken["n5"] = fault.StoreDown.At("read", "n5")
	_, err = n.find(bisect.Request{Expect: "d4.md", From: "n2"})
	assert.ErrorContains(t, err, "read n5", "a store that does not answer ends the search")
}
