package api_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

const leaseQuestion = "Who signed the lease of the harbour?"

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

// nights publishes generations of an index, n1 to the last, each built from the one before.
func (f *fixture) nights(index string, documents [][]retrievetest.Document, edit func(int, *retrievetest.Options)) {
	parent := ""
	for i, of := range documents {
		options := retrievetest.Options{
			Generation: fmt.Sprintf("n%d", i+1), Seq: int64(i + 1), Unasked: true,
			Edit: func(m *core.Manifest) { m.Parent = parent },
		}
		if edit != nil {
			edit(i+1, &options)
		}
		built := retrievetest.Build(f.t, f.stores, index, of, options)
		retrievetest.Publish(f.t, built, int64(i+1))
		parent = built.SHA
	}
}

// bisect searches, and expects to find.
func (f *fixture) bisect(index string, body object) (out bisect.Found) {
	f.t.Helper()
	body["query"] = leaseQuestion
	f.asked("/v1/indexes/"+index+"/bisect", body, &out)
	return out
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

// The night is the right one wherever it is, by about as many questions as it takes to halve the nights, and the
// question is embedded and paid for once.
func TestTheNightIsFoundWhereverItIs(t *testing.T) {
	var calls atomic.Int64
	f := serve(t, func(f *fixture, config *api.Config) {
		f.nights("docs", leaving(), func(_ int, o *retrievetest.Options) {
			o.Spec = func(spec *core.Spec) { spec.Embedding.Price.Prompt = 1e6 }
			edit := o.Edit
			o.Edit = func(m *core.Manifest) { // as by a server, whose vectors do not depend on the corpus
				edit(m)
				m.Class.IDF, m.Chunk.IDF = "", ""
			}
		})
		config.Models = models{embedder: func(inner model.Embedder) model.Embedder {
			return counted{sellingEmbedder{inner}, &calls}
		}}
	})
	cost := 0.0
	for night := 2; night <= 8; night++ {
		key := fmt.Sprintf("d%d.md", night)
		got := f.bisect("docs", object{"expect": key, "top_chunks": 100})
		removed := bisect.Cause{
			Kind: "document", Change: "removed", Object: key, Confirmed: true,
			Text: fmt.Sprintf("document %q was removed, or has another key", key),
		}
		assert.True(t, got.Good.Seq == int64(night-1) && got.Bad.Seq == int64(night) && got.Good.Rank > 0 &&
			got.Causes[0] == removed && got.Questions <= 4 && len(got.Asked) <= 5, "%s: %+v", key, got)
		cost += got.Cost
	}
	assert.True(t, calls.Load() == 1 && cost == 5, "%d calls cost %v", calls.Load(), cost)
	got := f.bisect("docs", object{"expect": "late.md"})
	assert.True(t, got.Good.Generation == "n6" && got.Bad.Generation == "n7" && len(got.Notices) == 0,
		"it came after the oldest night: %+v", got)
	got = f.bisect("docs", object{"expect": "late.md", "from": "n3", "to": "n7"})
	assert.True(t, got.Bad.Generation == "n7" && len(got.Asked) == 4, "%+v", got)
}

func TestEndsThatDoNotDifferAreRefused(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) {
		f.nights("docs", leaving(), nil)
		f.nights("single", leaving()[:1], nil)
	})
	for _, one := range []struct {
		index  string
		status int
		body   object
		says   string
	}{
		{"docs", 422, object{"expect": "d9.md"}, "generation n8 still returns \"d9.md\", at rank 1 of 5"},
		{"docs", 404, object{"expect": "late.md", "from": "n2", "to": "n7"}, "none of the 2 generations"},
		{"docs", 422, object{"expect": "d3.md", "from": "n2", "to": "n4", "top_chunks": 1},
			"n2 does not return \"d3.md\" among"},
		{"docs", 422, object{"expect": "d4.md", "from": "n8", "to": "n2"}, "no earlier generation"},
		{"docs", 422, object{"expect": "d4.md", "from": "n8"}, "no earlier generation"},
		{"single", 422, object{"expect": "d4.md", "top_chunks": 1}, "no earlier generation"},
		{"docs", 404, object{"expect": "old/D9.txt"}, "none of the 8 generations"},
		{"docs", 404, object{"expect": "d4.md", "from": "n0"}, "no generation of that name"},
		{"docs", 422, object{"expect": "d4.md", "method": "best"}, "best"},
		{"docs", 422, object{"expect": "d4.md", "top": 1}, "unknown field"},
		{"docs", 422, object{"expect": " "}, "it is empty"},
		{"none", 404, object{"expect": "d4.md"}, "no published index"},
	} {
		one.body["query"] = leaseQuestion
		got := f.refuse(one.status, "", "POST", "/v1/indexes/"+one.index+"/bisect", one.body)
		assert.Contains(t, got["detail"], one.says, "%v", got)
		assert.NotContains(t, got["hint"], "omitempty")
	}
}

