package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// pages reads a list to its end, and gives what each entry has under a name.
func (f *fixture) pages(path, field string, limit int) (all []string, requests int) {
	f.t.Helper()
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
			all = append(all, entry.(map[string]any)[field].(string))
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
	if got, _ := f.pages("/v1/indexes/sample/documents?prefix=cities/", "document", 2); len(got) != 3 {
		t.Errorf("below cities/: %v", got)
	}
	if got, _ := f.pages("/v1/indexes/sample/documents?prefix=zzz", "document", 2); len(got) != 0 {
		t.Errorf("below zzz: %v", got)
	}
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
		built := retrievetest.Build(t, f.stores, name, retrievetest.Sample()[:1], retrievetest.Options{})
		retrievetest.Publish(t, built, 1)
	}
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(fram)["generation"] == "g2" })
	for path, want := range map[string][2]string{
		"/v1/indexes":                    {"index", "alpha beta sample zeta"},
		"/v1/indexes/sample/generations": {"generation", "g2 g1"},
	} {
		for _, limit := range []int{1, 3, 1000} {
			got, _ := f.pages(path, want[0], limit)
			assert.Equal(t, want[1], strings.Join(got, " "), "%s by %d", path, limit)
		}
		for at, want := range map[string]int{
			path + "?cursor=": http.StatusOK, path + "?cursor=gone": http.StatusUnprocessableEntity,
			cursor(path, "gone", 0): http.StatusGone, cursor(path, "gone", 0) + "0": http.StatusUnprocessableEntity,
		} {
			status, _, _ := f.do(http.MethodGet, at, nil)
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
		list + "&generation=g1": http.StatusOK,
		"/v1/indexes/sample/entities?contains=o&order=passages&limit=2": http.StatusOK,
		"/v1/indexes/sample/entities?order=name&contains=o":             http.StatusUnprocessableEntity,
		"/v1/indexes/sample/entities?order=passages&contains=os":        http.StatusUnprocessableEntity,
		"/v1/indexes/sample/documents?limit=1":                          http.StatusUnprocessableEntity,
	} {
		status, out, _ := f.do(http.MethodGet, at+"&cursor="+next, nil)
		assert.Equal(t, want, status, "%s: %v", at, out)
	}
}

// cursor returns the address of the page of a list that begins at a place.
func cursor(list, name string, place int) string {
	separator := "?"
	if strings.Contains(list, "?") {
		separator = "&"
	}
	request, _ := http.NewRequest(http.MethodGet, list, nil) //nolint:noctx // nothing is sent
	return list + separator + "cursor=" + api.CursorOf(request, name, place)
}

// A list that was begun goes on in its generation although another is served meanwhile, and ends where that is gone.
// Promises: 101.
func TestAListGoesOnInItsGeneration(t *testing.T) {
	f := serve(t, nil)
	first := f.get("/v1/indexes/sample/documents?limit=5&cursor=")
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(fram)["generation"] == "g2" })
	rest := f.get("/v1/indexes/sample/documents?limit=5&cursor=" + first["next_cursor"].(string))
	assert.True(t, rest["generation"] == "g1" && len(rest["items"].([]any)) == len(retrievetest.Sample())-5, "%v", rest)
	f.shutdown()
	require.NoError(t, f.stores.Blobs.Delete(t.Context(), f.built.Index.GenerationKey("g1", "manifest.json")))
	again := serve(t, func(g *fixture, config *api.Config) { // a replica that does not have it open
		g.stores, g.store = f.stores, watch(f.stores.Blobs)
		config.Artifacts, config.Records, config.Readers = g.store, f.stores.Records, f.stores.Readers
		config.Vectors, config.Cache = f.stores.Vectors, f.stores.Cache
	})
	status, out, _ := again.do(http.MethodGet,
		"/v1/indexes/sample/documents?limit=5&cursor="+first["next_cursor"].(string), nil)
	assert.True(t, status == http.StatusGone && out["code"] == "generation_collected", "%d %v", status, out)
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
		built := retrievetest.Build(f.t, f.stores, "tricky", documents, retrievetest.Options{})
		retrievetest.Publish(f.t, built, 1)
	})
	for _, document := range retrievetest.Sample() {
		out := f.get("/v1/indexes/sample/documents/" + document.Key)
		if out["document"] != document.Key || out["title"] != document.Title || out["type"] != "text" ||
			out["chunks"] != float64(len(document.Chunks)) || (out["stale"] == true) != document.Stale ||
			(out["problem"] != nil) != document.Stale || len(out["metadata"].(map[string]any)) != len(document.Meta) {
			t.Errorf("%s: %v", document.Key, out)
		}
		text := f.get("/v1/indexes/sample/documents/" + document.Key + "/text")
		assert.True(t, text["length"] == out["length"] && text["version"] == out["version"],
			"%s: %v and %v", document.Key, out, text)
	}
	// A key that ends like the address of a text has that slash encoded.
	if out := f.get("/v1/indexes/tricky/documents/notes%2Ftext"); out["document"] != "notes/text" {
		t.Errorf("%v", out)
	}
	if out := f.get("/v1/indexes/tricky/documents/notes/text/text"); out["text"] != "Of Bodø." {
		t.Errorf("%v", out)
	}
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
	eventually(t, "switched", func() bool { return f.ask(fram)["generation"] == "g2" })
	card := f.get("/v1/indexes/sample")
	if card["generation"] != "g2" || card["documents"] != 5.0 || card["problems"] != 3.0 || card["serving"] != "ready" ||
		card["bytes"].(float64) < 1000 || card["published"] == nil || card["age_seconds"].(float64) > 60 {
		t.Errorf("%v", card)
	}
	detail := f.get("/v1/indexes/sample/generations/g2")
	if detail["report"] != nil || detail["diff"] != nil || detail["state"] != "current" || detail["cost"] != 1.5 {
		t.Errorf("without a report: %v", detail)
	}
	report := core.Report{Status: core.StatusErrors, Diff: core.Diff{Removed: 2, Same: 5}, ProblemsTotal: 7}
	key := f.built.Index.GenerationKey("g2", "report.json")
	_, err := blob.WriteJSON(t.Context(), f.stores.Blobs, key, report, blob.Cond{})
	require.NoError(t, err)
	detail = f.get("/v1/indexes/sample/generations/g2")
	parent := detail["parent"].(map[string]any)
	if parent["generation"] != "g1" || parent["documents"] != float64(len(retrievetest.Sample())) ||
		detail["diff"].(map[string]any)["removed"] != 2.0 ||
		detail["report"].(map[string]any)["status"] != "completed_with_errors" {
		t.Errorf("%v", detail)
	}
	if card := f.get("/v1/indexes/sample"); card["problems"] != 7.0 {
		t.Errorf("the report counts what still stands: %v", card["problems"])
	}
	first := f.get("/v1/indexes/sample/generations/g1")
	assert.True(t, first["parent"] == nil && first["state"] == "published", "%v", first)
}
