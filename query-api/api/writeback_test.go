package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/apr/answers"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// saying is a chat model that always answers the same, and tells what it was sent.
type saying struct {
	text  *string
	sent  *[]string
	asked *func() // when it is; nil: nothing
}

func (saying) Info() model.Info { return model.Info{Provider: "openai", Model: "m", Paid: true} }

func (s saying) Complete(_ context.Context, call model.Call) (model.Reply, error) {
	*s.sent = append(*s.sent, call.User)
	if *s.asked != nil {
		(*s.asked)()
	}
	return model.Reply{Text: *s.text, Usage: model.Usage{Prompt: 10, Completion: 5}}, nil
}

const (
	whoReached = "Who reached the South Pole first?"
	amundsen   = "Roald Amundsen reached the South Pole first [1]."
)

// session is a server that keeps answers, with what its model says and was sent.
type session struct {
	*locked
	text  string
	sent  []string
	asked func() // runs when the model is asked
}

func keeping(t *testing.T, most core.WriteBack) *session {
	t.Helper()
	s := &session{text: amundsen}
	s.locked = lock(t, withFacts(func(spec *core.Spec) {
		spec.Chat = core.ChatModel{Provider: "openai", Model: "m"}
		if most.Answers > 0 {
			spec.WriteBack = &most
		}
	}, func(c *api.Config) { c.Models = models{chat: saying{&s.text, &s.sent, &s.asked}} }))
	return s
}

func (s *session) caller(index string) string {
	return s.key(access.Request{Scope: access.Query, Index: index}).Text
}

// question asks in a namespace and gives the response.
func (s *session) question(key, namespace, text string, more map[string]any) (int, map[string]any) {
	s.t.Helper()
	body := map[string]any{
		"query": text, "method": "apr", "answer": true, "explain": true, "params": map[string]any{"namespace": namespace},
	}
	for name, value := range more {
		body[name] = value
	}
	raw, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.call(key, http.MethodPost, "/v1/indexes/sample/query", string(raw))
}

func (s *session) call(key, method, path, body string) (int, map[string]any) {
	s.t.Helper()
	got := s.send(method, path, body, append(bearer(key), "Content-Type", "application/json")...)
	s.asDescribed(httptest.NewRequestWithContext(s.t.Context(), method, path, http.NoBody), got)
	var out map[string]any
	if err := json.Unmarshal(got.Body.Bytes(), &out); err != nil {
		s.t.Fatalf("%s %s: %v in %s", method, path, err, got.Body)
	}
	return got.Code, out
}

func stored(out map[string]any) bool {
	told, _ := out["write_back"].(map[string]any)
	return told["stored"] == true
}

// earlierOf gives the states of the earlier answers that a response explains.
func earlierOf(out map[string]any) string {
	var states []string
	explain, _ := out["explain"].(map[string]any)
	list, _ := explain["answers"].([]any)
	for _, one := range list {
		states = append(states, one.(map[string]any)["state"].(string))
	}
	return strings.Join(states, " ")
}

var hundred = core.WriteBack{Answers: 100, Bytes: 1 << 20}

func TestAnAnswerIsFoundByTheNextQuestionInAChannelOfItsOwn(t *testing.T) {
	s := keeping(t, hundred)
	key := s.caller("*")
	status, first := s.question(key, "one", whoReached, nil)
	if status != http.StatusOK || !stored(first) || earlierOf(first) != "" {
		t.Fatalf("%d %v, earlier %q", status, first["write_back"], earlierOf(first))
	}
	// The first question of a session has its facts under facts, and nothing under given knowledge.
	explain := first["explain"].(map[string]any)
	if text := explain["text"].(string); !strings.Contains(text, `"facts(`) || strings.Contains(text, `"given knowledge(`) {
		t.Errorf("the first question is told %s", text)
	}
	if strings.Contains(s.sent[0], "answers (") {
		t.Errorf("the first prompt has %s", s.sent[0])
	}
	_, second := s.question(key, "one", whoReached, nil)
	if earlierOf(second) != "told" {
		t.Fatalf("%v", second["explain"])
	}
	text := second["explain"].(map[string]any)["text"].(string)
	if !strings.Contains(text, `"given knowledge(`) || !strings.Contains(text, `"facts(`) {
		t.Errorf("told %s", text)
	}
	prompt := s.sent[len(s.sent)-1]
	before, channel, found := strings.Cut(prompt, "answers (")
	if !found || !strings.Contains(channel, "Roald Amundsen | reached the | South Pole") ||
		strings.Contains(before, "Roald Amundsen | ") {
		t.Errorf("the prompt is %s", prompt)
	}
	answer := second["answer"].(map[string]any)
	chunks := idsOf(second)
	for _, cited := range answer["citations"].([]any) {
		if !strings.Contains(strings.Join(chunks, " "), cited.(string)) {
			t.Errorf("%v is cited, and no chunk", cited)
		}
	}
	if answer["earlier"] != 1.0 {
		t.Errorf("%v", answer)
	}
	if _, other := s.question(key, "one", "Which port lies on the west coast?", nil); earlierOf(other) != "" {
		t.Errorf("a question about something else is told of %v", earlierOf(other))
	}
}