// few is a reranker that takes three passages and leaves them as they are.
type few struct{ rerank.Ranker }

func (few) Rerank(_ context.Context, _ string, texts []string) ([]float64, model.Usage, error) {
	if len(texts) > 3 {
		return nil, model.Usage{}, fault.ModelRejected.At("rerank", "")
	}
	return []float64{3, 2, 1}[:len(texts)], model.Usage{}, nil
}

// What changed between the two nights is named, and what was tried without it is confirmed.
func TestTheCauseIsNamed(t *testing.T) {
	others := []retrievetest.Document{plain("b.md", "Boats moor in the bay. "), plain("c.md", "Cranes lift cargo. ")}
	nearer := func(entities ...string) retrievetest.Document {
		return lease(func(d *retrievetest.Document) {
			d.Key, d.Title, d.Chunks[0].Entities = "a.md", leaseQuestion, entities
			d.Chunks[0].Text = leaseQuestion + " Ada Berg signed the lease. "
		})
	}
	mentioning := func(entities ...string) func(*retrievetest.Document) {
		return func(d *retrievetest.Document) { d.Chunks[0].Entities = entities }
	}
	for name, one := range map[string]struct {
		changed func(*retrievetest.Document)
		spec    func(*core.Spec)
		kind    string // of an entity
		edit    func(*core.Manifest)
		method  string
		expect  string // else the passage
		want    string // kind, change, object of a cause, and whether it is confirmed
	}{
		"changed": {changed: func(d *retrievetest.Document) { d.Chunks[0].Text = "It was torn up. " },
			want: "document changed m-lease.md true"},
		"above":    {method: "vector", want: "passage_above added a.md true"},
		"together": {method: "vector", want: "passage_above together  true"},
		"hidden": {method: "vector", want: "document changed m-lease.md false", expect: "m-lease.md",
			changed: func(d *retrievetest.Document) { d.Chunks[0].Text += "It was in May. " }},
		"typed": {kind: "place", method: "hybrid", want: "entity changed Harbour false"},
		"merged": {changed: mentioning("Berg"), want: "entity merged Ada Berg false", method: "hybrid",
			edit: func(m *core.Manifest) { m.Aliases = core.Aliases{"ada berg": "berg"} }},
		"removed": {changed: mentioning("Berg"), want: "entity removed Ada Berg false", method: "hybrid"},
		"model": {method: "vector", want: "model changed models.embedding.model false",
			spec: func(spec *core.Spec) { spec.Embedding.Model, spec.Chat.Batch.Poll = "other", 1 }},
		"setting": {method: "vector", want: "setting changed indexes.docs.retrieval.top_chunks true",
			spec: func(spec *core.Spec) { spec.Retrieval.TopChunks = 1 }},
		"program": {method: "vector", want: "program changed chunker none → chunk/2 false",
			edit: func(m *core.Manifest) { m.Made.Chunker = "chunk/2" }},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(f *fixture, config *api.Config) {
				config.Models = models{ranker: few{}}
				before, after := append(slices.Clone(others), lease(nil)), append(slices.Clone(others), lease(one.changed))
				switch name {
				case "changed":
				case "together":
					second := nearer("Ada Berg", "Harbour")
					second.Key = "a2.md"
					after = append([]retrievetest.Document{nearer("Ada Berg", "Harbour"), second}, after...)
				case "merged", "removed":
					after = append([]retrievetest.Document{nearer("Berg", "Harbour")}, after...)
				default:
					after = append([]retrievetest.Document{nearer("Ada Berg", "Harbour")}, after...)
				}
				f.nights("docs", [][]retrievetest.Document{before, after}, func(night int, o *retrievetest.Options) {
					if edit := o.Edit; night == 2 && one.edit != nil {
						o.Edit = func(m *core.Manifest) { edit(m); one.edit(m) }
					}
					o.Spec = func(spec *core.Spec) {
						if name != "setting" {
							spec.Rerank = core.RerankModel{Provider: "http", Top: 3, Timeout: core.Duration(time.Minute)}
						}
						if night == 2 && one.spec != nil {
							one.spec(spec)
						}
					}
					if night == 2 {
						o.Types = map[string]string{"Harbour": one.kind}
					}
				})
			})
			body := object{
				"expect":     cmp.Or(one.expect, retrievetest.ChunkID(lease(nil), 0).String()),
				"top_chunks": 1, "method": cmp.Or(one.method, "unweaver"),
			}
			if name == "setting" {
				delete(body, "top_chunks")
			}
			got := f.bisect("docs", body)
			var causes []string
			for _, cause := range got.Causes {
				causes = append(causes, fmt.Sprint(cause.Kind, " ", cause.Change, " ", cause.Object, " ", cause.Confirmed))
			}
			assert.Contains(t, causes, one.want, "%+v", got.Causes)
			assert.NotContains(t, fmt.Sprint(causes, got.Notices), "batch")
			assert.Empty(t, got.Notices)
			at := slices.IndexFunc(got.Ranking, func(row bisect.Row) bool { return row.Expected })
			assert.True(t, name == "changed" && at < 0 || at >= 0 && got.Ranking[at].After != 1, "%+v", got.Ranking)
		})
	}
}

