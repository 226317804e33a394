package eval_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/starter/eval"
)

func dataset() *eval.Dataset {
	return &eval.Dataset{
		Name: "small",
		Texts: map[string]prompt.Passage{
			"a": {Text: "Alpha"}, "b": {Text: "Beta"}, "c": {Text: "Gamma"}, "d": {Text: "Delta"},
		},
		Questions: []eval.Question{
			{ID: "1", Question: "first", Answer: "Alpha.", Gold: []string{"a"}},
			{ID: "2", Question: "second", Answer: "Beta.", Gold: []string{"b"}},
			{ID: "3", Question: "both", Gold: []string{"c", "d"}},
		},
	}
}

func folder(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

// answers returns an Asker that gives the passages of a method's table, and an answer where one is asked for.
func answers(tables map[string]map[string][]string) eval.Asker {
	return func(_ context.Context, _ string, body map[string]any) ([]byte, error) {
		var chunks []map[string]string
		for _, id := range tables[body["method"].(string)][body["query"].(string)] {
			chunks = append(chunks, map[string]string{"document": "corpus.jsonl#" + id})
		}
		out := map[string]any{
			"generation": "g1", "models": "m", "chunks": chunks,
			"usage": map[string]int{"embedding_tokens": 2, "saved_embedding_tokens": 1, "prompt_tokens": 3, "completion_tokens": 5},
		}
		if body["answer"] == true {
			out["answer"] = map[string]string{"text": "Alpha."}
		}
		return json.Marshal(out)
	}
}

var tables = map[string]map[string][]string{
	"good": {"first": {"a"}, "second": {"b", "a"}, "both": {"c", "c", "d"}},
	"poor": {"first": {"b", "b", "a"}, "second": {"c"}, "both": {"a", "d"}},
}

func plan(ask eval.Asker, systems ...eval.System) eval.Plan {
	return eval.Plan{Dataset: dataset(), Systems: systems, Ks: []int{1, 2}, Seed: 3, Ask: ask, Notice: func(string) {}}
}

func TestMethodsAreComparedQuestionByQuestion(t *testing.T) {
	rep := musttest.Get(eval.Run(t.Context(), plan(answers(tables), eval.System{Method: "good"}, eval.System{Method: "poor"})))(t)
	good, poor := rep.Rows[0], rep.Rows[1]
	close := func(what string, got, want float64) {
		diff := got - want
		assert.True(t, diff <= 1e-9 && diff >= -1e-9, "%s is %g, want %g", what, got, want)
	}
	close("recall@1 of good", good.Recall[0].Mean, 2.5/3)
	close("recall@2 of good: a passage counts once, by its first chunk", good.Recall[1].Mean, 1)
	close("all gold@1 of good", good.All[0].Mean, 2.0/3)
	close("recall@2 of poor", poor.Recall[1].Mean, 1.5/3)
	close("MRR of poor", poor.MRR.Mean, (0.5+0+0.5)/3)
	close("difference at the largest k", poor.Against.Mean, -0.5)
	assert.True(t, good.Against == nil, "the first method is compared with itself")
	assert.True(t, good.Tokens.EmbedQuery == 9 && good.Tokens.PromptQuery == 9 && good.Tokens.CompletionQuery == 15,
		"tokens %+v", good.Tokens)
	assert.True(t, rep.Generation == "g1" && rep.Models == "m" && rep.WithAnswers == 2 && rep.N == 3, "%+v", rep)
}

func TestAQuestionThatFailsEndsTheEvaluation(t *testing.T) {
	for name, c := range map[string]struct {
		ask  eval.Asker
		code fault.Code
		says string
	}{
		"a fault": {func(context.Context, string, map[string]any) ([]byte, error) {
			return nil, fault.EmbedderDown.At("embed", "m").Because("connection refused")
		}, fault.EmbedderDown, "by good/borda"},
		"another error": {func(context.Context, string, map[string]any) ([]byte, error) {
			return nil, errors.New("odd")
		}, fault.Internal, "odd"},
		"an answer that is no JSON": {func(context.Context, string, map[string]any) ([]byte, error) {
			return []byte("<html>"), nil
		}, fault.Internal, "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			musttest.Refuse(eval.Run(t.Context(), plan(c.ask, eval.System{Method: "good", Rule: "borda"})))(t, c.code, c.says)
		})
	}
}

