package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

func names(list any) string {
	var out []string
	for _, entity := range list.([]any) {
		out = append(out, entity.(object)["name"].(string))
	}
	return strings.Join(out, ", ")
}

func TestEntitiesAreListedByName(t *testing.T) {
	f := serve(t, nil)
	assert.Equal(t, "Oslo", names(f.get("/v1/indexes/sample/entities?prefix=OS")["items"]), "by prefix")
	assert.Equal(t, "Oslo", names(f.get("/v1/indexes/sample/entities?contains=SLO")["items"]), "by a part")
	assert.Equal(t, "Norway", names(f.get("/v1/indexes/sample/entities?order=passages&limit=1")["items"]), "by passages")
	f.refuse(422, "", "GET", "/v1/indexes/sample/entities?order=x", nil)
	assert.Empty(t, f.get("/v1/indexes/sample/entities?prefix=zzz")["items"])
	oslo := "/v1/indexes/sample/entities/" + retrievetest.ClassID("Oslo").String()
	out := f.get(oslo)
	assert.True(t, out["name"] == "Oslo" && out["mentions"] == 3.0 && out["chunk_total"] == 3.0, "%v", out)
	f.refuse(422, "", "GET", oslo+"/chunks?cursor=x", nil) // a cursor that no list gave
}

func TestAChunkTellsItsMentionsInCodePointsOfTheDocument(t *testing.T) {
	f := serve(t, nil)
	out := f.get("/v1/indexes/sample/chunks/" + retrievetest.ChunkID(retrievetest.Sample()[1], 1).String())
	chunk := out["chunk"].(object)
	assert.True(t, chunk["document"] == "cities/oslo.txt" && chunk["ordinal"] == 1.0 && chunk["start"] == 31.0,
		"%v", chunk)
	assert.NotContains(t, chunk, "score", "of what no question found")
	assert.NotContains(t, chunk, "entities")
	mention := out["mentions"].([]any)[0].(object)
	span := mention["spans"].([]any)[0].([]any)
	from, to := int(span[0].(float64)), int(span[1].(float64))
	text := f.get("/v1/indexes/sample/documents/cities/oslo.txt/text")["text"].(string)
	assert.True(t, mention["name"] == "Oslo" && text[from:to] == "Oslo", "%v points to %q", mention, text[from:to])
}

// What is served of a document that cannot be read now says so, wherever it is shown; of others nothing is said.
func TestAStaleDocumentIsCalledSo(t *testing.T) {
	f := serve(t, nil)
	sample := retrievetest.Sample()
	for _, document := range sample {
		want := any(nil)
		if document.Stale {
			want = true
		}
		chunk := f.get("/v1/indexes/sample/chunks/" + retrievetest.ChunkID(document, 0).String())["chunk"]
		got := chunk.(object)["stale"]
		assert.True(t, got == want, "the chunk of %s: stale is %v", document.Key, got)
		got = f.get("/v1/indexes/sample/documents/" + document.Key + "/text")["stale"]
		assert.True(t, got == want, "the text of %s: stale is %v", document.Key, got)
	}
	north := f.ask(object{"query": "Which ship sailed farther north than Fram?"})
	assert.True(t, slices.ContainsFunc(north.Chunks, func(chunk answer.Chunk) bool {
		return chunk.Document == "ships/fram.txt" && chunk.Stale
	}), "an answer does not say it")
}

func TestTextIsCutInCodePoints(t *testing.T) {
	f := serve(t, nil)
	path := "/v1/indexes/sample/documents/cities/troms%C3%B8.txt/text"
	whole := f.get(path)
	assert.True(t, whole["length"] == float64(len([]rune(whole["text"].(string)))), "%v", whole)
	part := f.get(path + "?start=4&end=6&version=" + whole["version"].(string))
	assert.True(t, part["text"] == "sø" && part["start"] == 4.0 && part["end"] == 6.0, "%v", part)
	out := f.get(path + "?start=6&end=100000")
	assert.True(t, out["end"] == whole["length"], "an end behind the end: %v", out)
}