func TestAnswersStayWithTheirKeyIndexAndNamespace(t *testing.T) {
	s := keeping(t, hundred)
	mine, theirs, elsewhere := s.caller("*"), s.caller("*"), s.caller("other*")
	s.question(mine, "one", whoReached, nil)
	if _, out := s.question(mine, "two", whoReached, nil); earlierOf(out) != "" {
		t.Error("another namespace has it")
	}
	if _, out := s.question(theirs, "one", whoReached, map[string]any{"answer": false}); earlierOf(out) != "" {
		t.Error("another key has it")
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		for _, name := range []string{"one", "No%20name", "shared:one"} {
			status, out := s.call(theirs, method, "/v1/indexes/sample/answers/"+name, "")
			if status != http.StatusNotFound || out["code"] != "not_found" {
				t.Errorf("another key has %s %s: %d %v", method, name, status, out)
			}
		}
	}
	if _, out := s.call(theirs, http.MethodGet, "/v1/indexes/sample/answers", ""); len(out["namespaces"].([]any)) != 0 {
		t.Errorf("another key lists %v", out)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if status, _ := s.call(elsewhere, method, "/v1/indexes/sample/answers/one", ""); status != http.StatusNotFound {
			t.Errorf("a key of other indexes: %s %d", method, status)
		}
		if status, _ := s.call(theirs, http.MethodDelete, "/v1/indexes/sample/answers", ""); status != http.StatusForbidden {
			t.Errorf("a key that may only ask clears everything: %d", status)
		}
	}
	_, out := s.call(mine, http.MethodGet, "/v1/indexes/sample/answers/one", "")
	kept := out["answers"].([]any)[0].(map[string]any)
	if kept["origin"] != "answer" || kept["question"] != whoReached || kept["generation"] != "facts" ||
		kept["triples"].([]any)[0].(map[string]any)["support"].(float64) < 1 {
		t.Errorf("%v", kept)
	}
	if _, out := s.call(mine, http.MethodDelete, "/v1/indexes/sample/answers/one", ""); out["namespaces"] != 1.0 {
		t.Errorf("%v", out)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if status, out := s.call(mine, method, "/v1/indexes/sample/answers/one", ""); status != http.StatusNotFound {
			t.Errorf("%s of what was forgotten: %d %v", method, status, out)
		}
	}
	if _, out := s.question(mine, "one", whoReached, nil); earlierOf(out) != "" {
		t.Error("it is told though it was forgotten")
	}
	// Both say so: they share one.
	s.question(mine, "shared:team", whoReached, nil)
	if _, out := s.question(theirs, "shared:team", whoReached, nil); earlierOf(out) != "told" {
		t.Errorf("shared: %v", out["explain"])
	}
	for _, name := range []string{"../x", "A", "shared:", "shared:../x", "a/b", ".a", strings.Repeat("a", 65), "a\n", "x:y"} {
		if status, out := s.question(mine, name, whoReached, nil); status != http.StatusUnprocessableEntity {
			t.Errorf("%q: %d %v", name, status, out)
		}
	}
}

func TestOnlyAnswersThatTheCorpusSupportsAreKept(t *testing.T) {
	s := keeping(t, hundred)
	key := s.caller("*")
	for text, reason := range map[string]string{
		"Marie Curie discovered Radium in Paris.":                                "unsupported",
		"The documents do not say whether Roald Amundsen reached the South Pole": "no_answer",
		"Nobody.": "no_triples",
	} {
		s.text = text
		_, out := s.question(key, "one", whoReached, nil)
		if told := out["write_back"].(map[string]any); told["stored"] != false || told["reason"] != reason {
			t.Errorf("%s: %v, want %s", text, told, reason)
		}
	}
	// One edge is supported: the whole answer is told to its own key, to others that edge alone.
	s.text = "Roald Amundsen reached the South Pole. Marie Curie discovered Radium."
	s.question(key, "one", whoReached, nil)
	s.question(key, "shared:team", whoReached, nil)
	for name, all := range map[string]bool{"one": true, "shared:team": false} {
		_, out := s.question(key, name, whoReached, nil)
		prompt := s.sent[len(s.sent)-1]
		if earlierOf(out) != "told" || strings.Contains(prompt, "Marie Curie | ") != all ||
			!strings.Contains(prompt, "Roald Amundsen | ") {
			t.Errorf("%s: %q %s", name, earlierOf(out), prompt)
		}
	}
}

