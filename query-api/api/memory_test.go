package api_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

func TestAMemoryIsToldByThemesAndBounded(t *testing.T) {
	f := serve(t, nil)
	memory := f.get("/v1/indexes/sample/memory")
	themes := memory["themes"].([]any)
	if len(themes) != 1 || memory["generation"] != "g1" || memory["graph"] != "matrix" || memory["shown"] != 2.0 {
		t.Fatalf("%v", memory)
	}
	theme := themes[0].(map[string]any)
	chunks := theme["chunks"].([]any)
	first := chunks[0].(map[string]any)
	if len(chunks) != 2 || first["member"] != true || first["question"] == "" || first["degree"].(float64) <= 0 ||
		first["loading"].(float64) < chunks[1].(map[string]any)["loading"].(float64) ||
		theme["questions"].([]any)[0] != retrievetest.SummaryQuestion {
		t.Errorf("%v", theme)
	}
	chunk := f.get("/v1/indexes/sample/chunks/" + first["id"].(string))["chunk"].(map[string]any)
	if chunk["document"] != first["document"] || chunk["ordinal"] != first["ordinal"] {
		t.Errorf("%v is told as %v", chunk, first)
	}
	if one := f.get("/v1/indexes/sample/memory?nodes=1&generation=g1"); one["shown"] != 1.0 {
		t.Errorf("%v", one)
	}
	for path, status := range map[string]int{
		"/v1/indexes/sample/memory?nodes=0":           http.StatusUnprocessableEntity,
		"/v1/indexes/sample/memory?nodes=301":         http.StatusUnprocessableEntity,
		"/v1/indexes/sample/memory/map?format=":       http.StatusUnprocessableEntity,
		"/v1/indexes/sample/memory/map?format=dot":    http.StatusUnprocessableEntity,
		"/v1/indexes/never/memory":                    http.StatusNotFound,
		"/v1/indexes/never/memory/map":                http.StatusNotFound,
		"/v1/indexes/sample/memory/map?generation=g9": http.StatusNotFound,
	} {
		if got := f.page(path).Code; got != status {
			t.Errorf("%s: %d, want %d", path, got, status)
		}
	}
}

func TestAMapHasAllChunksWithTheirTextsInTheSameBytes(t *testing.T) {
	f := serve(t, nil)
	answer := f.page("/v1/indexes/sample/memory/map")
	var read gem.Map
	if err := json.Unmarshal(answer.Body.Bytes(), &read); err != nil || answer.Code != http.StatusOK {
		t.Fatal(answer.Code, err)
	}
	chunks := f.get("/v1/indexes/sample")["chunks"].(float64)
	summary := read.Nodes[len(read.Nodes)-1]
	if len(read.Nodes) != int(chunks)+1 || summary.Kind != "summary" || summary.Text == "" || len(read.Edges) == 0 ||
		read.Themes[0].Summary != summary.ID || len(read.Themes[0].Members) != 2 || read.Params["generation"] != "g1" {
		t.Fatalf("%d nodes of %v chunks, %+v", len(read.Nodes), chunks, read.Themes)
	}
	for i, node := range read.Nodes[:int(chunks)] {
		chunk := f.get("/v1/indexes/sample/chunks/" + node.ID)["chunk"].(map[string]any)
		if chunk["text"] != node.Text || chunk["document"] != node.Doc || chunk["start"] != float64(node.Start) ||
			len(node.Questions) == 0 || len(node.Theme) != 1 {
			t.Errorf("node %d: %+v, chunk %v", i, node, chunk)
		}
		if member := slices.Contains(read.Themes[0].Members, i); member != (node.Theme[0] > 0) {
			t.Errorf("node %d is a member: %v, loading %v", i, member, node.Theme[0])
		}
	}
	joined := slices.ContainsFunc(read.Edges, func(e gem.MapEdge) bool { return e.B == len(read.Nodes)-1 })
	if !joined {
		t.Error("the summary has no edge")
	}
	for _, form := range []string{"json", "graphml"} {
		path := "/v1/indexes/sample/memory/map?generation=g1&format=" + form
		one, two := f.page(path), f.page(path)
		if !bytes.Equal(one.Body.Bytes(), two.Body.Bytes()) || one.Header().Get("ETag") == "" ||
			!strings.Contains(one.Header().Get("Content-Type"), form) {
			t.Errorf("%s: %v", form, one.Header())
		}
		if form == "graphml" {
			var graph struct {
				Nodes []struct{} `xml:"graph>node"`
			}
			if err := xml.Unmarshal(one.Body.Bytes(), &graph); err != nil || len(graph.Nodes) != len(read.Nodes) {
				t.Errorf("%d nodes (%v)", len(graph.Nodes), err)
			}
		}
	}
}

func TestAnIndexWithoutAMemoryNamesTheSetting(t *testing.T) {
	f := serve(t, nil)
	plain := retrievetest.Build(t, f.stores, "plain", retrievetest.Sample(), retrievetest.Options{Unasked: true})
	retrievetest.Publish(t, plain, 1)
	for _, path := range []string{"/memory", "/memory/map"} {
		status, problem, _ := f.do(http.MethodGet, "/v1/indexes/plain"+path, nil)
		if status != http.StatusUnprocessableEntity || !strings.Contains(problem["hint"].(string), "indexes.*.enrich") {
			t.Errorf("%s: %d %v", path, status, problem)
		}
	}
}

// A text that cannot be read on the way ends the answer without its end.
func TestAMapThatBreaksOffIsNotWhole(t *testing.T) {
	f := serve(t, nil)
	var sha string
	for _, segment := range f.built.Manifest.Segments.Text {
		sha = segment.SHA256
	}
	f.get("/v1/indexes/sample/memory")
	if err := f.stores.Blobs.Delete(t.Context(), f.built.Index.SegmentKey(sha)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() != http.ErrAbortHandler { //nolint:errorlint // a panic is the very value
			t.Error("the answer ended as if it were whole")
		}
	}()
	f.page("/v1/indexes/sample/memory/map")
}