func TestAnswersCarryCitationsUsageAndTheirContext(t *testing.T) {
	f := serve(t, nil)
	out := f.ask(object{"query": "What is the capital of Norway?", "answer": true})
	cited := out.Answer.Citations
	require.True(t, len(cited) != 0 && out.Answer.Text != "", "%+v", out.Answer)
	for _, chunk := range out.Chunks {
		assert.True(t, chunk.ID != cited[0] || chunk.InContext && chunk.Document == "cities/oslo.txt", "cited: %+v", chunk)
	}
	out = f.ask(object{"query": "What is the capital of Norway?", "max_context_tokens": 1})
	assert.True(t, out.Answer == nil && !out.Chunks[0].InContext, "nothing fits one token: %+v", out.Chunks[0])
	assert.True(t, out.Usage.EmbedCached, "the same question was embedded again: %+v", out.Usage)
}

func TestFilterAndWithoutNarrowEveryMethod(t *testing.T) {
	f := serve(t, nil)
	for _, method := range []string{"hybrid", "unweaver", "ppr", "aligned", "vector", "bm25"} {
		for name, body := range map[string]object{
			"prefix":   {"filter": object{"document_prefix": "people/"}},
			"metadata": {"filter": object{"metadata": map[string]string{"kind": "person"}}},
			"times":    {"filter": object{"modified": object{"from": "2026-01-04T00:00:00Z", "to": "2026-01-05T12:00:01Z"}}},
			"without": {"without": object{"documents": []string{
				"cities/bergen.txt", "cities/oslo.txt", "cities/tromsø.txt", "ships/fram.txt",
			}}},
		} {
			body["query"], body["method"], body["top_chunks"] = "Who composed in Norway?", method, 10
			chunks := f.ask(body).Chunks
			assert.Len(t, chunks, 3, "%s, %s", method, name)
			for _, chunk := range chunks {
				assert.True(t, strings.HasPrefix(chunk.Document, "people/"), "%s, %s: %s", method, name, chunk.Document)
			}
		}
		norway := retrievetest.ClassID("Norway").String()
		out := f.ask(object{"query": "Norway", "method": method, "without": object{"entities": []string{norway}}})
		assert.NotContains(t, fmt.Sprint(out.Entities), " Norway ", "%s: an entity that was to be left out", method)
	}
}

// counted counts calls.
type counted struct {
	model.Embedder
	calls *atomic.Int64
}

func (c counted) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	c.calls.Add(1)
	return c.Embedder.Embed(ctx, texts)
}

// A filter of lists, of days and of nothing, over HTTP and by the tools.
func TestAFilterIsMetOrSaysThatItLeavesNothing(t *testing.T) {
	f := serve(t, nil)
	session := f.agent("")
	for name, c := range map[string]struct {
		filter object
		reason string
	}{
		"one of a list": {object{"metadata": object{"kind": []string{"ship", "city"}}}, ""},
		"of a list":     {object{"metadata": object{"lang": "no"}}, ""},
		"half a word":   {object{"metadata": object{"lang": "n"}}, "no_document"},
		"none of them":  {object{"metadata": object{"kind": []string{"moon"}}}, "no_document"},
		"no such field": {object{"metadata": object{"Kind": "city"}}, "unknown_field"},
		"no such key":   {object{"document_prefix": "zzz/"}, "no_document"},
		"a later day":   {object{"modified": object{"from": "2999-01-01"}}, "no_document"},
		"an early day":  {object{"modified": object{"to": "1970-01-01"}}, "no_document"},
		"until it":      {object{"modified": object{"to": "2026-01-01T12:00:00Z"}}, "no_document"},
		"until then":    {object{"modified": object{"to": "2999-01-01"}}, ""},
	} {
		for _, method := range []string{"hybrid", "bm25", "unweaver"} {
			out := f.ask(object{"query": "capital of Norway", "method": method, "filter": c.filter})
			assert.Equal(t, c.reason, reasonOf(out), "%s, %s", name, method)
			assert.Equal(t, c.reason != "", len(out.Chunks) == 0, "%s, %s", name, method)
		}
		arguments := object{"query": "capital of Norway", "filter": c.filter, "params": object{"list": 50}}
		text, out, failed := call(t, session, "search", arguments)
		reason, _ := out["reason"].(string)
		assert.True(t, !failed && reason == c.reason, "%s: %v %s", name, out, text)
	}
}

