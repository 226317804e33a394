package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/dev"
	"github.com/unweaver/unweaver/starter/cli/show"
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
	assert.True(t, got.exit == console.ExitDone && got.out == want && served.paths[0] == "/v1/indexes/docs/query",
		"%s %v %+v", got.out, served.paths, got)
	body := served.asked[0]
	assert.True(t, len(body) == 3 && body["query"] == "who wove it?" && body["answer"] == true && body["explain"] == false,
		"what is not given is the server's to choose: %v", body)
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
			"[1] Arachne  (wiki-a: a.md, 0–4)", "index wiki-b did not answer: generation_busy\n",
			"docs+wiki-a, generation current",
		} {
			assert.Contains(t, got.out, want, "%v %s", args, got.err)
		}
		last := len(served.asked) - 1
		assert.True(t, served.paths[last] == "/v1/query" &&
			assert.ObjectsAreEqual([]any{"docs", "wiki-*"}, served.asked[last]["indexes"]), "%v", served.asked[last])
	}
	for _, wrong := range []string{"docs+", "+", "a+B", "docs/*"} {
		got := ask(t, served, "--index", wrong)
		assert.Equal(t, console.ExitUsage, got.exit, "%s: %+v", wrong, got)
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
	assert.True(t, got.exit == console.ExitDone && err == nil && string(sent) == want &&
		served.paths[0] == "/v1/indexes/my-docs/query", "%s %v", sent, served.paths)
}

func TestAnErrorOfTheServerKeepsItsCode(t *testing.T) {
	served := &queries{
		status: http.StatusNotFound, bodies: []string{`{"code":"unknown_index","detail":"no index is named docs"}`},
	}
	got := ask(t, served, "--index", "docs", "--json")
	as := decoded(t, got.err)
	assert.True(t, got.exit == console.ExitUsage && as["code"] == "unknown_index" && as["error"] == "no index is named docs",
		"%+v", got)
	served = &queries{status: http.StatusBadGateway, bodies: []string{"<html>"}}
	got = ask(t, served, "--index", "docs", "--json")
	if as := decoded(t, got.err); as["code"] != "internal" || !strings.Contains(as["error"].(string), "502") {
		t.Errorf("what is no answer of ours: %+v", got)
	}
	t.Chdir(t.TempDir())
	got = in(t, withConnection(&fakeControl{}, "http://127.0.0.1:1"), nil, "query", "who?", "--index", "docs")
	contains(t, got.err, "check that query-api runs at this address")
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
	assert.True(t, strings.Join(strings.Fields(last[0]), " ") == "with everything without" &&
		strings.Join(strings.Fields(last[1]), " ") == "[1] Arachne (0.5000) [1] Looms (0.7500)" &&
		strings.TrimSpace(last[2]) == "[2] Looms (0.2500)", "%s", got.out)
	as := decoded(t, ask(t, &queries{bodies: []string{answered, second}},
		"--index", "docs", "--without", "a.md", "--json").out)
	assert.True(t, as["with"].(map[string]any)["generation"] == "g1" &&
		as["without"].(map[string]any)["method"] == "hybrid", "%v", as)
}