func TestPlansThatCompareNothing(t *testing.T) {
	none, noCut, noQuestion := plan(nil), plan(nil, eval.System{Method: "good"}), plan(nil, eval.System{Method: "good"})
	noCut.Ks = nil
	noQuestion.Dataset.Questions = nil
	for name, p := range map[string]eval.Plan{"no method": none, "no cut-off": noCut, "no question": noQuestion} {
		musttest.Code(t, musttest.Err(eval.Run(t.Context(), p)), fault.Usage, name)
	}
}

// fussy is a judge's model: it fails on what it is asked to.
type fussy struct {
	err   error
	on    string
	reply string
}

func (f fussy) Info() model.Info { return model.Info{Paid: true} }

func (f fussy) Complete(_ context.Context, call model.Call) (model.Reply, error) {
	if f.err != nil && strings.Contains(call.User, f.on) {
		return model.Reply{}, f.err
	}
	text := f.reply
	if text == "" {
		text = `{"claims":["one"],"verdicts":[{"verdict":1}]}`
	}
	return model.Reply{Text: text, Usage: model.Usage{Prompt: 1}}, nil
}

// Each answer is judged in two runs.
func TestAnswersThatCannotBeJudgedAreSkipped(t *testing.T) {
	rejected := fault.ModelRejected.At("call", "m").Because("refused")
	for name, c := range map[string]struct {
		judge   fussy
		f1      eval.Factual
		failure fault.Code
	}{
		"all are judged":      {fussy{}, eval.Factual{Mean: 1, AsZero: 1, N: 2}, ""},
		"one is refused":      {fussy{err: rejected, on: "Beta."}, eval.Factual{Mean: 1, AsZero: 0.5, Skipped: 2, N: 2}, ""},
		"nothing is readable": {fussy{reply: "I cannot"}, eval.Factual{}, fault.BadOutput},
		"another object":      {fussy{reply: `{"score":1}`}, eval.Factual{}, fault.BadOutput},
		"too few verdicts":    {fussy{reply: `{"claims":["one"],"verdicts":[]}`}, eval.Factual{}, fault.BadOutput},
		"a verdict of two": {
			fussy{reply: `{"claims":["one"],"verdicts":[{"verdict":2}]}`}, eval.Factual{}, fault.BadOutput,
		},
		"the key is wrong":     {fussy{err: fault.ModelAuth.At("call", "m")}, eval.Factual{}, fault.ModelAuth},
		"no claim in any text": {fussy{reply: `{"claims":[]}`}, eval.Factual{Mean: 0, AsZero: 0, N: 2}, ""},
		"the answer in a fence": {
			fussy{reply: "```\n{\"claims\":[\"one\"],\"verdicts\":[{\"verdict\":1}]}\n```"}, eval.Factual{Mean: 1, AsZero: 1,
				N: 2}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(answers(tables), eval.System{Method: "good"})
			p.Judge, p.Workers, p.Runs = &eval.Judge{Chat: c.judge}, 2, 2
			rep, err := eval.Run(t.Context(), p)
			require.True(t, fault.CodeOf(err) == c.failure, "%v", err)
			if err != nil {
				return
			}
			assert.Equal(t, c.f1, *rep.Rows[0].F1)
			row := fmt.Sprintf(" %.4f ± 0.0000 | – | %.4f | %d |\n", c.f1.Mean, c.f1.AsZero, c.f1.Skipped)
			assert.Contains(t, rep.RenderMarkdown(), row)
			dir := t.TempDir()
			require.NoError(t, rep.Write(dir))
			assert.FileExists(t, filepath.Join(dir, "questions.jsonl"))
			assert.Equal(t, "closed book, oracle", rep.Rows[1].Name+", "+rep.Rows[2].Name, "baselines")
		})
	}
}