// Where the text alone is seen it says what is wrong with a filter, and which fields there are.
func TestAMisspeltFieldOfAFilterIsNamedInEveryText(t *testing.T) {
	f := serve(t, nil)
	session := f.agent("")
	asked := object{"query": "capital of Norway", "filter": object{"metadata": object{"knd": "city"}}}
	texts := map[string]string{}
	for _, tool := range []string{"search", "answer", "explain"} {
		texts[tool], _, _ = call(t, session, tool, asked)
	}
	within := object{"filter": asked["filter"]}
	for path, body := range map[string]object{
		sampleQuery:     {"query": "x", "answer": true, "filter": asked["filter"], "fields": []string{"answer.text"}},
		"/v1/responses": {"model": "unweaver/sample", "input": "x", "unweaver": within},
		"/v1/chat/completions": {
			"model": "unweaver/sample", "messages": []any{object{"role": "user", "content": "x"}}, "unweaver": within,
		},
	} {
		raw, _ := json.Marshal(body)
		texts[path] = f.send("POST", path, string(raw), "Content-Type", "application/json").Body.String()
	}
	for place, text := range texts {
		text = strings.ReplaceAll(text, `\"`, `"`)
		assert.Regexp(t, `No document has a field of metadata "knd"; known: .*kind`, text, place)
		assert.NotContains(t, text, "rephrase", place)
	}
}

func TestAResultHoldsTheFieldsThatWereChosen(t *testing.T) {
	f := serve(t, nil)
	out := f.askRaw(object{
		"query": "capital of Norway", "fields": []string{"generation", "chunks.document", "chunks.snippet", "reason"},
	})
	first := out["chunks"].([]any)[0].(object)
	explained := f.askRaw(object{"query": "capital", "fields": []string{"explain"}})
	assert.True(t, len(explained) == 1 && explained["explain"] != nil, "%v", explained)
	assert.True(t, len(out) == 3 && out["generation"] == "g1" && len(first) == 2 && first["document"] == "cities/oslo.txt",
		"%v", out)
}

// pages reads a list to its end, and gives what each entry has under a name.
func (f *fixture) pages(path, field string, limit int) (all []string, requests int) {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	for cursor := ""; ; {
		at := fmt.Sprintf("%s%slimit=%d", path, separator, limit)
		if cursor != "" {
			at += "&cursor=" + cursor
		}
		out := f.get(at)
		entries := out["items"].([]any)
		assert.True(f.t, len(entries) <= limit, "%s: %d entries", at, len(entries))
		for _, entry := range entries {
			all = append(all, entry.(object)[field].(string))
		}
		requests++
		if cursor = out["next_cursor"].(string); cursor == "" {
			return all, requests
		}
		require.True(f.t, requests <= 100, "%s does not end", path)
	}
}

func TestListsAreReadPageByPageToTheirEnd(t *testing.T) {
	f := serve(t, nil)
	var keys []string
	for _, document := range retrievetest.Sample() {
		keys = append(keys, document.Key)
	}
	for _, limit := range []int{1, 2, 3, len(keys), 1000} {
		got, requests := f.pages("/v1/indexes/sample/documents", "document", limit)
		assert.True(t, strings.Join(got, " ") == strings.Join(keys, " ") && requests == (len(keys)+limit-1)/limit,
			"limit %d: %v in %d requests", limit, got, requests)
	}
	got, _ := f.pages("/v1/indexes/sample/documents?prefix=cities/", "document", 2)
	assert.True(t, len(got) == 3, "below cities/: %v", got)
	got, _ = f.pages("/v1/indexes/sample/documents?prefix=zzz", "document", 2)
	assert.True(t, len(got) == 0, "below zzz: %v", got)
	whole, _ := f.pages("/v1/indexes/sample/entities", "name", 1000)
	paged, _ := f.pages("/v1/indexes/sample/entities", "name", 3)
	assert.True(t, len(whole) >= 10 && strings.Join(whole, "|") == strings.Join(paged, "|"),
		"%v, in pages %v", whole, paged)
	oslo := "/v1/indexes/sample/entities/" + retrievetest.ClassID("Oslo").String() + "/chunks"
	whole, _ = f.pages(oslo, "id", 1000)
	paged, _ = f.pages(oslo, "id", 1)
	assert.True(t, len(whole) == 3 && strings.Join(whole, "|") == strings.Join(paged, "|"),
		"%v, in pages %v", whole, paged)
}

