package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/starter/cli"
)

// queries serves answers and remembers what was asked.
type queries struct {
	mu     sync.Mutex
	asked  []map[string]any
	paths  []string
	status int
	bodies []string // one a question; the last one stays
}

func (q *queries) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	raw, _ := io.ReadAll(request.Body)
	body := map[string]any{}
	_ = json.Unmarshal(raw, &body)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked, q.paths = append(q.asked, body), append(q.paths, request.URL.EscapedPath())
	if q.status != 0 {
		w.WriteHeader(q.status)
	}
	_, _ = io.WriteString(w, q.bodies[min(len(q.asked), len(q.bodies))-1])
}

func ask(t *testing.T, served *queries, args ...string) result {
	t.Helper()
	server := httptest.NewServer(served)
	defer server.Close()
	t.Chdir(t.TempDir())
	return in(t, withConnection(&fakeControl{}, server.URL), nil, append([]string{"query", "who wove it?"}, args...)...)
}

const answered = `{"index":"docs","generation":"g1","method":"hybrid","models":"built-in models",
"chunks":[
 {"id":"c1","document":"a.md","title":"Arachne","start":3,"end":40,"text":"Arachne   wove\n it.","score":0.5,"rank":1,
  "entities":[{"id":"e1","name":"Arachne"},{"id":"e2","name":"Athena"}]},
 {"id":"c2","document":"b.md","title":"Looms","start":0,"end":9,"text":"A loom.","score":0.25,"rank":2,"filled":true,
  "stale":true}],
"answer":{"text":"Arachne.","citations":["c1","c9"]},"confidence":0.5,"timings_ms":{"total":12.4}}`

// A weak result looks weak, and a passage of many entities names those that are near to the question.
func TestAResultShowsItsStrengthAndTheNearestEntities(t *testing.T) {
	got := ask(t, &queries{bodies: []string{`{"index":"docs","method":"hybrid","confidence":0.13,"chunks":[
{"id":"c1","title":"Lease","score":1.1,"rank":1,"entities":[{"id":"a","name":"A"},{"id":"b","name":"B"},{"id":"c","name":"C"},
{"id":"d","name":"D"},{"id":"e","name":"E"},{"id":"f","name":"F"}]},{"id":"c2","title":"Weak","score":0.03,"rank":2}],
"entities":[{"id":"f","rank":2},{"id":"d","rank":1}]}`}}, "--index", "docs")
	for _, want := range []string{
		"▰▱▱▱▱\n", "through: D, F, A, B and 2 more\n", "confidence in the passages 13 % (low: this may not be an answer)",
	} {
		assert.Contains(t, got.out, want)
	}
	assert.NotContains(t, got.out, "▰▰")
}

func TestAQuestionIsAskedAndItsAnswerShown(t *testing.T) {
	served := &queries{bodies: []string{answered}}
	got := ask(t, served, "--index", "docs")
	want := `Arachne. [1]

[1] Arachne  (a.md, 3–40)  ▰▰▰▱▱
    Arachne wove it.
    through: Arachne, Athena
[2] Looms  (b.md, 0–9)  ▱▱▱▱▱ filled up stale
    A loom.

docs, generation g1, method hybrid, built-in models, 12 ms, ` +
		"confidence in the passages 50 % (moderate: check the passages)\n"
	assert.True(t, got.exit == cli.ExitDone && got.out == want && served.paths[0] == "/v1/indexes/docs/query",
		"%s %v %+v", got.out, served.paths, got)
	if body := served.asked[0]; len(body) != 3 || body["query"] != "who wove it?" || body["answer"] != true ||
		body["explain"] != false {
		t.Errorf("what is not given is the server's to choose: %v", body)
	}
	assert.Equal(t, answered+"\n", ask(t, served, "--index", "docs", "--json").out, "JSON is the server's own")
}