// A judgement that does not fit is asked for once more; one that fits neither time is named and skipped, is in no
// journal, and is all that the next evaluation asks for.
func TestAJudgementThatDoesNotFitIsAskedForOnceMoreAndEntersNoJournal(t *testing.T) {
	dir, text := t.TempDir(), "Context: Beta."
	for _, c := range []struct {
		wrong        int // verdicts on the second question that do not fit
		asked, skips int
	}{
		{6, 2 + 6, 1}, // two calls judge the first question, as answer and gold are one text; of the second two fail a row
		{1, 2 + 1, 0}, // and the claims of its gold answer
		{0, 0, 0},
	} {
		journal := musttest.Get(eval.OpenJournal(dir, "x"))(t)
		var notices []string
		var calls []model.Call
		p := plan(answers(tables), eval.System{Method: "good"})
		p.Notice = func(said string) { notices = append(notices, said) }
		chat := &slipping{noting: noting{fussy{}, &sync.Mutex{}, &calls}, on: text, left: c.wrong}
		p.Judge = &eval.Judge{Chat: chat, Journal: journal}
		p.Judge.Other = fussy{reply: "Alpha."}
		rep := musttest.Get(eval.Run(t.Context(), p))(t)
		require.NoError(t, journal.Close())
		assert.Equal(t, []int{c.skips, c.asked}, []int{rep.Rows[0].F1.Skipped, len(calls)}, "%+v", c)
		assert.Equal(t, c.skips > 0, strings.Contains(strings.Join(notices, "\n"),
			`skipped: judge the answer to 2 by good: read judgement: 0 verdicts on 1 statements, the first of which is "one"`),
			"%q", notices)
	}
}

// slipping gives no verdict on a text a few times.
type slipping struct {
	noting
	on   string
	left int
}

func (s *slipping) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	reply, err := s.noting.Complete(ctx, call)
	if s.left > 0 && strings.HasPrefix(call.User, s.on) {
		s.left--
		reply.Text = `{"verdicts":[]}`
	}
	return reply, err
}

// noting is a judge's model that notes what it is asked.
type noting struct {
	fussy
	mu    *sync.Mutex
	asked *[]model.Call
}

func (n noting) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	n.mu.Lock()
	*n.asked = append(*n.asked, call)
	n.mu.Unlock()
	return n.fussy.Complete(ctx, call)
}

func TestBaselinesAskTheModelWithNothingAndWithAllThatIsGold(t *testing.T) {
	for _, parity := range []bool{false, true} {
		p := plan(answers(tables), eval.System{Method: "good"})
		p.Dataset.Questions = []eval.Question{{Question: "what?", Answer: "x", Gold: []string{"d", "long", "a"}}}
		p.Dataset.Texts["long"] = prompt.Passage{Text: strings.Repeat("word ", 5000) + "end"}
		var calls []model.Call
		p.Judge = &eval.Judge{Chat: noting{fussy{}, &sync.Mutex{}, &calls}, Parity: parity}
		rep := musttest.Get(eval.Run(t.Context(), p))(t)
		calls = slices.DeleteFunc(calls, func(c model.Call) bool { return c.Task != model.Answer })
		require.Len(t, calls, 2)
		system, user := prompt.FormOf(parity, "").Ask("", "what?")
		assert.Equal(t, [2]string{system, user}, [2]string{calls[0].System, calls[0].User}, "closed book")
		assert.NotContains(t, system, "context")
		given := calls[1].User
		if parity {
			assert.Equal(t, "what?", given)
			given = calls[1].System
		}
		first, last := strings.Index(given, "Delta"), strings.Index(given, "Alpha")
		assert.True(t, first >= 0 && first < strings.Index(given, "word end") && strings.Index(given, "word end") < last,
			"the gold passages stand whole and in the order of the question: %.80q", given)
		assert.True(t, rep.Rows[1].Tokens.PromptQuery == 1 && rep.Rows[1].F1.N == 1, "%+v", rep.Rows[1])
	}
}

func TestAnEmptyAnswerIsWrongAndCostsNothing(t *testing.T) {
	f1, used, err := (&eval.Judge{Chat: fussy{err: errors.New("never asked")}}).F1(t.Context(), " \n", "gold")
	assert.True(t, f1 == 0 && used == 0 && err == nil, "%g, %d, %v", f1, used, err)
}