func TestAnExplanationIsShownByItsMethod(t *testing.T) {
	head := `"index":"docs","chunks":[` +
		`{"id":"c1","rank":1,"entities":[{"id":"e1","name":"Arachne"}]},{"id":"c2","rank":2},{"id":"c3","rank":3}],` +
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
			[]string{"voters (of 5, 8 votes):\n", "similarity 0.900  in 4 passages\n", "[1] 4 / 8 * (1 - 1 / 5) = 0.4000\n"},
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
		{
			"steps along edges",
			`"method":"gem","explain":{"chunks":[
			{"id":"c1","score":0.9,"question":"Who?","step":{"priority":0.9}},
			{"id":"c2","score":0.5,"question":"Where?","step":{"priority":0.6,"from":"c1","weight":0.4}},
			{"id":"c3","score":0.4,"question":"When?","step":{"priority":0.5,"theme":2,"weight":0.3}}],"summaries":[]}`,
			[]string{
				"Who?, priority 0.900, no edge led here", "priority 0.600 along an edge of 0.400 from [1]",
				"priority 0.500 along an edge of 0.300 from the summary of theme 2",
			},
		},
		{
			"facts",
			`"method":"apr","explain":{"names":["Redis"],"encoding":"words","tokens":73,"runs":[
			{"fine":0.952,"coarse":0.089,"top":0.64,"cover":1,"kept":true,"facts":["Redis holds leases","leases end"]},
			{"fine":0.5,"kept":false,"facts":["leases are held"]}],
			"told":[{"head":"Redis","relation":"holds","tail":"leases","chunks":["c2","gone"]}]}`,
			[]string{
				"runs of facts, compared by Redis:", "0.952   0.089   0.640   1.000", "Redis holds leases; leases end",
				"leases are held (left out: another run says the same)", "passed to the model as words, 73 tokens:",
				"Redis | holds | leases  [2]\n",
			},
		},
		{
			"no facts", `"method":"apr","explain":{"names":[],"runs":[],"told":[]}`,
			[]string{"no name in the question: the whole question is compared", "passed to the model: nothing"},
		},
		{"a list", `"method":"bm25","explain":{"by":"bm25"}`, []string{"method bm25"}},
		{"an explanation of another form", `"method":"hybrid","explain":[1]`, []string{"method hybrid"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ask(t, &queries{bodies: []string{"{" + head + tc.body + "}"}}, "--index", "docs", "--explain")
			assert.Equal(t, console.ExitDone, got.exit, "%+v", got)
			contains(t, got.out, tc.want...)
			assert.False(t, strings.Contains(got.out, "strength  0.1"), "a class that does not vote is shown")
		})
	}
}

const passages = `{"index":"docs","generation":"g1","method":"hybrid","models":"built-in models","confidence":0.834,
"chunks":[
 {"id":"c1","document":"a.pdf","title":"Report","heading":["Findings","Cause"],"page":3,"page_end":4,"start":0,"end":90,
  "text":"Before it. The pilot\n **lost café control. After it.","score":1,"rank":1,
  "snippet":{"text":"","start":11,"end":42},"markup":[{"start":22,"end":24}],
  "highlights":[{"start":0,"end":6},{"start":15,"end":20},{"start":29,"end":33}]},
 {"id":"c2","document":"b.pdf","title":"One","page":7,"page_end":7,"text":"All of it. ","score":1,"rank":2,
  "snippet":{"text":"","start":0,"end":10}},
 {"id":"c3","document":"c.md","title":"Odd","text":"short","score":1,"rank":3,"snippet":{"start":3,"end":99}}],
"answer":{"kind":"best_sentence","text":"The pilot lost control.","citations":["c1"]},"timings_ms":{"total":12.4}}`

func TestAResultShowsTheSentencesThatMatchedWithHeadingAndPage(t *testing.T) {
	got := ask(t, &queries{bodies: []string{passages}}, "--index", "docs")
	want := `quoted: The pilot lost control. [1]

[1] Report  (a.pdf, pages 3–4)  ▰▰▰▰▰
    Findings › Cause
    … The pilot lost café control. …
[2] One  (b.pdf, page 7)  ▰▰▰▰▰
    All of it.
[3] Odd  (c.md, 0–0)  ▰▰▰▰▰
    short

docs, generation g1, method hybrid, built-in models, 12 ms, confidence in the passages 83 % (high)
`
	assert.True(t, got.out == want, "got\n%s", got.out)
}

func TestMatchesAreBoldWhereTheyStandAndTheTextCannotColourItself(t *testing.T) {
	var got answer.Response
	require.NoError(t, json.Unmarshal([]byte(passages), &got))
	got.Chunks[0].Text = strings.Replace(got.Chunks[0].Text, "lost", "l\x1bst", 1)
	var out bytes.Buffer
	show.Passage(show.NewCleaned(&out), answer.Response{}, got.Chunks[0], &out)
	want := "    … The \x1b[1mpilot\x1b[22m l\\u001bst \x1b[1mcafé\x1b[22m control. …\n"
	assert.True(t, strings.HasSuffix(out.String(), want), "%q", out.String())
}

