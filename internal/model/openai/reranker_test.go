package openai_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/testkit/reranktest"
)

const (
	rerankerKey = "reranker-key-that-nobody-is-told"
	question    = "capital Norway"
)

var texts = []string{"Bergen lies in Norway.", "The capital of Norway is Oslo.", "Cheese is made of milk."}

func reranker(baseURL string, timeout time.Duration) rerank.Ranker {
	return openai.NewReranker(openai.Config{BaseURL: baseURL, APIKey: rerankerKey, Model: "m", Timeout: timeout})
}

func TestRerankerKeepsTheContractOfItsPort(t *testing.T) {
	for _, form := range []reranktest.Form{reranktest.Documents, reranktest.Data, reranktest.Texts} {
		t.Run("scores in the order of texts, form "+string(form), func(t *testing.T) { scoresInOrder(t, form) })
	}
	t.Run("nothing is sent for no text", func(t *testing.T) {
		server := reranktest.NewServer(t, reranktest.Documents)
		scores, _, err := reranker(server.URL, time.Minute).Rerank(t.Context(), question, nil)
		assert.True(t, err == nil && len(scores) == 0 && len(server.Requests()) == 0,
			"%v %v, %d requests", scores, err, len(server.Requests()))
	})
	t.Run("answers that break the contract", brokenAnswers)
	t.Run("refusals", refusals)
	t.Run("a server that does not answer", silence)
	t.Run("a redirect is not followed", redirect)
	t.Run("an answer that does not end", endless)
}

func scoresInOrder(t *testing.T, form reranktest.Form) {
	server := reranktest.NewServer(t, form)
	ranker := reranker(server.URL+"/v1", time.Minute)
	for range 2 {
		scores, usage, err := ranker.Rerank(t.Context(), question, texts)
		require.True(t, err == nil && slices.Equal(scores, []float64{0.5, 1, 0}) && usage.Prompt != 0,
			"%v %+v %v", scores, usage, err)
	}
	sent := server.Requests()
	want := 2
	if form == reranktest.Texts { // the form is found out once
		want = 3
	}
	assert.True(t, len(sent) == want, "%d requests, want %d", len(sent), want)
	last := sent[len(sent)-1]
	assert.True(t, last.Path == "/v1/rerank" && last.Authorization == "Bearer "+rerankerKey && last.Model == "m" &&
		last.Query == question, "%+v", last)
	assert.True(t, form == reranktest.Texts || last.TopN == len(texts) && slices.Equal(last.Documents, texts), "%+v", last)
}

