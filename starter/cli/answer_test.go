package cli_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/starter/cli"
)

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
	if got.out != want {
		t.Errorf("got\n%s", got.out)
	}
}

func TestMatchesAreBoldWhereTheyStandAndTheTextCannotColourItself(t *testing.T) {
	var answer cli.Answer
	if err := json.Unmarshal([]byte(passages), &answer); err != nil {
		t.Fatal(err)
	}
	answer.Chunks[0].Text = strings.Replace(answer.Chunks[0].Text, "lost", "l\x1bst", 1)
	var out bytes.Buffer
	cli.ShowChunkBold(&out, answer.Chunks[0])
	want := "    … The \x1b[1mpilot\x1b[22m l\\u001bst \x1b[1mcafé\x1b[22m control. …\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("%q", out.String())
	}
}

func TestOnlyATerminalOfSomeoneWhoWantsColoursIsWrittenInBold(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	device, err := os.OpenFile("/dev/null", os.O_WRONLY, 0) // a device of characters, as terminals are
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = device.Close() }()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if cli.Terminal(cli.Printable(file)) || !cli.Terminal(cli.Printable(device)) {
		t.Error("a file is a terminal, or a terminal is none")
	}
	if cli.DevLevel(file) != slog.LevelInfo || cli.DevLevel(device) != slog.LevelWarn {
		t.Error("dev logs stages on a terminal, or nowhere")
	}
	t.Setenv("NO_COLOR", "1")
	if cli.Terminal(device) {
		t.Error("NO_COLOR is set")
	}
}

func TestNothingIsQuotedWhereNothingFits(t *testing.T) {
	body := `{"index":"docs","chunks":[{"id":"c1","rank":1,"text":"x"}],"confidence":0.03,
"answer":{"kind":"none","text":"No sentence answers this; the best passage is [1].","citations":["c1"]}}`
	got := ask(t, &queries{bodies: []string{body}}, "--index", "docs")
	if !strings.HasPrefix(got.out, "No sentence answers this; the best passage is [1].\n\n[1]") {
		t.Errorf("%s", got.out)
	}
	got = ask(t, &queries{bodies: []string{strings.Replace(body, "0.03", "0.94", 1)}}, "--index", "docs")
	if !strings.HasSuffix(got.out, ", the passages fit the question (94 %), no sentence in them answers it\n") {
		t.Errorf("%s", got.out)
	}
	body = `{"index":"docs","chunks":[],"reason":"no_match","answer":{"kind":"none","text":"No data","citations":[]}}`
	got = ask(t, &queries{bodies: []string{body}}, "--index", "docs")
	if !strings.HasPrefix(got.out, "no passage matches the question: ") {
		t.Errorf("%s", got.out)
	}
}

func TestAMarkThatTheModelWroteIsNotPrintedAgain(t *testing.T) {
	body := `{"index":"docs","method":"hybrid","chunks":[{"id":"c1","rank":1,"text":"x"},{"id":"c2","rank":2,"text":"y"}],
"answer":{"kind":"model","text":"Ingrid signed [1].","citations":["c1","c2"]}}`
	got := ask(t, &queries{bodies: []string{body}}, "--index", "docs")
	if !strings.HasPrefix(got.out, "Ingrid signed [1]. [2]\n") {
		t.Errorf("%s", got.out)
	}
}

func TestAConfidenceThatCannotBeToldIsSaidToBeUnknown(t *testing.T) {
	for body, want := range map[string]bool{
		`{"index":"docs","method":"hybrid","confidence":null,"chunks":[{"id":"c1","rank":1,"text":"x"}]}`: true,
		`{"index":"docs","method":"bm25","confidence":null,"chunks":[{"id":"c1","rank":1,"text":"x"}]}`:   false,
		`{"index":"docs","method":"hybrid","confidence":null,"chunks":[],"reason":"no_match"}`:            false,
		`{"index":"docs","method":"hybrid","confidence":0.5,"chunks":[{"id":"c1","rank":1,"text":"x"}]}`:  false,
	} {
		got := ask(t, &queries{bodies: []string{body}}, "--index", "docs")
		if reported := strings.Contains(got.out, "confidence ? (no passage has most"); reported != want {
			t.Errorf("%s\n%s", body, got.out)
		}
	}
}

func TestTheLessonSaysWhatPlainSearchDoesNotFind(t *testing.T) {
	lesson := func(places string) string {
		var answer cli.Answer
		body := `{"chunks":[
 {"id":"c1","rank":1,"text":"The journal of the APA.",
  "entities":[{"id":"e1","name":"APA"},{"id":"e2","name":"Journal"}]},
 {"id":"c2","rank":2,"text":"Hall led the APA.","entities":[{"id":"e3","name":"Hall"},{"id":"e1","name":"APA"}]}],
 "explain":{"chunks":[{"id":"c1","bm25":{"rank":1,"score":9}},{"id":"c2"` + places + `}]}}`
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		return cli.DescribeLesson(answer, "Hall")
	}
	through := ": the graph walk reached it through APA, which [1] also mentions."
	for places, want := range map[string]string{
		`,"bm25":{"rank":19,"score":5}`:  "The answer, Hall, is in [2], which keyword search (BM25) ranks 19th" + through,
		`,"bm25":{"rank":103,"score":5}`: "The answer, Hall, is in [2], which keyword search (BM25) ranks 103rd" + through,
		`,"bm25":{"rank":2,"score":5}`:   "The answer, Hall, is in [2]" + through,
		"":                               "The answer, Hall, is in [2], which keyword search does not find at all" + through,
	} {
		if got := lesson(places); got != want {
			t.Errorf("%s: %s", places, got)
		}
	}
	if got := cli.DescribeLesson(cli.Answer{}, "Hall"); got != "" {
		t.Errorf("nothing was found, and yet %q", got)
	}
}