func TestOnlyATerminalOfSomeoneWhoWantsColoursIsWrittenInBold(t *testing.T) {
	file := musttest.Get(os.CreateTemp(t.TempDir(), "out"))(t)
	defer func() { _ = file.Close() }()
	device, err := os.OpenFile("/dev/null", os.O_WRONLY, 0) // a device of characters, as terminals are
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = device.Close() }()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	assert.True(t, show.FindTerminal(show.NewCleaned(file)) == nil && show.FindTerminal(show.NewCleaned(device)) != nil,
		"a file is a terminal, or a terminal is none")
	assert.True(t, dev.Level(file) == slog.LevelInfo && dev.Level(device) == slog.LevelWarn,
		"dev logs stages on a terminal, or nowhere")
	t.Setenv("NO_COLOR", "1")
	assert.Nil(t, show.FindTerminal(device), "NO_COLOR is set")
}

func TestAnAnswerIsIntroducedByWhatItIs(t *testing.T) {
	const one, unknown = `"chunks":[{"id":"c1","rank":1,"text":"x"}]`, "confidence ? (no passage has most"
	none := `,"answer":{"kind":"none","text":"No sentence answers this; the best passage is [1].","citations":["c1"]}`
	for body, c := range map[string]struct {
		says    string
		unknown bool
	}{
		one + `,"confidence":0.03` + none: {"No sentence answers this; the best passage is [1].\n\n[1]", false},
		one + `,"confidence":0.94` + none: {", the passages fit the question (94 %), no sentence in them answers it\n", false},
		`"chunks":[],"reason":"no_match","answer":{"kind":"none","text":"No data","citations":[]}`: {"no passage matches the question: ", false},
		`"method":"hybrid","chunks":[{"id":"c1","rank":1,"text":"x"},{"id":"c2","rank":2,"text":"y"}],"confidence":0.5,
"answer":{"kind":"model","text":"Ingrid signed [1].","citations":["c1","c2"]}`: {"Ingrid signed [1]. [2]\n", false},
		`"method":"hybrid","confidence":null,` + one:                          {"", true},
		`"method":"bm25","confidence":null,` + one:                            {"", false},
		`"method":"hybrid","confidence":null,"chunks":[],"reason":"no_match"`: {"", false},
	} {
		got := ask(t, &queries{bodies: []string{`{"index":"docs",` + body + "}"}}, "--index", "docs")
		assert.True(t, strings.Contains(got.out, c.says) && strings.Contains(got.out, unknown) == c.unknown, "%s\n%s", body,
			got.out)
	}
}

func TestTheLessonSaysWhatPlainSearchDoesNotFind(t *testing.T) {
	lesson := func(places string) string {
		var got answer.Response
		body := `{"chunks":[
 {"id":"c1","rank":1,"text":"The journal of the APA.",
  "entities":[{"id":"e1","name":"APA"},{"id":"e2","name":"Journal"}]},
 {"id":"c2","rank":2,"text":"Hall led the APA.","entities":[{"id":"e3","name":"Hall"},{"id":"e1","name":"APA"}]}],
 "explain":{"chunks":[{"id":"c1","bm25":{"rank":1,"score":9}},{"id":"c2"` + places + `}]}}`
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		return dev.DescribeLesson(got, "Hall")
	}
	through := ": the graph walk reached it through APA, which [1] also mentions."
	for places, want := range map[string]string{
		`,"bm25":{"rank":19,"score":5}`:  "The answer, Hall, is in [2], which keyword search (BM25) has at place 19" + through,
		`,"bm25":{"rank":103,"score":5}`: "The answer, Hall, is in [2], which keyword search (BM25) has at place 103" + through,
		`,"bm25":{"rank":2,"score":5}`:   "The answer, Hall, is in [2]" + through,
		"":                               "The answer, Hall, is in [2], which keyword search does not find at all" + through,
	} {
		assert.Equal(t, want, lesson(places), places)
	}
	assert.Equal(t, "", dev.DescribeLesson(answer.Response{}, "Hall"), "nothing was found")
}