func TestAnAnswerExpiresWithItsSourcesAndObeysFilters(t *testing.T) {
	s := keeping(t, hundred)
	key := s.caller("*")
	narrow := map[string]any{"filter": map[string]any{"document_prefix": "people/"}}
	if _, out := s.question(key, "one", whoReached, narrow); !stored(out) {
		t.Fatalf("%v", out["write_back"])
	}
	looked := map[string]any{"answer": false}
	if _, out := s.question(key, "one", whoReached, looked); earlierOf(out) != "told" {
		t.Errorf("%v", out["explain"])
	}
	outside := map[string]any{"answer": false, "filter": map[string]any{"document_prefix": "people/g"}}
	if _, out := s.question(key, "one", whoReached, outside); earlierOf(out) != "expired" {
		t.Errorf("a query that must not see its sources is told %v", out["explain"])
	}
	s.next()
	var last map[string]any
	eventually(t, "the next generation", func() bool {
		_, last = s.question(key, "one", whoReached, looked)
		return last["generation"] == "next"
	})
	if strings.Contains(earlierOf(last), "told") { // the weights of the embedder are others, too
		t.Errorf("%v", last["explain"])
	}
}

// All else is as it was: embedder, chunks, edges.
func TestAnAnswerExpiresWithTheVersionOfADocument(t *testing.T) {
	s := keeping(t, hundred)
	key := s.caller("*")
	s.question(key, "one", whoReached, nil)
	looked := map[string]any{"answer": false}
	if _, out := s.question(key, "one", whoReached, looked); earlierOf(out) != "told" {
		t.Fatalf("%v", out["explain"])
	}
	for info, err := range s.stores.Blobs.List(t.Context(), "sample/answers/", "") {
		if err != nil {
			t.Fatal(err)
		}
		var kept struct {
			Format  int              `json:"format"`
			Answers []answers.Answer `json:"answers"`
		}
		if _, err := blob.ReadJSON(t.Context(), s.stores.Blobs, info.Key, &kept); err != nil {
			t.Fatal(err)
		}
		sources := kept.Answers[0].Sources
		sources[len(sources)-1].Version = core.Sum("the text before it was edited")
		if _, err := blob.WriteJSON(t.Context(), s.stores.Blobs, info.Key, kept, blobCond); err != nil {
			t.Fatal(err)
		}
	}
	_, out := s.question(key, "one", whoReached, looked)
	if earlierOf(out) != "expired" {
		t.Errorf("a document that it rests on has another version, and the answer is %q", earlierOf(out))
	}
	if text := out["explain"].(map[string]any)["text"].(string); strings.Contains(text, `"given knowledge(`) {
		t.Errorf("told %s", text)
	}
}

// next publishes a generation in which a document that is in every prompt has another version, and the same chunks and
// one more.
func (s *session) next() {
	s.t.Helper()
	documents := retrievetest.Sample()
	for i := range documents {
		if documents[i].Key == "people/grieg.txt" {
			documents[i].Chunks = append(documents[i].Chunks,
				retrievetest.Chunk{Text: "He was born in Bergen. ", Entities: []string{"Bergen"}})
		}
	}
	retrievetest.Publish(s.t, retrievetest.Build(s.t, s.stores, "sample", documents, retrievetest.Options{
		Generation: "next", Seq: 3, Facts: true, Spec: func(spec *core.Spec) {
			spec.Chat = core.ChatModel{Provider: "openai", Model: "m"}
			spec.WriteBack = &hundred
		},
	}), 3)
}

