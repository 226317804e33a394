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
		cause := got.Causes[0]
		assert.True(t, got.Good.Seq == int64(night-1) && got.Bad.Seq == int64(night) && got.Good.Rank > 0 &&
			cause.Change == "removed" && cause.Object == key && cause.Confirmed && got.Questions <= 4, "%s: %+v", key, got)
		cost += got.Cost
	}
	assert.True(t, calls.Load() == 1 && cost == 5, "%d calls cost %v", calls.Load(), cost)
	got := f.bisect("docs", object{"expect": "late.md"})
	assert.True(t, got.Good.Generation == "n6" && got.Bad.Generation == "n7" && len(got.Notices) == 0,
		"it came after the oldest night: %+v", got)
}

func TestEndsThatDoNotDifferAreRefused(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) { f.nights("docs", leaving(), nil) })
	for _, one := range []struct {
		index  string
		status int
		body   object
		says   string
	}{
		{"docs", 422, object{"expect": "d9.md"}, "generation n8 still returns \"d9.md\", at rank 1 of 5"},
		{"docs", 404, object{"expect": "late.md", "from": "n2", "to": "n7"}, "none of the 2 generations"},
		{"docs", 422, object{"expect": "d3.md", "from": "n2", "to": "n4", "top_chunks": 1}, "n2 does not return"},
		{"docs", 422, object{"expect": "d4.md", "from": "n8", "to": "n2"}, "no earlier generation"},
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
	return []float64{3, 2, 1}[:min(3, len(texts))], model.Usage{}, nil // too few are an error
}

// What changed between the two nights is named, and what was tried without it is confirmed.
func TestTheCauseIsNamed(t *testing.T) {
	for name, one := range map[string]struct {
		text   string               // is added to the passage
		name   string               // of the entity that is else Ada Berg
		was    func(*core.Spec)     // the first night
		edit   func(*core.Manifest) // of the second
		expect string               // else the passage
		want   string               // kind, change, object of causes, and whether they are confirmed
	}{
		"changed":  {text: "No. ", want: "document changed m-lease.md true"},
		"above":    {want: "passage_above added a.md true"},
		"together": {want: "passage_above together  true"},
		"hidden": {text: "No. ", expect: "m-lease.md",
			want: "document changed m-lease.md false|passage_above added a.md true"},
		"merged": {name: "Berg", want: "entity merged Ada Berg false",
			edit: func(m *core.Manifest) { m.Aliases = core.Aliases{"ada berg": "berg"} }},
		"removed": {name: "Berg", want: "entity removed Ada Berg false"},
		"setting": {was: func(spec *core.Spec) { spec.Retrieval.TopChunks = 3 },
			want: "setting changed indexes.docs.retrieval.top_chunks true"},
		"others": {was: func(spec *core.Spec) { spec.Embedding.Model, spec.Chat.Batch.Poll = "other", 1 },
			edit: func(m *core.Manifest) { m.Made.Chunker = "chunk/2" },
			want: "model changed models.embedding.model false|program changed chunker none → chunk/2 false|" +
				"entity changed Harbour false"},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(f *fixture, config *api.Config) {
				config.Models = models{ranker: few{}}
				mention := func(d *retrievetest.Document) {
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
				f.nights("docs", [][]retrievetest.Document{before, after}, func(night int, o *retrievetest.Options) {
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
			})
			got := f.bisect("docs", object{"expect": cmp.Or(one.expect, retrievetest.ChunkID(lease(nil), 0).String())})
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
	assert.True(t, got.Good.Generation == "n2" && got.Bad.Generation == "n4", "%+v", got)
	for _, want := range []string{"n1 was skipped: it is damaged", "n3 was skipped: load", "n4 was not built from n2"} {
		assert.Contains(t, strings.Join(got.Notices, "\n"), want)
	}
}