func TestSeveralIndexesAreAskedAtOnce(t *testing.T) {
	served := &queries{bodies: []string{`{"index":"docs+wiki-a","method":"hybrid","chunks":[
{"id":"c1","index":"wiki-a","document":"a.md","title":"Arachne","end":4,"text":"Wove.","score":0.1,"rank":1}],
"indexes":[{"index":"docs"},{"index":"wiki-a"},{"index":"wiki-b","code":"generation_busy"}]}`}}
	server := httptest.NewServer(served)
	defer server.Close()
	for _, args := range [][]string{{"Who?", "--index", "docs+wiki-*"}, {"docs+wiki-*", "Who?"}} {
		got := in(t, withConnection(&fakeControl{}, server.URL), nil, append([]string{"query"}, args...)...)
		for _, want := range []string{
			"[1] Arachne  (wiki-a: a.md, 0–4)", "index wiki-b did not answer: generation_busy\n", "docs+wiki-a, generation current",
		} {
			assert.Contains(t, got.out, want, "%v %s", args, got.err)
		}
		last := len(served.asked) - 1
		assert.True(t, served.paths[last] == "/v1/query" &&
			assert.ObjectsAreEqual([]any{"docs", "wiki-*"}, served.asked[last]["indexes"]), "%v", served.asked[last])
	}
	for _, wrong := range []string{"docs+", "+", "a+B", "docs/*"} {
		got := ask(t, served, "--index", wrong)
		assert.Equal(t, cli.ExitUsage, got.exit, "%s: %+v", wrong, got)
	}
}

func TestEveryFlagOfAQuestionReachesTheServer(t *testing.T) {
	served := &queries{bodies: []string{answered}}
	got := ask(t, served, "--index", "my-docs", "--method", "unweaver", "--rule", "seqpav", "--generation", "g7",
		"--top-chunks", "9", "--top-entities", "30", "--explain", "--answer=false",
		"--param", "damping=0.5", "--param", "solver=exact", "--param", "flags=[1,2]")
	sent, err := json.Marshal(served.asked[0])
	want := `{"answer":false,"explain":true,"generation":"g7","method":"unweaver",` +
		`"params":{"damping":0.5,"flags":[1,2],"solver":"exact"},"query":"who wove it?","rule":"seqpav",` +
		`"top_chunks":9,"top_entities":30}`
	if got.exit != cli.ExitDone || err != nil || string(sent) != want ||
		served.paths[0] != "/v1/indexes/my-docs/query" {
		t.Errorf("%s %v", sent, served.paths)
	}
}

func TestAnErrorOfTheServerKeepsItsCode(t *testing.T) {
	served := &queries{
		status: http.StatusNotFound, bodies: []string{`{"code":"unknown_index","detail":"no index is named docs"}`},
	}
	got := ask(t, served, "--index", "docs", "--json")
	if as := decoded(t, got.err); got.exit != cli.ExitUsage || as["code"] != "unknown_index" ||
		as["error"] != "no index is named docs" {
		t.Errorf("%+v", got)
	}
	served = &queries{status: http.StatusBadGateway, bodies: []string{"<html>"}}
	got = ask(t, served, "--index", "docs", "--json")
	if as := decoded(t, got.err); as["code"] != "internal" || !strings.Contains(as["error"].(string), "502") {
		t.Errorf("what is no answer of ours: %+v", got)
	}
	t.Chdir(t.TempDir())
	got = in(t, withConnection(&fakeControl{}, "http://127.0.0.1:1"), nil, "query", "who?", "--index", "docs")
	contains(t, got.err, "check that query-api runs at this address")
}

func TestAnAnswerWithoutChunksSaysWhy(t *testing.T) {
	got := ask(t, &queries{bodies: []string{`{"index":"docs","chunks":[],"reason":"no_match"}`}}, "--index", "docs")
	assert.True(t, strings.HasPrefix(got.out, "no passage matches the question: "), "%s", got.out)
}

const entity = "0123456789abcdef0123456789abcdef"

func TestASecondRankingLeavesOutWhatIsNamed(t *testing.T) {
	second := `{"index":"docs","chunks":[{"id":"c2","title":"Looms","rank":1,"score":0.75}],"method":"hybrid"}`
	served := &queries{bodies: []string{answered, second}}
	got := ask(t, served, "--index", "docs", "--without", entity, "--without", "a.md")
	require.True(t, len(served.asked) == 2 && served.asked[1]["answer"] == false, "%v", served.asked)
	without, _ := json.Marshal(served.asked[1]["without"])
	assert.Equal(t, `{"documents":["a.md"],"entities":["`+entity+`"]}`, string(without), "%s", without)
	lines := strings.Split(got.out, "\n")
	last := lines[len(lines)-4:]
	if strings.Join(strings.Fields(last[0]), " ") != "with everything without" ||
		strings.Join(strings.Fields(last[1]), " ") != "[1] Arachne (0.5000) [1] Looms (0.7500)" ||
		strings.TrimSpace(last[2]) != "[2] Looms (0.2500)" {
		t.Errorf("%s", got.out)
	}
	as := decoded(t, ask(t, &queries{bodies: []string{answered, second}},
		"--index", "docs", "--without", "a.md", "--json").out)
	if as["with"].(map[string]any)["generation"] != "g1" || as["without"].(map[string]any)["method"] != "hybrid" {
		t.Errorf("%v", as)
	}
}