// A generation that cannot be asked is passed over, and one that was not built from the other is said.
func TestGenerationsThatCannotBeAskedAreSkipped(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) {
		f.nights("docs", leaving(), func(night int, o *retrievetest.Options) {
			if edit := o.Edit; night == 3 {
				o.Edit = func(m *core.Manifest) { edit(m); m.Collections.Chunks += "-gone" }
			}
		})
		for _, file := range []string{"n1/collected", "n0/manifest.json"} {
			musttest.Get(blob.Write(t.Context(), f.stores.Blobs, "docs/generations/"+file, []byte("{"), blob.Cond{}))(t)
		}
		options := retrievetest.Options{Generation: "n9", Seq: 9, Unasked: true}
		retrievetest.Hold(t, retrievetest.Build(t, f.stores, "docs", leaving()[0][:1], options), core.GenerationHeld)
	})
	for i, says := range []string{"n0: this generation is damaged", "asked; generation n0 was skipped"} {
		body := object{"query": leaseQuestion, "expect": "d4.md", "to": []string{"n0", "n2"}[i]}
		got := f.refuse([]int{503, 422}[i], "", "POST", "/v1/indexes/docs/bisect", body)
		assert.Contains(t, got["detail"], says)
	}
	got := f.bisect("docs", object{"expect": "d4.md", "top_chunks": 100})
	held := f.bisect("docs", object{"expect": "d9.md", "to": "n9"})
	assert.True(t, held.Good.Generation == "n8" && held.Bad.Generation == "n9", "a held one: %+v", held)
	said := strings.Join(got.Notices, "\n")
	assert.True(t, got.Good.Generation == "n2" && got.Bad.Generation == "n4", "%+v", got)
	for _, want := range []string{"n1 was skipped: it is damaged", "n3 was skipped: load", "n4 was not built from n2"} {
		assert.Contains(t, said, want)
	}
}