// Promises of a list without a generation: what comes or goes meanwhile neither repeats nor hides an entry.
func TestNamedListsGoOnAfterTheirLastEntry(t *testing.T) {
	f := serve(t, nil)
	for _, name := range []string{"alpha", "beta", "zeta"} {
		retrievetest.Publish(t, retrievetest.Build(t, f.stores, name, retrievetest.Sample()[:1], retrievetest.Options{}), 1)
	}
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(fram).Generation == "g2" })
	for path, want := range map[string][2]string{
		"/v1/indexes":                    {"index", "alpha beta sample zeta"},
		"/v1/indexes/sample/generations": {"generation", "g2 g1"},
	} {
		for _, limit := range []int{1, 3, 1000} {
			got, _ := f.pages(path, want[0], limit)
			assert.Equal(t, want[1], strings.Join(got, " "), "%s by %d", path, limit)
		}
		for at, want := range map[string]int{
			path + "?cursor=": 200, path + "?cursor=gone": 422,
			cursor(path, "gone", 0): 410, cursor(path, "gone", 0) + "0": 422,
		} {
			status, _, _ := f.do("GET", at, nil)
			assert.Equal(t, want, status, at)
		}
	}
}

// A place is that of another entry in another order or under another filter.
func TestACursorIsOfOneList(t *testing.T) {
	f := serve(t, nil)
	list := "/v1/indexes/sample/entities?order=passages&contains=o&limit=1"
	next := f.get(list)["next_cursor"].(string)
	for at, want := range map[string]int{
		list + "&generation=g1": 200,
		"/v1/indexes/sample/entities?contains=o&order=passages&limit=2": 200,
		"/v1/indexes/sample/entities?order=name&contains=o":             422,
		"/v1/indexes/sample/entities?order=passages&contains=os":        422, "/v1/indexes/sample/documents?limit=1": 422,
	} {
		status, out, _ := f.do("GET", at+"&cursor="+next, nil)
		assert.Equal(t, want, status, "%s: %v", at, out)
	}
}

// cursor returns the address of the page of a list that begins at a place.
func cursor(list, name string, place int) string {
	separator := "?"
	if strings.Contains(list, "?") {
		separator = "&"
	}
	request, _ := http.NewRequest("GET", list, nil) //nolint:noctx // nothing is sent
	return list + separator + "cursor=" + api.CursorOf(request, name, place)
}

// A list that was begun goes on in its generation although another is served meanwhile, and ends where that is gone.
// Promises: 101.
func TestAListGoesOnInItsGeneration(t *testing.T) {
	f := serve(t, nil)
	first := f.get("/v1/indexes/sample/documents?limit=5&cursor=")
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(fram).Generation == "g2" })
	rest := f.get("/v1/indexes/sample/documents?limit=5&cursor=" + first["next_cursor"].(string))
	assert.True(t, rest["generation"] == "g1" && len(rest["items"].([]any)) == len(retrievetest.Sample())-5, "%v", rest)
	f.shutdown()
	require.NoError(t, f.stores.Blobs.Delete(t.Context(), f.built.Index.GenerationKey("g1", "manifest.json")))
	again := serve(t, func(g *fixture, config *api.Config) { // a replica that does not have it open
		g.stores, g.store = f.stores, watch(f.stores.Blobs)
		config.Artifacts, config.Records, config.Readers = g.store, f.stores.Records, f.stores.Readers
		config.Vectors, config.Cache = f.stores.Vectors, f.stores.Cache
	})
	list := "/v1/indexes/sample/documents?limit=5&cursor=" + first["next_cursor"].(string)
	again.refuse(410, "generation_collected", "GET", list, nil)
}