func brokenAnswers(t *testing.T) {
	server := reranktest.NewServer(t, reranktest.Documents)
	ranker := reranker(server.URL, time.Minute)
	for name, c := range map[string]struct {
		says string
		code fault.Code
	}{
		"fewer":          {results("0", "1"), fault.BadRerank},
		"none":           {`{"results":[]}`, fault.BadRerank},
		"no list":        {`{"message":"hello"}`, fault.BadRerank},
		"doubled":        {results("0", "1", "1"), fault.BadRerank},
		"more":           {results("0", "1", "2", "2"), fault.BadRerank},
		"out of range":   {results("0", "1", "3"), fault.BadRerank},
		"below zero":     {results("0", "1", "-1"), fault.BadRerank},
		"no place":       {`[{"score":1},{"index":1,"score":1},{"index":2,"score":1}]`, fault.BadRerank},
		"null":           {scores("1", "null", "1"), fault.BadRerank},
		"no score":       {`[{"index":0},{"index":1},{"index":2}]`, fault.BadRerank},
		"NaN":            {scores("1", "NaN", "1"), fault.ModelUnreadable},
		"infinity":       {scores("1", "Infinity", "1"), fault.ModelUnreadable},
		"beyond a float": {scores("1", "1e999", "1"), fault.ModelUnreadable},
		"text":           {scores("1", `"high"`, "1"), fault.ModelUnreadable},
		"half a place":   {results("0", "1", "1.5"), fault.ModelUnreadable},
		"a page":         {"<html>hello</html>", fault.ModelUnreadable},
		"cut":            {results("0", "1", "2")[:40], fault.ModelUnreadable},
		"empty":          {"", fault.ModelUnreadable},
	} {
		server.Saying(c.says)
		got, _, err := ranker.Rerank(t.Context(), question, texts)
		assert.True(t, fault.Is(err, c.code) && got == nil, "%s: %v %v, want %s", name, got, err, c.code)
		assert.True(t, err == nil || !strings.Contains(err.Error(), rerankerKey), "%s: the key stands in the error", name)
	}
	server.Answering(nil)
	if _, _, err := ranker.Rerank(t.Context(), question, texts); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// results returns an answer with results at these places.
func results(places ...string) string {
	var out []string
	for _, place := range places {
		out = append(out, `{"index":`+place+`,"relevance_score":0.5}`)
	}
	return `{"results":[` + strings.Join(out, ",") + `]}`
}

// scores returns an answer with the scores of the texts in order.
func scores(values ...string) string {
	var out []string
	for i, value := range values {
		out = append(out, `{"index":`+string(rune('0'+i))+`,"relevance_score":`+value+`}`)
	}
	return `{"results":[` + strings.Join(out, ",") + `]}`
}

func refusals(t *testing.T) {
	server := reranktest.NewServer(t, reranktest.Documents)
	ranker := reranker(server.URL, time.Minute)
	for status, code := range map[int]fault.Code{
		http.StatusUnauthorized: fault.ModelAuth, http.StatusNotFound: fault.ModelUnknown,
		http.StatusTooManyRequests: fault.ModelRateLimited, http.StatusInternalServerError: fault.ModelUnavailable,
	} {
		server.Answering(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no: "+r.Header.Get("Authorization"), status)
		})
		before := len(server.Requests())
		_, _, err := ranker.Rerank(t.Context(), question, texts)
		assert.True(t, fault.Is(err, code) && !strings.Contains(err.Error(), rerankerKey),
			"%d: %v, want %s without the key", status, err, code)
		if asked := len(server.Requests()) - before; asked != 1 {
			t.Errorf("%d: %d requests", status, asked)
		}
	}
}

func silence(t *testing.T) {
	server := reranktest.NewServer(t, reranktest.Documents)
	server.Answering(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, _, err := reranker(server.URL, 20*time.Millisecond).Rerank(t.Context(), question, texts)
	assert.True(t, fault.Is(err, fault.ModelUnavailable), "%v", err)
	ctx, cancel := context.WithCancel(t.Context())
	server.Answering(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, _, err = reranker(server.URL, time.Minute).Rerank(ctx, question, texts)
	assert.True(t, errors.Is(err, context.Canceled), "a caller that has gone: %v", err)
}

func redirect(t *testing.T) {
	elsewhere := reranktest.NewServer(t, reranktest.Documents)
	server := reranktest.NewServer(t, reranktest.Documents)
	server.Answering(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/rerank", http.StatusTemporaryRedirect)
	})
	_, _, err := reranker(server.URL, time.Minute).Rerank(t.Context(), question, texts)
	assert.True(t, err != nil && len(elsewhere.Requests()) == 0,
		"%v, %d requests elsewhere", err, len(elsewhere.Requests()))
}

func endless(t *testing.T) {
	server := reranktest.NewServer(t, reranktest.Documents)
	server.Answering(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := io.WriteString(w, strings.Repeat(" ", 64<<10)); err != nil {
				return
			}
		}
	})
	_, _, err := reranker(server.URL, time.Minute).Rerank(t.Context(), question, texts)
	assert.True(t, fault.Is(err, fault.ModelUnavailable) && strings.Contains(err.Error(), "longer than"), "%v", err)
}
