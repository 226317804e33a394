package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/starter/cli"
)

// mapped serves maps, and remembers what it was asked for.
type mapped struct {
	asked  []string
	status int
	body   string
	breaks bool // the answer off
}

func (m *mapped) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	m.asked = append(m.asked, request.Method+" "+request.URL.RequestURI())
	if m.status != 0 {
		w.WriteHeader(m.status)
	}
	_, _ = io.WriteString(w, m.body)
	if m.breaks {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func export(t *testing.T, served *mapped, args ...string) result {
	t.Helper()
	server := httptest.NewServer(served)
	defer server.Close()
	return in(t, connected(&fakeControl{}, server.URL), nil, append([]string{"gem", "export"}, args...)...)
}

func TestAMemoryIsExportedToOutputOrAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	const body = `{"gem":1,"nodes":[]}` + "\n"
	served := &mapped{body: body}
	got := export(t, served, "--index", "docs")
	if got.exit != cli.ExitDone || got.out != body || served.asked[0] != "GET /v1/indexes/docs/memory/map?format=json" {
		t.Errorf("%+v %v", got, served.asked)
	}
	if got = export(t, served, "--index", "docs", "--json"); got.out != body {
		t.Errorf("%+v", got)
	}
	got = export(t, served, "--index", "docs", "--generation", "g 1", "--format", "graphml", "--out", "map.graphml")
	raw, err := os.ReadFile("map.graphml")
	if err != nil || string(raw) != body ||
		served.asked[2] != "GET /v1/indexes/docs/memory/map?format=graphml&generation=g+1" ||
		!strings.Contains(got.out, "the memory of docs is in map.graphml (21 B)") {
		t.Errorf("%+v %v (%v)", got, served.asked, err)
	}
	info, err := os.Stat("map.graphml")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v (%v)", info, err)
	}
	told := decoded(t, export(t, served, "--index", "docs", "--out", "map.json", "--json").out)
	if told["file"] != "map.json" || told["bytes"] != 21.0 || told["format"] != "json" {
		t.Errorf("%v", told)
	}
}

func TestAnExportThatFailsIsToldAndLeavesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	refused := &mapped{status: http.StatusUnprocessableEntity, body: `{"code":"invalid_param",` +
		`"detail":"generation g1: it was built without questions of its chunks","hint":"add gem to indexes.*.enrich"}`}
	got := export(t, refused, "--index", "docs", "--out", "map.json")
	if got.exit == cli.ExitDone || !strings.Contains(got.err, "add gem to indexes.*.enrich") {
		t.Errorf("%+v", got)
	}
	got = export(t, &mapped{body: `{"gem":1,`, breaks: true}, "--index", "docs", "--out", "map.json")
	if got.exit == cli.ExitDone || !strings.Contains(got.err, "not whole") {
		t.Errorf("%+v", got)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) != 0 {
		t.Errorf("%v are left (%v)", left, err)
	}
	served := &mapped{body: "{}"}
	for _, args := range [][]string{
		{"--index", "docs", "--format", "dot"}, {"--index", "docs", "--format", "graphml", "--json"}, {},
		{"--index", "docs", "--out", "missing/map.json"}, {"--index", "docs", "more"},
	} {
		if got := export(t, served, args...); got.exit != cli.ExitUsage {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if len(served.asked) != 0 {
		t.Errorf("asked for %v", served.asked)
	}
}

func TestStepsAlongEdgesAreExplained(t *testing.T) {
	body := `{"index":"docs","method":"gem","chunks":[{"id":"c1","rank":1},{"id":"c2","rank":2},{"id":"c3","rank":3}],
"explain":{"chunks":[
 {"id":"c1","score":0.9,"question":"Who?","step":{"priority":0.9}},
 {"id":"c2","score":0.5,"question":"Where?","step":{"priority":0.6,"from":"c1","weight":0.4}},
 {"id":"c3","score":0.4,"question":"When?","step":{"priority":0.5,"theme":2,"weight":0.3}}],"summaries":[]}}`
	got := ask(t, &queries{bodies: []string{body}}, "--index", "docs", "--explain")
	contains(t, got.out, "Who?, priority 0.900, no edge led here", "priority 0.600 along an edge of 0.400 from [1]",
		"priority 0.500 along an edge of 0.300 from the summary of theme 2")
}

func TestFactsAreExplained(t *testing.T) {
	body := `{"index":"docs","method":"apr","chunks":[{"id":"c1","rank":1},{"id":"c2","rank":2}],"explain":{
"names":["Redis"],"encoding":"words","tokens":73,"runs":[
 {"fine":0.952,"coarse":0.089,"top":0.64,"cover":1,"kept":true,"facts":["Redis holds leases","leases end"]},
 {"fine":0.5,"kept":false,"facts":["leases are held"]}],
"told":[{"head":"Redis","relation":"holds","tail":"leases","chunks":["c2","gone"]}]}}`
	got := ask(t, &queries{bodies: []string{body}}, "--index", "docs", "--explain")
	contains(t, got.out, "runs of facts, compared by Redis:", "0.952   0.089   0.640   1.000",
		"Redis holds leases; leases end",
		"leases are held (left out: another run says the same)", "told, as words, in 73 tokens:",
		"Redis | holds | leases  [2]\n")
	body = `{"index":"docs","method":"apr","chunks":[],"explain":{"names":[],"runs":[],"told":[]}}`
	got = ask(t, &queries{bodies: []string{body}}, "--index", "docs", "--explain")
	contains(t, got.out, "no name in the question: compared as a whole", "told: nothing")
}