// What a page costs must not depend on how long the list is.
func TestAPageOfDocumentsReadsEachFrameOnce(t *testing.T) {
	f := serve(t, nil)
	f.get("/v1/indexes/sample/entities?prefix=o") // opens the generation, and reads no document
	segment := f.built.Manifest.Segments.Documents[0].SHA256
	before := f.store.reads(segment)
	f.get("/v1/indexes/sample/documents")
	assert.Equal(t, 1, f.store.reads(segment)-before)
}

func TestADocumentTellsWhatIsServedOfIt(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) {
		documents := append(retrievetest.Sample()[:2:2],
			retrievetest.Document{Key: "notes/text", Title: "Notes", Chunks: []retrievetest.Chunk{
				{Text: "Of Bodø.", Entities: []string{"Bodø"}},
			}})
		retrievetest.Publish(f.t, retrievetest.Build(f.t, f.stores, "tricky", documents, retrievetest.Options{}), 1)
	})
	for _, document := range retrievetest.Sample() {
		out := f.get("/v1/indexes/sample/documents/" + document.Key)
		assert.True(t, out["document"] == document.Key && out["title"] == document.Title && out["type"] == "text" &&
			out["chunks"] == float64(len(document.Chunks)) && (out["stale"] == true) == document.Stale &&
			(out["problem"] != nil) == document.Stale && len(out["metadata"].(object)) == len(document.Meta), "%s: %v",
			document.Key, out)
		text := f.get("/v1/indexes/sample/documents/" + document.Key + "/text")
		assert.True(t, text["length"] == out["length"] && text["version"] == out["version"],
			"%s: %v and %v", document.Key, out, text)
	}
	// A key that ends like the address of a text has that slash encoded.
	out := f.get("/v1/indexes/tricky/documents/notes%2Ftext")
	assert.True(t, out["document"] == "notes/text", "%v", out)
	out = f.get("/v1/indexes/tricky/documents/notes/text/text")
	assert.True(t, out["text"] == "Of Bodø.", "%v", out)
}

func TestAnIndexHasACardAndAGenerationItsReport(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	g2 := retrievetest.Build(t, f.stores, "sample", retrievetest.Sample()[:5], retrievetest.Options{
		Generation: "g2", Seq: 2, Edit: func(manifest *core.Manifest) {
			manifest.Parent, manifest.Cost = f.built.SHA, 1.5
			manifest.Counts.Failed, manifest.Counts.DeadLetters = 1, 2
		},
	})
	retrievetest.Publish(t, g2, 2)
	eventually(t, "switched", func() bool { return f.ask(fram).Generation == "g2" })
	card := f.get("/v1/indexes/sample")
	assert.True(t, card["generation"] == "g2" && card["documents"] == 5.0 && card["problems"] == 3.0 &&
		card["serving"] == "ready" && card["bytes"].(float64) >= 1000 && card["published"] != nil &&
		card["age_seconds"].(float64) <= 60, "%v", card)
	detail := f.get("/v1/indexes/sample/generations/g2")
	assert.True(t, detail["report"] == nil && detail["diff"] == nil && detail["state"] == "current" &&
		detail["cost"] == 1.5, "without a report: %v", detail)
	report := core.Report{Status: core.StatusErrors, Diff: core.Diff{Removed: 2, Same: 5}, ProblemsTotal: 7}
	key := f.built.Index.GenerationKey("g2", "report.json")
	must(blob.WriteJSON(t.Context(), f.stores.Blobs, key, report, blob.Cond{}))(t)
	detail = f.get("/v1/indexes/sample/generations/g2")
	parent := detail["parent"].(object)
	assert.True(t, parent["generation"] == "g1" && parent["documents"] == float64(len(retrievetest.Sample())) &&
		detail["diff"].(object)["removed"] == 2.0 &&
		detail["report"].(object)["status"] == "completed_with_errors", "%v", detail)
	card = f.get("/v1/indexes/sample")
	assert.True(t, card["problems"] == 7.0, "the report counts what still stands: %v", card["problems"])
	first := f.get("/v1/indexes/sample/generations/g1")
	assert.True(t, first["parent"] == nil && first["state"] == "published", "%v", first)
}