func TestReportsCanBeReadAgain(t *testing.T) {
	p := plan(answers(tables), eval.System{Method: "good"}, eval.System{Method: "poor", Rule: "borda"})
	p.Dataset.Name = "musique"
	rep := musttest.Get(eval.Run(t.Context(), p))(t)
	out := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, rep.Write(out))
	raw := musttest.Get(os.ReadFile(filepath.Join(out, "report.json")))(t)
	assert.FileExists(t, filepath.Join(out, "report.md"))
	var again eval.Report
	err := json.Unmarshal(raw, &again)
	assert.True(t, err == nil && again.Rows[1].Against.Mean == rep.Rows[1].Against.Mean, "%v %+v", err, again)
	text := rep.RenderMarkdown()
	for _, part := range []string{
		"# musique: 3 questions (2 with answers)", "| good | 83.3 (", "| poor/borda |", "recall@2 against good", "-50.0 (",
		"| good | – | – | – | – | 9 | 9 | 15 |", "VectorRAG 0.2007 (1.47e-06)", "HippoRAG2 0.2196 (1.01e-06)", "seed 3",
	} {
		assert.Contains(t, text, part)
	}
	columns := -1
	for _, line := range strings.Split(text, "\n") {
		switch n := strings.Count(line, "|"); {
		case n == 0:
			columns = -1
		case columns >= 0 && n != columns:
			t.Errorf("a row of %d columns in a table of %d: %s", n-1, columns-1, line)
		default:
			columns = n
		}
	}
}

func TestACorpusIsStagedAloneAndKeepsItsTime(t *testing.T) {
	dir := folder(t, map[string]string{
		"corpus.jsonl": `{"id":1,"title":"T","text":"x"}` + "\n\n" + `{"id":"b","text":"y"}`,
		"questions.jsonl": `{"question":"q","gold":["1"]}` + "\n" +
			`{"id":7,"question":"r","gold":["b"]}`,
	})
	loaded := musttest.Get(eval.Load(dir))(t)
	require.True(t, len(loaded.Questions) == 2 && loaded.Texts["1"].Title == "T" && loaded.Texts["b"].Text == "y", "%+v",
		loaded)
	assert.True(t, loaded.Questions[0].ID == "1" && loaded.Questions[1].ID == "7" && loaded.Questions[1].Gold[0] == "b",
		"%+v", loaded.Questions)
	assert.Empty(t, loaded.Recorded, "recording")
	staged := filepath.Join(t.TempDir(), "staged")
	stat := func() os.FileInfo {
		require.NoError(t, loaded.StageCorpus(staged))
		return musttest.Get(os.Stat(filepath.Join(staged, "corpus.jsonl")))(t)
	}
	assert.True(t, stat().ModTime().Equal(stat().ModTime()), "an unchanged corpus was written again")
	assert.Len(t, musttest.Get(os.ReadDir(staged))(t), 1)
}

func TestTheSumOfQuestionsIsOfWhatIsAskedAndOfNothingElse(t *testing.T) {
	one := eval.Question{ID: "1", Question: "a", Gold: []string{"x", "y"}}
	two := eval.Question{ID: "2", Question: "b", Gold: []string{"z"}}
	sum := func(questions ...eval.Question) string { return (&eval.Dataset{Questions: questions}).QuestionsSum() }
	renamed := one
	renamed.ID = "9"
	assert.Equal(t, sum(two, renamed), sum(one, two), "order, or an id, changes the sum")
	other := one
	other.Gold = []string{"x"}
	for name, got := range map[string]string{
		"one fewer": sum(one), "other gold": sum(other, two), "twice": sum(one, one, two),
	} {
		assert.True(t, got != sum(one, two), "%s has the same sum", name)
	}
}

// The second run finds more by one method: the table compares both with the base, and with themselves the run before.
func TestASuiteComparesSetsWithTheBaseAndWithTheLastRun(t *testing.T) {
	dir := t.TempDir()
	once := func(tables map[string]map[string][]string) *eval.Suite {
		last := musttest.Get(eval.ReadSuite(dir))(t)
		p := plan(answers(tables), eval.System{Method: "good"}, eval.System{Method: "poor"})
		report := musttest.Get(eval.Run(t.Context(), p))(t)
		suite := &eval.Suite{Ks: p.Ks, Base: "poor"}
		suite.Add(report, last)
		require.NoError(t, suite.Write(dir))
		return suite
	}
	first := once(tables)
	assert.InDelta(t, 0.5, first.Rows[0].AgainstBase[1].Mean, 1e-9)
	assert.Nil(t, first.Rows[1].AgainstBase)
	assert.Nil(t, first.Rows[0].AgainstLast)
	second := once(map[string]map[string][]string{"good": tables["good"], "poor": tables["good"]})
	assert.InDelta(t, 0.5, second.Rows[1].AgainstLast[1].Mean, 1e-9)
	assert.Zero(t, second.Rows[0].AgainstLast[1].Mean)
	raw := musttest.Get(os.ReadFile(filepath.Join(dir, "suite.md")))(t)
	assert.Contains(t, string(raw), "| small | 3 | poor | 83.3 | 100.0 | – |")
	assert.FileExists(t, filepath.Join(dir, "suite.svg"))
	second.Rows[0].Set = "a <b> & c"
	drawn := second.SVG()
	require.NoError(t, xml.Unmarshal([]byte(drawn), new(struct{})))
	assert.Equal(t, 2*2+2, strings.Count(drawn, `fill="#`), "a bar for each method and cut-off, and the legend: %s", drawn)
}