// A URL of query-api is asked with the key of the environment. No embedded stack is looked for, nor are stores that are
// servers.
func TestAQueryAsksTheAddressThatIsConfigured(t *testing.T) {
	t.Chdir(t.TempDir())
	var key, path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		key, path = request.Header.Get("Authorization"), request.URL.Path
		if strings.Contains(path, "none") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"index_unknown","detail":"query none: no such index","hint":"build it"}`))
			return
		}
		_, _ = w.Write([]byte(`{"index":"docs","answer":{"text":"From afar."}}`))
	}))
	defer server.Close()
	env := []string{"UNWEAVER_QUERY_API_ADDRESS=" + server.URL + "/", "UNWEAVER_API_KEY=uw_key", "OTHER=uw_other"}
	for want, more := range map[string][]string{"Bearer uw_key": servers, "Bearer uw_other": {"--api-key-env", "OTHER"}} {
		got := in(t, nil, env, append([]string{"query", "Who?", "--index", "docs"}, more...)...)
		assert.True(t, got.exit == console.ExitDone && strings.Contains(got.out, "From afar.") && key == want &&
			path == "/v1/indexes/docs/query", "%+v, key %q, path %q", got, key, path)
	}
	got := in(t, nil, env, "query", "Who?", "--index", "none", "--json")
	assert.True(t, got.exit == console.ExitFailed && strings.Count(got.out+got.err, "(build it)") <= 1, "%+v", got)
	var failed struct{ Hint string }
	err := json.Unmarshal([]byte(got.out+got.err), &failed)
	assert.True(t, err == nil && failed.Hint == "build it", "%v: %+v", err, got)
}

// The tools on standard input and output are those of a server, asked with the key of the environment; what the client
// reads is protocol alone, and the command ends when the client does.
func TestAnAgentIsServedOnStandardInputAndOutput(t *testing.T) {
	keys := make(chan string, 8)
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		keys <- request.Header.Get("Authorization")
		if strings.HasSuffix(request.URL.Path, "/chunks/lost") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"not_found","detail":"find chunk lost: there is none of that id"}`)
			return
		}
		_, _ = io.WriteString(w, answered)
	}))
	defer served.Close()
	t.Chdir(t.TempDir())
	asks, asked := io.Pipe()
	output, reported := io.Pipe()
	var errs strings.Builder
	app := &console.App{
		In: asks, Out: reported, Err: &errs, Env: []string{"UNWEAVER_API_KEY=uwk_k"},
		Connect: withConnection(&fakeControl{}, served.URL),
	}
	exit := make(chan int, 1)
	go func() {
		exit <- cli.Run(context.WithoutCancel(t.Context()), app, []string{"mcp"})
		_ = reported.Close()
	}()
	var lines strings.Builder
	session := musttest.Get(sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&sdk.IOTransport{Reader: io.NopCloser(io.TeeReader(output, &lines)), Writer: asked}, nil))(t)
	call := func(name string, arguments map[string]any) *sdk.CallToolResult {
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
		require.NoError(t, err)
		return result
	}
	result := call("answer", map[string]any{"index": "docs", "query": "who wove it?"})
	text := result.Content[0].(*sdk.TextContent).Text
	assert.True(t, !result.IsError && strings.HasPrefix(text, "Arachne.") &&
		strings.Contains(text, "Arachne   wove\n it."), "%s", text)
	assert.Equal(t, "Bearer uwk_k", <-keys, "asked with")
	lost := call("get_chunk", map[string]any{"index": "docs", "chunk": "lost"})
	text = lost.Content[0].(*sdk.TextContent).Text
	assert.True(t, lost.IsError && strings.Contains(text, "none of that id"), "%s", text)
	assert.NoError(t, session.Close())
	select {
	case code := <-exit:
		assert.True(t, code == console.ExitDone, "exit %d: %s", code, errs.String())
	case <-time.After(time.Minute):
		t.Fatal("the command goes on without a client")
	}
	for _, line := range strings.Split(strings.TrimSpace(lines.String()), "\n") {
		assert.True(t, json.Valid([]byte(line)), "no protocol: %q", line)
	}
}