func TestAMemoryIsToldByThemesAndBounded(t *testing.T) {
	f := serve(t, nil)
	memory := f.get("/v1/indexes/sample/memory")
	themes := memory["themes"].([]any)
	require.True(t, len(themes) == 1 && memory["generation"] == "g1" && memory["graph"] == "matrix" &&
		memory["shown"] == 2.0, "%v", memory)
	theme := themes[0].(object)
	chunks := theme["chunks"].([]any)
	first := chunks[0].(object)
	assert.True(t, len(chunks) == 2 && first["member"] == true && first["question"] != "" &&
		first["degree"].(float64) > 0 && first["loading"].(float64) >= chunks[1].(object)["loading"].(float64) &&
		theme["questions"].([]any)[0] == retrievetest.SummaryQuestion, "%v", theme)
	chunk := f.get("/v1/indexes/sample/chunks/" + first["id"].(string))["chunk"].(object)
	assert.True(t, chunk["document"] == first["document"] && chunk["ordinal"] == first["ordinal"],
		"%v is shown as %v", chunk, first)
	one := f.get("/v1/indexes/sample/memory?nodes=1&generation=g1")
	assert.True(t, one["shown"] == 1.0, "%v", one)
	for path, status := range map[string]int{
		"/v1/indexes/sample/memory?nodes=0": 422, "/v1/indexes/sample/memory?nodes=301": 422,
		"/v1/indexes/never/memory": 404,
	} {
		assert.Equal(t, status, f.send("GET", path, "").Code, "%s", path)
	}
}

func TestAnIndexWithoutAMemoryNamesTheSetting(t *testing.T) {
	f := serve(t, nil)
	plain := retrievetest.Build(t, f.stores, "plain", retrievetest.Sample(), retrievetest.Options{Unasked: true})
	retrievetest.Publish(t, plain, 1)
	for param, problem := range map[string]object{
		"generation": f.refuse(422, "", "GET", "/v1/indexes/plain/memory", nil),
		"method":     f.refuse(422, "", "POST", "/v1/indexes/plain/query", object{"query": "Oslo", "method": "gem"}),
	} {
		assert.Equal(t, param, problem["param"], "%v", problem)
		assert.Contains(t, problem["hint"], "indexes.*.enrich")
	}
}

// part returns text[start:end] in code points.
func part(text string, start, end int) string { return string([]rune(text)[start:end]) }

func TestEveryChunkOfAnAnswerShowsWhatMatched(t *testing.T) {
	f := serve(t, nil)
	for _, method := range []string{"hybrid", "unweaver", "bm25", "vector", "ppr"} {
		out := f.ask(object{"query": "Which ship sailed from Tromsø to the Arctic Circle?", "method": method})
		marked := map[string]bool{}
		for _, chunk := range out.Chunks {
			text, snippet := chunk.Text, chunk.Snippet
			assert.Equal(t, snippet.Text, part(text, snippet.Start, snippet.End), "%s: %q", method, text)
			assert.Equal(t, strings.TrimSpace(text), snippet.Text, "%s: all of so short a text", method)
			for _, span := range chunk.Highlights {
				marked[part(text, span.Start, span.End)] = true
			}
		}
		assert.True(t, marked["Tromsø"] && marked["Arctic"] && (method != "hybrid" || marked["sailed"]) && !marked["the"],
			"%s: marked %v", method, marked)
	}
	first := f.ask(object{"query": "Fram"}).Chunks[0]
	_, has := f.get("/v1/indexes/sample/chunks/" + first.ID)["chunk"].(object)["snippet"]
	assert.False(t, has, "a chunk that no word asks for has no snippet")
}