func TestAnExplanationIsShownByItsMethod(t *testing.T) {
	head := `"index":"docs","chunks":[` +
		`{"id":"c1","rank":1,"entities":[{"id":"e1","name":"Arachne"}]},{"id":"c2","rank":2}],` +
		`"entities":[{"id":"e1","name":"Arachne","rank":1,"similarity":0.9,"chunk_total":4}],`
	for _, tc := range []struct {
		name, body string
		want       []string
	}{
		{
			"hybrid",
			`"method":"hybrid","explain":{
			"entities":[{"id":"e1","name":"Arachne","seed":0.5,"bm25":{"rank":2,"score":7}}],
			"chunks":[{"id":"c2","plain_share":0.25,"bm25":{"rank":3,"score":1.5},"class_shares":[
			{"id":"e1","name":"arachne","share":0.5},{"id":"e2345678ff","name":"athena","share":0.25},
			{"id":"e3","share":0.001}]}]}`,
			[]string{
				"   50.00%  2 (7.000)        -                Arachne\n",
				"  [2] BM25 3 (1.500): 25 % plain search, 50 % Arachne, 25 % athena\n",
			},
		},
		{
			"weighted election",
			`"method":"unweaver","rule":"weighted","explain":{"voters":5,"votes":8,"chunks":[
			{"id":"c1","count":4,"first":1,"score":0.4}]}`,
			[]string{
				"voters (of 5, 8 votes):\n", "similarity 0.900  in 4 passages\n", "[1] 4 / 8 * (1 - 1 / 5) = 0.4000\n",
			},
		},
		{
			"committee",
			`"method":"unweaver","rule":"pav","explain":{"rule":"pav","status":"optimal","value":1.5,"seats":[
			{"id":"c1","value":1,"voters":["e1","unknown-voter"]},{"id":"c2","value":null}],
			"runner_up":{"id":"c3456789ff","approval":2,"gap":0.5},"voters_without_a_seat":["e9"]}`,
			[]string{
				"rule pav (optimal), value 1.5000:\n", "  [1] 1.0000  Arachne, unknown-\n", "[2] no voter supports it",
				"runner-up c3456789: approval 2, 0.5 short of the last seat\n", "1 voters without a seat\n",
			},
		},
		{
			"walk",
			`"method":"ppr","explain":{"damping":0.5,"seeds":[{"id":"e1","score":0.75}]}`,
			[]string{"walk from 1 entities, damping 0.5:\n", " 75.0 %  Arachne\n"},
		},
		{
			"aligned",
			`"method":"aligned","explain":{"solver":"prices","status":"converged","gap":0.01,"rounds":7,
			"entities":[{"id":"e1","x":0.5,"kept":true},{"id":"e2","x":0.1,"kept":false}],
			"chunks":[{"id":"c2","price":0.25,"load":1,"capacity":2},{"id":"c1","price":null,"load":0,"capacity":1}]}`,
			[]string{
				"aligned by prices: converged, gap 0.01 after 7 rounds\n", "strength  0.5000  Arachne\n",
				"[2] price 0.2500, load 1.000 of 2\n", "[1] price -, load 0.000 of 1\n",
			},
		},
		{"a list", `"method":"bm25","explain":{"by":"bm25"}`, []string{"method bm25"}},
		{"an explanation of another form", `"method":"hybrid","explain":[1]`, []string{"method hybrid"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ask(t, &queries{bodies: []string{"{" + head + tc.body + "}"}}, "--index", "docs", "--explain")
			assert.Equal(t, cli.ExitDone, got.exit, "%+v", got)
			contains(t, got.out, tc.want...)
			if strings.Contains(got.out, "strength  0.1") {
				t.Error("a class that does not vote is shown")
			}
		})
	}
}