func TestASuiteIsAFolderOfDatasets(t *testing.T) {
	dir := t.TempDir()
	_, err := eval.ListSets(dir)
	assert.ErrorContains(t, err, "it contains no folder")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	assert.ErrorContains(t, musttest.Err(eval.ListSets(dir)), "a dataset is a folder")
}

func many(n int) *eval.Dataset {
	out := &eval.Dataset{Name: "2wiki", Texts: map[string]prompt.Passage{}}
	for i := range n {
		id := fmt.Sprint(i)
		out.Texts[id] = prompt.Passage{Text: "text " + id}
		out.Questions = append(out.Questions, eval.Question{ID: id, Question: id, Gold: []string{id}})
	}
	return out
}

// Promises: 132.
func TestVariantsAreComparedWithTheirMethodAndNothingInsideItsIntervalIsCalledReal(t *testing.T) {
	// Of 40 questions the index finds the first 20; another index 30; a setting finds 19 of them and one other.
	found := func(index string, body map[string]any) int {
		var i int
		_, err := fmt.Sscan(body["query"].(string), &i)
		switch {
		case err != nil:
			t.Error(err)
		case index == "better" && i < 30, index == "" && body["top_entities"] == nil && i < 20,
			body["top_entities"] == 7 && i > 0 && i < 21:
			return i
		}
		return -1
	}
	var asked []string
	ask := func(_ context.Context, index string, body map[string]any) ([]byte, error) {
		asked = append(asked, fmt.Sprint(index, body["generation"], body["top_entities"], body["params"]))
		return fmt.Appendf(nil, `{"generation":"of %s","chunks":[{"document":"c#%d"}]}`, index, found(index, body)), nil
	}
	plan := eval.Plan{
		Dataset: many(40), Ks: []int{1, 2}, Seed: 3, Ask: ask, Notice: func(string) {},
		Systems: []eval.System{
			{Method: "hybrid"},
			{Method: "vector"},
			{Method: "hybrid", Index: "better", Generation: "g7"},
			{Method: "hybrid", Settings: map[string]any{"top_entities": 7, "params": map[string]any{"list": 5.0}}},
		},
	}
	report := musttest.Get(eval.Run(t.Context(), plan))(t)
	better, same := report.Rows[2], report.Rows[3]
	assert.True(t, better.Base == "hybrid" && len(better.Paired) == 2 && better.Paired[0].Verdict() == "more" &&
		better.Paired[0].Mean == 0.25 && better.Generation == "of better" && report.Generation == "of ", "%+v of %s", better,
		report.Generation)
	assert.True(t, same.Base == "hybrid" && same.Paired[1].Verdict() == "not significant" && same.Paired[1].Mean == 0,
		"%+v", same)
	assert.True(t, report.Rows[1].Paired == nil, "another method is compared as if it were a variant: %+v", report.Rows[1])
	assert.True(t, (eval.Interval{Mean: -0.1, Low: -0.2, High: -0.01}).Verdict() == "less",
		"a loss outside of zero is not called one")
	assert.Equal(t, "betterg7<nil> <nil>|<nil> 7 map[list:5]", asked[80]+"|"+asked[120], "asked")
	page := report.RenderMarkdown()
	for _, want := range []string{
		"| hybrid index=better generation=g7 | hybrid | of better | +25.0 (", ": more |",
		`| hybrid {"params":{"list":5},"top_entities":7} | hybrid |`, ": not significant |",
		"this set has the name of one of them",
	} {
		assert.Contains(t, page, want, "the page lacks")
	}
}