func TestAnAgentsServerThatIsDownIsAnErrorOfTheTool(t *testing.T) {
	tools := httptest.NewServer(http.NotFoundHandler())
	tools.Close()
	t.Chdir(t.TempDir())
	message := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_indexes","arguments":{}}}` + "\n"
	reads, writes := io.Pipe()
	output, reported := io.Pipe()
	app := &console.App{In: reads, Out: reported, Err: io.Discard, Connect: withConnection(&fakeControl{}, tools.URL)}
	go func() { cli.Run(context.WithoutCancel(t.Context()), app, []string{"mcp"}); _ = reported.Close() }()
	go func() { _, _ = io.WriteString(writes, message) }()
	decoder := json.NewDecoder(output)
	var reply struct {
		ID     int
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	for reply.ID != 2 {
		require.NoError(t, decoder.Decode(&reply))
	}
	assert.True(t, reply.Result.IsError &&
		strings.Contains(reply.Result.Content[0].Text, "check that query-api runs there"), "%+v", reply)
	_ = writes.Close()
}

// All entities of a type are read page by page, and a mistake says what to do.
func TestEntitiesAreListedPageByPage(t *testing.T) {
	served := &queries{bodies: []string{
		`{"index":"docs","generation":"g1","items":[{"id":"e1","name":"Aspirin","type":"Drug","chunk_total":2}],"next_cursor":"c"}`,
		`{"index":"docs","generation":"g1","items":[{"id":"e2","name":"Zantac","type":"Drug","chunk_total":1}],"next_cursor":""}`,
		`{"index":"docs","generation":"g1","items":[{"id":"e1","name":"Aspirin","type":"Drug","chunk_total":2}],"next_cursor":"c"}`,
		`{"code":"invalid_parameter","detail":"\"Town\" is not a type of this index","hint":"known: Drug"}`,
	}}
	server := httptest.NewServer(served)
	defer server.Close()
	t.Chdir(t.TempDir())
	list := func(args ...string) result {
		args = append([]string{"entities", "docs"}, args...)
		return in(t, withConnection(&fakeControl{}, server.URL), nil, args...)
	}
	got := list("--type", "Drug", "--limit", "0")
	assert.Equal(t, "docs/g1: 2 entities\nname     type  passages  id\nAspirin  Drug  2         e1\nZantac   Drug  1         e2\n",
		got.out)
	assert.Contains(t, list("--limit", "1").out, "docs/g1: 1 entity, and more (--limit 0 lists all)")
	served.status = 422
	got = list("--type", "Town")
	assert.True(t, got.exit == console.ExitUsage && strings.Contains(got.err, "known: Drug"), "%+v", got)
}

// A question and a key go to the address that was given alone, and an answer has an end.
func TestWhatAnswersAQuestionIsBounded(t *testing.T) {
	other := &queries{bodies: []string{answered}}
	elsewhere := httptest.NewServer(other)
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}, "to which the server redirects"},
		"no end": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<20)); err != nil {
					return
				}
			}
		}, "more than 64 MiB"},
	} {
		server := httptest.NewServer(c.serve)
		defer server.Close()
		got := in(t, withConnection(&fakeControl{}, server.URL), nil, "query", "Who?", "--index", "docs")
		assert.True(t, got.exit != console.ExitDone && strings.Contains(got.err, c.want), "%s: %+v", name, got)
	}
	assert.Empty(t, other.asked)
}