// A purge publishes first and goes over the namespaces then: an answer of before must not come after it.
func TestAnAnswerOfAGenerationThatWasReplacedMeanwhileIsNotKept(t *testing.T) {
	for name, when := range map[string]func(s *session){
		"before it is written": func(s *session) { s.asked = sync.OnceFunc(s.next) },
		"after it was written": func(s *session) {
			next := sync.OnceFunc(s.next)
			s.store.wrote = func(key string) {
				if strings.Contains(key, "/answers/") {
					next()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := keeping(t, hundred)
			when(s)
			key := s.caller("*")
			status, out := s.question(key, "one", whoReached, nil)
			told, _ := out["write_back"].(map[string]any)
			if status != http.StatusOK || told["stored"] != false || told["reason"] != "stale" {
				t.Errorf("%d %v", status, out["write_back"])
			}
			if status, out = s.call(key, http.MethodGet, "/v1/indexes/sample/answers/one", ""); status != http.StatusNotFound {
				t.Errorf("left: %d %v", status, out["answers"])
			}
		})
	}
}

func TestAStoreThatHangsCostsAQuestionItsEarlierAnswersAndTwoSeconds(t *testing.T) {
	s := keeping(t, hundred)
	key := s.caller("*")
	defer s.store.stall("/answers/")()
	before := s.store.reads("/answers/")
	status, out := s.question(key, "one", whoReached, nil)
	told, _ := out["write_back"].(map[string]any)
	if status != http.StatusOK || out["answer"] == nil || told["reason"] != "failed" || told["triples"] != 0.0 ||
		fmt.Sprint(out["degraded"]) != "[earlier_answers write_back]" {
		t.Errorf("%d %v %v", status, out["degraded"], told)
	}
	if reads := s.store.reads("/answers/") - before; reads != 1 { // the write waits for no more
		t.Errorf("%d reads waited for the store", reads)
	}
}

func TestAnswersAreKeptOnlyWhereTheIndexSaysSo(t *testing.T) {
	s := keeping(t, core.WriteBack{})
	key := s.caller("*")
	status, out := s.question(key, "one", whoReached, nil)
	if status != http.StatusUnprocessableEntity || !strings.Contains(fmt.Sprint(out), "write_back.answers") {
		t.Errorf("%d %v", status, out)
	}
	if _, out := s.question(key, "", whoReached, nil); out["write_back"] != nil || s.store.reads("/answers/") != 0 {
		t.Errorf("without a namespace: %v", out["write_back"])
	}
	on := keeping(t, hundred)
	pinned := map[string]any{"generation": "facts"}
	if status, _ := on.question(on.caller("*"), "one", whoReached, pinned); status != http.StatusUnprocessableEntity {
		t.Errorf("of a generation that is named: %d", status)
	}
	on.question(on.caller("*"), "", whoReached, nil)
	if n := on.store.reads("/answers/"); n != 0 {
		t.Errorf("%d reads though no namespace is named", n)
	}
}

func TestAQueryThatIsRefusedForItsNamespaceCountsInNoLimit(t *testing.T) {
	s := keeping(t, hundred)
	limits := access.Limits{AnswersPerMinute: 1}
	key := s.key(access.Request{Scope: access.Query, Index: "*", Limits: limits}).Text
	for range 3 {
		status, out := s.question(key, "one", whoReached, map[string]any{"generation": "facts"})
		if status != http.StatusUnprocessableEntity {
			t.Errorf("%d %v", status, out)
		}
	}
	if status, out := s.question(key, "one", whoReached, nil); status != http.StatusOK {
		t.Errorf("%d %v", status, out)
	}
	if status, _ := s.question(key, "one", whoReached, nil); status != http.StatusTooManyRequests {
		t.Errorf("the second: %d", status)
	}
}

// What a question looks at does not grow with the questions before it.
func TestAThousandEarlierQuestionsCostNoMoreThanTheBound(t *testing.T) {
	s := keeping(t, core.WriteBack{Answers: 20, Bytes: 1 << 20})
	key := s.caller("*")
	for i := range 60 {
		s.question(key, "one", whoReached+strings.Repeat("?", i), nil)
	}
	_, out := s.call(key, http.MethodGet, "/v1/indexes/sample/answers/one", "")
	kept := out["answers"].([]any)
	if len(kept) != 20 || kept[19].(map[string]any)["question"] != whoReached+strings.Repeat("?", 59) {
		t.Fatalf("%d are kept, the last is %v", len(kept), kept[len(kept)-1])
	}
	before := s.store.reads("/answers/")
	_, out = s.question(key, "one", whoReached, map[string]any{"answer": false})
	if n := s.store.reads("/answers/") - before; n != 1 {
		t.Errorf("%d reads", n)
	}
	if states := strings.Fields(earlierOf(out)); len(states) != 3 { // the most that are told
		t.Errorf("it looked at %v", states)
	}
}

func TestADamagedNamespaceCostsNoAnswer(t *testing.T) {
	s := keeping(t, hundred)
	key := s.caller("*")
	s.question(key, "one", whoReached, nil)
	for info, err := range s.stores.Blobs.List(t.Context(), "sample/answers/", "") {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.stores.Blobs.Delete(t.Context(), info.Key); err != nil {
			t.Fatal(err)
		}
		if _, err := s.stores.Blobs.Put(t.Context(), info.Key, strings.NewReader("{"), 1, blobCond); err != nil {
			t.Fatal(err)
		}
	}
	status, out := s.question(key, "one", whoReached, nil)
	if status != http.StatusOK || !strings.Contains(fmt.Sprint(out["degraded"]), "earlier_answers") || !stored(out) {
		t.Errorf("%d %v %v", status, out["degraded"], out["write_back"])
	}
	if _, out := s.question(key, "one", whoReached, nil); earlierOf(out) != "told" {
		t.Errorf("it was not mended: %v", out["degraded"])
	}
}

var blobCond blob.Cond
