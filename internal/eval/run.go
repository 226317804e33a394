package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// System is a method with its rule.
type System struct {
	Method string `json:"method"`
	Rule   string `json:"rule,omitempty"`
}

// Name of a system in tables.
func (s System) Name() string {
	if s.Rule != "" && s.Rule != "weighted" {
		return s.Method + "/" + s.Rule
	}
	return s.Method
}

// Asker posts a query and gives the raw response.
type Asker func(ctx context.Context, body map[string]any) ([]byte, error)

// Plan of an evaluation.
type Plan struct {
	Dataset *Dataset
	Systems []System
	Ks      []int
	Seed    uint64
	Ask     Asker
	Workers int
	Judge   *Judge // nil: retrieval only
	Hippo   *Hippo // nil: without the comparison
	Runs    int    // of answers and judgements
	Notice  func(string)
}

// response is what is read of an answer.
type response struct {
	Generation string `json:"generation"`
	Models     string `json:"models"`
	Chunks     []struct {
		Document string `json:"document"`
	} `json:"chunks"`
	Answer *struct {
		Text string `json:"text"`
	} `json:"answer"`
	Usage struct {
		Embedding  int64 `json:"embedding_tokens"`
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// Tokens are the six counters of the paper, and those of the judge apart.
type Tokens struct {
	PromptIndex     int64 `json:"prompt_index"`
	PromptQuery     int64 `json:"prompt_query"`
	CompletionIndex int64 `json:"completion_index"`
	CompletionQuery int64 `json:"completion_query"`
	EmbedIndex      int64 `json:"embed_index"`
	EmbedQuery      int64 `json:"embed_query"`
	Judge           int64 `json:"judge"`
}

// Row is one system's result.
type Row struct {
	System   System     `json:"system"`
	Name     string     `json:"name"`
	Recall   []Interval `json:"recall"`
	All      []Interval `json:"all_gold_recall"`
	MRR      Interval   `json:"mrr"`
	NDCG     Interval   `json:"ndcg"`
	Against  *Interval  `json:"against_first,omitempty"` // difference of recall at the largest k to the first system, paired
	P50      float64    `json:"latency_p50_ms"`
	P99      float64    `json:"latency_p99_ms"`
	Tokens   Tokens     `json:"tokens"`
	F1       *Factual   `json:"factual_correctness,omitempty"`
	Failures int        `json:"failed_queries"`

	scores []Scores
}

// Factual correctness over runs (specs/unweaver.md §15.3): mean of the runs' means, and their sample variance.
type Factual struct {
	Mean     float64 `json:"mean"`
	Variance float64 `json:"variance"`
	AsZero   float64 `json:"mean_with_failed_as_zero"`
	Skipped  int     `json:"skipped"`
	N        int     `json:"n"`
}

// Report of an evaluation.
type Report struct {
	Dataset     string    `json:"dataset"`
	Index       string    `json:"index"`
	Generation  string    `json:"generation"`
	Models      string    `json:"models"`
	Chat        string    `json:"chat"`
	Content     string    `json:"content_hash"` // with the two below: what the index was made of
	Text        string    `json:"text_hash"`
	Vectors     string    `json:"vector_hash"`
	N           int       `json:"n"`
	WithAnswers int       `json:"n_with_answers"`
	Ks          []int     `json:"k"`
	Seed        uint64    `json:"seed"`
	Resamples   int       `json:"resamples"`
	At          time.Time `json:"at"`
	Rows        []Row     `json:"rows"`
}

// Run asks every question of every system.
func Run(ctx context.Context, plan Plan) (*Report, error) {
	rep := &Report{
		Dataset:   plan.Dataset.Name,
		N:         len(plan.Dataset.Questions),
		Ks:        plan.Ks,
		Seed:      plan.Seed,
		Resamples: Resamples,
		At:        time.Now().UTC(),
	}
	for _, q := range plan.Dataset.Questions {
		if q.Answer != "" {
			rep.WithAnswers++
		}
	}
	ds := draws(rep.N, plan.Seed)
	for i, s := range plan.Systems {
		row, err := plan.system(ctx, s, rep)
		if err != nil {
			return nil, err
		}
		row.sum(plan.Ks, ds)
		if i > 0 {
			row.against(rep.Rows[0], plan.Ks, ds)
		}
		rep.Rows = append(rep.Rows, row)
		plan.Notice(fmt.Sprintf("%s: recall %s", row.Name, recalls(row, plan.Ks)))
	}
	if plan.Hippo != nil {
		row := Row{System: System{Method: HippoName}, Name: HippoName}
		for _, q := range plan.Dataset.Questions {
			row.scores = append(
				row.scores,
				score(plan.Hippo.Rank(q.Question, plan.Ks[len(plan.Ks)-1]), q.Gold, plan.Ks),
			)
		}
		row.sum(plan.Ks, ds)
		row.against(rep.Rows[0], plan.Ks, ds)
		rep.Rows = append(rep.Rows, row)
		plan.Notice(fmt.Sprintf("%s: recall %s", row.Name, recalls(row, plan.Ks)))
	}
	if plan.Judge != nil {
		for _, base := range []string{"closed book", "oracle"} {
			row, err := plan.baseline(ctx, base)
			if err != nil {
				return nil, err
			}
			rep.Rows = append(rep.Rows, row)
		}
	}
	return rep, nil
}

// against gives the paired difference to the first system at the largest cut-off.
func (r *Row) against(first Row, ks []int, ds [][]uint16) {
	d := make([]float64, len(r.scores))
	for j := range d {
		d[j] = r.scores[j].Recall[len(ks)-1] - first.scores[j].Recall[len(ks)-1]
	}
	x := interval(d, ds)
	r.Against = &x
}

func recalls(row Row, ks []int) string {
	s := ""
	for i := range ks {
		if i > 0 {
			s += " / "
		}
		s += fmt.Sprintf("%.1f", 100*row.Recall[i].Mean)
	}
	return s
}

func (p Plan) system(ctx context.Context, system System, rep *Report) (Row, error) {
	row := Row{System: system, Name: system.Name(), scores: make([]Scores, rep.N)}
	lat := make([]float64, rep.N)
	answers := make([]string, rep.N)
	var mu sync.Mutex
	err := each(ctx, p.Workers, rep.N, func(ctx context.Context, i int) error {
		question := p.Dataset.Questions[i]
		body := map[string]any{"query": question.Question, "method": system.Method, "top_chunks": p.Ks[len(p.Ks)-1]}
		if system.Rule != "" {
			body["rule"] = system.Rule
		}
		if p.Judge != nil && question.Answer != "" {
			body["answer"] = true
		}
		start := time.Now()
		raw, err := p.Ask(ctx, body)
		lat[i] = float64(time.Since(start).Microseconds()) / 1000
		var r response
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		if err != nil {
			return fault.CodeOf(err).At("ask question", question.ID+" by "+row.Name).Because(err)
		}
		var ranked []string
		seen := map[string]bool{}
		for _, c := range r.Chunks {
			if id := Passage(c.Document); !seen[id] {
				seen[id] = true
				ranked = append(ranked, id)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		rep.Generation, rep.Models = r.Generation, r.Models
		row.scores[i] = score(ranked, question.Gold, p.Ks)
		row.Tokens.EmbedQuery += r.Usage.Embedding
		row.Tokens.PromptQuery += r.Usage.Prompt
		row.Tokens.CompletionQuery += r.Usage.Completion
		if r.Answer != nil {
			answers[i] = r.Answer.Text
		}
		return nil
	})
	if err != nil {
		return row, err
	}
	row.P50, row.P99 = quantile(lat, 0.5), quantile(lat, 0.99)
	if p.Judge != nil {
		row.F1, row.Tokens.Judge, err = p.judge(ctx, answers)
	}
	return row, err
}

func (r *Row) sum(ks []int, ds [][]uint16) {
	col := func(f func(Scores) float64) Interval {
		v := make([]float64, len(r.scores))
		for i, s := range r.scores {
			v[i] = f(s)
		}
		return interval(v, ds)
	}
	for k := range ks {
		r.Recall = append(r.Recall, col(func(s Scores) float64 { return s.Recall[k] }))
		r.All = append(r.All, col(func(s Scores) float64 { return s.All[k] }))
	}
	r.MRR, r.NDCG = col(func(s Scores) float64 { return s.MRR }), col(func(s Scores) float64 { return s.NDCG })
}

// each runs f for 0..n-1, some at once, and stops at the first error.
func each(ctx context.Context, workers, n int, f func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// judge rates answers over the runs.
func (p Plan) judge(ctx context.Context, answers []string) (*Factual, int64, error) {
	out := &Factual{}
	var used int64
	var means, zeros []float64
	for range max(1, p.Runs) {
		f1 := make([]float64, len(answers))
		var mu sync.Mutex
		err := each(ctx, p.Workers, len(answers), func(ctx context.Context, i int) error {
			f1[i] = math.NaN()
			if p.Dataset.Questions[i].Answer == "" {
				return nil
			}
			v, n, err := p.Judge.F1(ctx, answers[i], p.Dataset.Questions[i].Answer)
			mu.Lock()
			defer mu.Unlock()
			used += n
			if fault.KindOf(err) == fault.Fatal {
				return err
			}
			if err == nil {
				f1[i] = v
			}
			return nil
		})
		if err != nil {
			return nil, used, err
		}
		sum, n, all := 0.0, 0, 0
		for i, v := range f1 {
			if p.Dataset.Questions[i].Answer == "" {
				continue
			}
			if all++; !math.IsNaN(v) {
				sum += v
				n++
			}
		}
		out.Skipped += all - n
		out.N = all
		means, zeros = append(means, sum/float64(max(1, n))), append(zeros, sum/float64(max(1, all)))
	}
	out.Mean, out.Variance = variance(means)
	out.AsZero, _ = variance(zeros)
	return out, used, nil
}

// baseline answers without any context, or from the gold passages.
func (p Plan) baseline(ctx context.Context, name string) (Row, error) {
	row := Row{System: System{Method: name}, Name: name}
	answers := make([]string, len(p.Dataset.Questions))
	var mu sync.Mutex
	err := each(ctx, p.Workers, len(answers), func(ctx context.Context, i int) error {
		question := p.Dataset.Questions[i]
		if question.Answer == "" {
			return nil
		}
		var passages []string
		if name == "oracle" {
			for id := range p.Dataset.Texts {
				if question.Gold[id] {
					passages = append(passages, p.Dataset.Texts[id])
				}
			}
		}
		text, usage, err := p.Judge.Answer(ctx, question.Question, passages)
		mu.Lock()
		defer mu.Unlock()
		answers[i] = text
		row.Tokens.PromptQuery += usage.Prompt
		row.Tokens.CompletionQuery += usage.Completion
		return err
	})
	if err == nil {
		row.F1, row.Tokens.Judge, err = p.judge(ctx, answers)
	}
	return row, err
}