func TestAnAnswerSaysHowSureItIsAndWhatKindItHas(t *testing.T) {
	f := serve(t, nil)
	out := f.ask(object{"query": "Who reached the South Pole first?", "answer": true})
	assert.True(t, *out.Confidence > 0.5 && out.Answer.Kind == "best_sentence" &&
		strings.Contains(out.Answer.Text, "Roald Amundsen reached the South Pole first."), "%+v", out.Answer)
	out = f.ask(object{"query": "Who reached the finals of the 2018 football cup in Ottawa?", "answer": true})
	assert.True(t, *out.Confidence <= 0.3 && out.Answer.Kind == "none" && len(out.Answer.Citations) == 1 &&
		strings.Contains(out.Answer.Text, "the best passage is [1]"), "%v %+v", *out.Confidence, out.Answer)
	out = f.ask(object{"query": "asdfghjkl qwertyuiop", "answer": true})
	assert.True(t, reasonOf(out) == "no_match" && len(out.Chunks) == 0 && out.Confidence == nil &&
		out.Answer.Kind == "none", "%+v", out)
	assert.Nil(t, f.ask(object{"query": "Fram", "method": "bm25"}).Confidence, "bm25 was not calibrated")
}

// Entities of a type, or of a document, are listed for programs and for agents; answers and passages show types.
func TestEntitiesOfATypeAreListed(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) {
		types := map[string]string{"Oslo": "City", "Bergen": "City", "Tromsø": "City", "Fram": "Ship"}
		retrievetest.Publish(t, retrievetest.Build(t, f.stores, "typed", retrievetest.Sample(),
			retrievetest.Options{Types: types}), 1)
	})
	const list = "/v1/indexes/typed/entities"
	paged, requests := f.pages(list+"?type=city", "name", 2)
	assert.True(t, strings.Join(paged, ", ") == "Bergen, Oslo, Tromsø" && requests == 2, "%q in %d pages", paged, requests)
	for parameters, want := range map[string]string{
		"document=cities/oslo.txt": "Norway, Opera House, Oslo", "document=cities/oslo.txt&type=City": "Oslo",
		"type=CITY&order=passages&limit=1": "Oslo", "type=Ship&prefix=o": "",
	} {
		assert.Equal(t, want, names(f.get(list + "?" + parameters)["items"]), parameters)
	}
	first := f.get(list + "?type=ship")["items"].([]any)[0].(object)
	assert.True(t, first["type"] == "Ship" && f.get(list + "/" + first["id"].(string))["type"] == "Ship", "%v", first)
	wrong := f.refuse(422, "invalid_parameter", "GET", list+"?type=Town", nil)
	assert.Contains(t, wrong["hint"], "City, Ship")
	wrong = f.refuse(422, "invalid_parameter", "GET", "/v1/indexes/sample/entities?type=City", nil)
	assert.Contains(t, wrong["hint"], "extraction.types")
	f.refuse(404, "not_found", "GET", list+"?document=none", nil)
	var found answer.Response
	f.asked("/v1/indexes/typed/query", object{"query": "Fram", "method": "unweaver", "explain": true}, &found)
	assert.True(t, found.Entities[0].Type == "Ship" && slices.ContainsFunc(found.Chunks[0].Mentions,
		func(one answer.Mention) bool { return one.Name == "Fram" && one.Type == "Ship" }), "%+v", found)
	session := f.agent("")
	asked := object{"index": "typed", "type": "city", "max_tokens": 1}
	text, out, failed := call(t, session, "list_entities", asked)
	require.True(t, !failed && names(out["items"]) == "Bergen" && strings.Contains(text, "Bergen (City, "), text)
	asked["cursor"] = out["next_cursor"]
	for _, other := range []object{{"type": "Ship"}, {"type": "city", "generation": "other"}, {"index": "sample"}} {
		says := "not a cursor of this list"
		if other["generation"] != nil {
			says = "it belongs to generation g1, not other"
		}
		other["cursor"], other["index"] = asked["cursor"], cmp.Or(other["index"], any("typed"))
		text, _, failed = call(t, session, "list_entities", other)
		assert.True(t, failed && strings.Contains(text, says), text)
	}
	_, out, failed = call(t, session, "list_entities", asked)
	require.True(t, !failed && names(out["items"]) == "Oslo", "%v", out)
	asked["cursor"], asked["max_tokens"] = out["next_cursor"], 200
	_, out, failed = call(t, session, "list_entities", asked)
	assert.True(t, !failed && names(out["items"]) == "Tromsø" && out["next_cursor"] == nil, "%v", out)
	text, _, failed = call(t, session, "list_entities", object{"index": "typed", "type": "Town"})
	assert.True(t, failed && strings.Contains(text, "City, Ship"), text)
}
