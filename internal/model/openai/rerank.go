package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/rerank"
)

// Reranker implements rerank.Ranker over POST {base}/rerank, as vLLM, Jina, Cohere and text-embeddings-inference serve
// it.
type Reranker struct{ client *Client }

var _ rerank.Ranker = (*Reranker)(nil)

// NewReranker makes one; it talks to no one yet.
func NewReranker(cfg Config) *Reranker { return &Reranker{New(cfg)} }

// Info implements rerank.Ranker.
func (r *Reranker) Info() model.Info {
	cfg := r.client.cfg
	return model.Info{Provider: "http", Model: cfg.Model, Endpoint: cfg.BaseURL, Domain: cfg.Domain, Paid: true}
}

// rerankParams is the body of POST /rerank. Text-embeddings-inference has texts, and refuses long ones unless it may
// truncate them; the others have documents.
type rerankParams struct {
	Model     string   `json:"model,omitempty"`
	Query     string   `json:"query"`
	Documents []string `json:"documents,omitempty"`
	TopN      int      `json:"top_n,omitempty"`
	Texts     []string `json:"texts,omitempty"`
	Truncate  bool     `json:"truncate,omitempty"`
}

// Bounds of an answer, beside the texts, which some servers repeat.
const (
	bytesPerResult = 1 << 10
	escapedByte    = 6 // \u00ff
)

// Rerank implements rerank.Ranker. A server that misses the field texts is asked once more with it, which is asked to
// model.Again and remembered for the process.
func (r *Reranker) Rerank(
	ctx context.Context, question string, texts []string,
) ([]float64, model.Usage, error) {
	if len(texts) == 0 {
		return nil, model.Usage{}, nil
	}
	asTexts := r.client.currentForm().rerankTexts
	scores, usage, sent, err := r.rerankOnce(ctx, question, texts, asTexts)
	if err == nil || asTexts || !sent.wantsTexts() {
		return scores, usage, err
	}
	if held := model.CheckAgain(ctx); held != nil {
		return nil, usage, held
	}
	if scores, usage, _, err = r.rerankOnce(ctx, question, texts, true); err == nil {
		r.client.learnForm(form{rerankTexts: true})
	}
	return scores, usage, err
}

// rerankOnce sends one request.
func (r *Reranker) rerankOnce(
	ctx context.Context, question string, texts []string, asTexts bool,
) (scores []float64, usage model.Usage, sent *request, err error) {
	size := int64(len(question))
	for _, text := range texts {
		size += int64(len(text))
	}
	longest := bodyBase + int64(len(texts))*bytesPerResult + escapedByte*size
	sent = &request{client: r.client, op: "call reranker", path: "rerank", longest: longest}
	params := rerankParams{Model: r.client.cfg.Model, Query: question, Documents: texts, TopN: len(texts)}
	if asTexts {
		params = rerankParams{Model: r.client.cfg.Model, Query: question, Texts: texts, Truncate: true}
	}
	var answer ranked
	err = sent.sendRequest(ctx, params, func(body []byte) error { return answer.readResults(body) })
	if sent.answered {
		usage = chargedFor(answer.Usage.Prompt, size, int64(len(question))*int64(len(texts)))
	}
	if err != nil {
		return nil, usage, sent, err
	}
	results := make([]rerank.Result, len(answer.results))
	for i, one := range answer.results {
		results[i] = rerank.Result{Index: one.Index, Score: one.Relevance}
		if one.Relevance == nil {
			results[i].Score = one.Score
		}
	}
	if scores, err = rerank.AlignScores(len(texts), results); err != nil {
		return nil, usage, sent, sent.markError(fault.BadRerank.At(sent.op, sent.objectName()).Because(err).
			Advise("the server breaks the contract of POST /rerank: check models.rerank, or use another one"))
	}
	return scores, usage, sent, nil
}

// wantsTexts reports whether the server refused the request since it has no field texts.
func (r *request) wantsTexts() bool {
	if r.refused == nil {
		return false
	}
	switch r.refused.status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return strings.Contains(strings.ToLower(r.refused.text), "texts")
	}
	return false
}

// ranked is what is read of an answer: a list of results, or an object that has one as results or data.
type ranked struct {
	Results []rankedText `json:"results"`
	Data    []rankedText `json:"data"`
	Usage   charged      `json:"usage"`

	results []rankedText
}

type rankedText struct {
	Index     *int     `json:"index"`
	Relevance *float64 `json:"relevance_score"`
	Score     *float64 `json:"score"`
}

func (r *ranked) readResults(body []byte) error {
	if body = bytes.TrimSpace(body); bytes.HasPrefix(body, []byte("[")) {
		return json.Unmarshal(body, &r.results)
	}
	if err := json.Unmarshal(body, r); err != nil {
		return err
	}
	if r.results = r.Results; r.results == nil {
		r.results = r.Data
	}
	return nil
}

// chargedFor returns what the server says that it charged, where that can be, else a quarter of the bytes that were
// sent: counting the tokens of fifty chunks would take longer than a question may.
func chargedFor(report, bytes, repeated int64) model.Usage {
	if report > 0 && report <= bytes+repeated+hiddenMost {
		return model.Usage{Prompt: report}
	}
	return model.Usage{Prompt: (bytes + 3) / 4, Doubted: report != 0}
}
