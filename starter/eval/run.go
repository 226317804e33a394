package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// System is a method with its rule, and what it is asked of: empty fields are as the index has them.
type System struct {
	Method     string         `json:"method"`
	Rule       string         `json:"rule,omitempty"`
	Index      string         `json:"index,omitempty"` // another one
	Generation string         `json:"generation,omitempty"`
	Settings   map[string]any `json:"settings,omitempty"` // fields of the query: top_entities, params
}

// IsVariant reports whether anything but method and rule is another.
func (s System) IsVariant() bool { return s.Index != "" || s.Generation != "" || len(s.Settings) > 0 }

// Name returns the name of a system in tables.
func (s System) Name() string {
	name := s.Method
	if s.Rule != "" && s.Rule != "weighted" {
		name += "/" + s.Rule
	}
	if s.Index != "" {
		name += " index=" + s.Index
	}
	if s.Generation != "" {
		name += " generation=" + s.Generation
	}
	if len(s.Settings) > 0 {
		raw, _ := json.Marshal(s.Settings) // of what JSON gave; keys are sorted
		name += " " + string(raw)
	}
	return name
}

// Asker posts a query to an index and gives the raw response. An empty index is the one that is evaluated.
type Asker func(ctx context.Context, index string, body map[string]any) ([]byte, error)

// Plan of an evaluation.
type Plan struct {
	Dataset *Dataset
	Systems []System
	Ks      []int
	Seats   int // passages that an answer is given; 0: the largest of Ks
	Seed    uint64
	Ask     Asker
	Workers int    // questions asked at once, at least one
	Judge   *Judge // nil: retrieval only
	Runs    int    // of answers and judgements
	Notice  func(string)
	Spent   core.IndexTokens // of the index
	Fills   bool             // short results are filled up with similar chunks
}

// countWorkers returns how many questions are asked at once.
func (p Plan) countWorkers() int { return max(1, p.Workers) }

// response is what is read of an answer.
type response struct {
	Latency    float64 `json:"latency_ms"` // as it was measured here
	Generation string  `json:"generation"`
	Models     string  `json:"models"`
	Chunks     []struct {
		Document string `json:"document"`
	} `json:"chunks"`
	Answer *struct {
		Text string `json:"text"`
	} `json:"answer"`
	Usage struct {
		Embedding  int64 `json:"embedding_tokens"`
		Saved      int64 `json:"saved_embedding_tokens"`
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// Tokens are what a method needs by itself: of the index, as the ledger has them (core.IndexTokens), and of the
// questions, as if none was asked before. The judge's are apart. 0: the method needs none.
type Tokens struct {
	PromptIndex     int64 `json:"prompt_index"`
	CompletionIndex int64 `json:"completion_index"`
	EmbedClasses    int64 `json:"embed_classes"`
	EmbedChunks     int64 `json:"embed_chunks"`
	EmbedQuery      int64 `json:"embed_query"`
	PromptQuery     int64 `json:"prompt_query"`
	CompletionQuery int64 `json:"completion_query"`
	Judge           int64 `json:"judge"`
}

// Row is one system's result.
type Row struct {
	System     System     `json:"system"`
	Name       string     `json:"name"`
	Generation string     `json:"generation,omitempty"` // that answered
	Recall     []Interval `json:"recall"`
	All        []Interval `json:"all_gold_recall"`
	MRR        Interval   `json:"mrr"`
	NDCG       Interval   `json:"ndcg"`
	Against    *Interval  `json:"against_first,omitempty"` // paired difference of recall at the largest k to the first
	Base       string     `json:"base,omitempty"`          // of a variant: the row that it is compared with
	Paired     []Interval `json:"against_base,omitempty"`  // and the paired differences of recall to it, at each k
	P50        float64    `json:"latency_p50_ms"`
	P99        float64    `json:"latency_p99_ms"`
	Tokens     Tokens     `json:"tokens"`
	F1         *Factual   `json:"factual_correctness,omitempty"`
	Failures   int        `json:"failed_queries"`

	scores  []Scores
	answers []string
	rated   [][]float64 // by run: factual correctness of each answer; NaN: not judged
}

// Factual correctness over runs, as the UnWeaver paper reports it: mean of the runs' means, and their sample variance.
type Factual struct {
	Mean     float64 `json:"mean"`
	Variance float64 `json:"variance"`
	AsZero   float64 `json:"mean_with_failed_as_zero"`
	Skipped  int     `json:"skipped"`
	N        int     `json:"n"`
	// Against is the paired difference to the first row, question by question, of the means over the runs.
	Against *Interval `json:"against_first,omitempty"`
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
	Questions   string    `json:"questions_sum"`       // Dataset.QuestionsSum
	Published   bool      `json:"published,omitempty"` // nothing was built: the index existed
	Missed      []Missed  `json:"missed,omitempty"`    // by the first row, of a published index

	ids []string // of the questions
}

// Missed is a question of which a method found no gold within the largest cut-off.
type Missed struct {
	Question string   `json:"question"`
	Gold     []string `json:"gold"`
}

// Run asks every question of every system.
func Run(ctx context.Context, plan Plan) (*Report, error) {
	rep := &Report{
		Dataset:   plan.Dataset.Name,
		N:         len(plan.Dataset.Questions),
		Questions: plan.Dataset.QuestionsSum(),
		Ks:        plan.Ks,
		Seed:      plan.Seed,
		Resamples: Resamples,
		Published: plan.Dataset.Documents,
		At:        time.Now().UTC(),
	}
	if len(plan.Ks) == 0 || len(plan.Systems) == 0 || rep.N == 0 {
		return nil, fault.Usage.At("evaluate", plan.Dataset.Name).
			Because("an evaluation requires at least one question, one method and one cut-off")
	}
	for _, question := range plan.Dataset.Questions {
		rep.ids = append(rep.ids, question.ID)
		if question.Answer != "" {
			rep.WithAnswers++
		}
	}
	drawn := drawResamples(rep.N, plan.Seed)
	for _, system := range plan.Systems {
		row, err := plan.runSystem(ctx, system, rep)
		if err != nil {
			return nil, err
		}
		rep.add(row, drawn, plan.Notice)
	}
	if plan.Dataset.Documents {
		for i, question := range plan.Dataset.Questions {
			if rep.Rows[0].scores[i].MRR == 0 {
				rep.Missed = append(rep.Missed, Missed{Question: question.Question, Gold: question.Gold})
			}
		}
	}
	if plan.Judge == nil {
		return rep, nil
	}
	for _, name := range []string{closedBook, oracle} {
		row, err := plan.runBaseline(ctx, name)
		if err != nil {
			return nil, err
		}
		rep.Rows = append(rep.Rows, row)
	}
	rep.compareFacts()
	return rep, nil
}

// compareFacts compares the factual correctness of each row with the first one's, where both were judged.
func (r *Report) compareFacts() {
	first := r.Rows[0].averageFacts()
	for i := range r.Rows[1:] {
		var differences []float64
		for n, value := range r.Rows[i+1].averageFacts() {
			if difference := value - first[n]; !math.IsNaN(difference) {
				differences = append(differences, difference)
			}
		}
		if len(differences) > 0 {
			paired := newInterval(differences, drawResamples(len(differences), r.Seed))
			r.Rows[i+1].F1.Against = &paired
		}
	}
}

// averageFacts returns the means over the runs of each answer's factual correctness; NaN: a run has none.
func (r *Row) averageFacts() []float64 {
	out := make([]float64, len(r.answers))
	for _, run := range r.rated {
		for i, value := range run {
			out[i] += value / float64(len(r.rated))
		}
	}
	return out
}

// add sums a row up, against the first one, and reports it.
func (r *Report) add(row Row, drawn [][]int32, notice func(string)) {
	row.sumScores(r.Ks, drawn)
	if len(r.Rows) > 0 {
		row.compareFirst(r.Rows[0], r.Ks, drawn)
	}
	if row.System.IsVariant() {
		r.pairVariant(&row, drawn)
	}
	r.Rows = append(r.Rows, row)
	notice(fmt.Sprintf("%s: recall %s", row.Name, formatRecalls(row, r.Ks)))
}

// pairVariant compares a variant with the row of the same method and rule that is none.
func (r *Report) pairVariant(row *Row, drawn [][]int32) {
	for _, base := range r.Rows {
		if base.System.IsVariant() || base.System.Method != row.System.Method || base.System.Rule != row.System.Rule {
			continue
		}
		row.Base = base.Name
		for k := range r.Ks {
			row.Paired = append(row.Paired, row.comparePaired(base, k, drawn))
		}
	}
}

// compareFirst gives the paired difference to the first system at the largest cut-off.
func (r *Row) compareFirst(first Row, ks []int, drawn [][]int32) {
	paired := r.comparePaired(first, len(ks)-1, drawn)
	r.Against = &paired
}

// comparePaired compares recall at a cut-off to another row, question by question, and returns the interval of the
// difference.
func (r *Row) comparePaired(other Row, k int, drawn [][]int32) Interval {
	differences := make([]float64, len(r.scores))
	for j := range differences {
		differences[j] = r.scores[j].Recall[k] - other.scores[j].Recall[k]
	}
	return newInterval(differences, drawn)
}

func formatRecalls(row Row, ks []int) string {
	s := ""
	for i := range ks {
		if i > 0 {
			s += " / "
		}
		s += fmt.Sprintf("%.1f", 100*row.Recall[i].Mean)
	}
	return s
}

// runSystem asks one system every question.
func (p Plan) runSystem(ctx context.Context, system System, rep *Report) (Row, error) {
	row := Row{System: system, Name: system.Name(), scores: make([]Scores, rep.N)}
	latency := make([]float64, rep.N)
	answers := make([]string, rep.N)
	var mu sync.Mutex
	err := parallel.Each(ctx, rep.N, p.countWorkers(), func(ctx context.Context, i int) error {
		question := p.Dataset.Questions[i]
		got, err := p.askSystem(ctx, system, question)
		latency[i] = got.Latency
		if err != nil {
			return fault.CodeOf(err).At("ask question", question.ID+" by "+row.Name).Because(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if row.Generation = got.Generation; !system.IsVariant() {
			rep.Generation, rep.Models = got.Generation, got.Models
		}
		row.scores[i] = scoreRanking(got.rankPassages(p.Dataset), question.Gold, p.Ks)
		row.Tokens.EmbedQuery += got.Usage.Embedding + got.Usage.Saved
		row.Tokens.PromptQuery += got.Usage.Prompt
		row.Tokens.CompletionQuery += got.Usage.Completion
		if got.Answer != nil {
			answers[i] = got.Answer.Text
		}
		return nil
	})
	if err != nil {
		return row, err
	}
	row.Tokens.addIndex(system.Method, p.Fills, p.Spent)
	row.P50, row.P99 = quantile(latency, 0.5), quantile(latency, 0.99)
	if p.Judge != nil {
		err = p.judgeAnswers(ctx, &row, answers)
	}
	return row, err
}

// askSystem asks a system a question. Where an answer is given another number of passages than are compared, it is
// asked for by a separate query.
func (p Plan) askSystem(ctx context.Context, system System, question Question) (response, error) {
	query := func(seats int, answered bool) (got response, err error) {
		body := p.newBody(system, question, seats, answered)
		fields, err := json.Marshal(body)
		if err != nil {
			return got, err
		}
		var journal *Journal
		if p.Judge != nil && system.Index == "" { // another index may be another by the next time
			journal = p.Judge.Journal
		}
		return askOnce(ctx, journal, []string{system.Index, string(fields)}, func(ctx context.Context) (response, error) {
			start := time.Now()
			raw, err := p.Ask(ctx, system.Index, body)
			got.Latency = float64(time.Since(start).Microseconds()) / 1000
			if err == nil {
				err = json.Unmarshal(raw, &got)
			}
			return got, err
		})
	}
	answered := p.Judge != nil && question.Answer != ""
	most := p.Ks[len(p.Ks)-1]
	seats := cmp.Or(p.Seats, most)
	if !answered || seats == most {
		return query(most, answered)
	}
	got, err := query(most, false)
	if err != nil {
		return got, err
	}
	answer, err := query(seats, true)
	got.Answer = answer.Answer
	got.Usage.Prompt, got.Usage.Completion = answer.Usage.Prompt, answer.Usage.Completion
	return got, err
}

// addIndex takes over what a method needs of what the index cost.
func (t *Tokens) addIndex(name string, fills bool, spent core.IndexTokens) {
	method, err := methods.Registry().Method(name)
	if err != nil {
		return
	}
	needs := method.Spec().Needs
	if needs.Embedding == retrieve.ByClassEmbedder {
		t.PromptIndex, t.CompletionIndex, t.EmbedClasses = spent.Prompt, spent.Completion, spent.Classes
	}
	if needs.Embedding == retrieve.ByChunkEmbedder || needs.Hashed || fills && needs.Embedding != retrieve.NoEmbedding {
		t.EmbedChunks = spent.Chunks
	}
}

// newBody returns the body of a query.
func (p Plan) newBody(system System, question Question, seats int, answered bool) map[string]any {
	body := map[string]any{"query": question.Question, "method": system.Method, "top_chunks": seats}
	if system.Rule != "" {
		body["rule"] = system.Rule
	}
	if answered {
		body["answer"] = true
	}
	if system.Generation != "" {
		body["generation"] = system.Generation
	}
	for field, value := range system.Settings {
		body[field] = value
	}
	return body
}

// rankPassages returns the passages of a response in their order, each once: a passage may have several chunks.
func (r response) rankPassages(dataset *Dataset) []string {
	var ranked []string
	seen := map[string]bool{}
	for _, chunk := range r.Chunks {
		if id := dataset.rankedID(chunk.Document); !seen[id] {
			seen[id] = true
			ranked = append(ranked, id)
		}
	}
	return ranked
}

// sumScores makes means and intervals of the questions' scores.
func (r *Row) sumScores(ks []int, drawn [][]int32) {
	column := func(of func(Scores) float64) Interval {
		values := make([]float64, len(r.scores))
		for i, scores := range r.scores {
			values[i] = of(scores)
		}
		return newInterval(values, drawn)
	}
	for k := range ks {
		r.Recall = append(r.Recall, column(func(s Scores) float64 { return s.Recall[k] }))
		r.All = append(r.All, column(func(s Scores) float64 { return s.All[k] }))
	}
	r.MRR, r.NDCG = column(func(s Scores) float64 { return s.MRR }), column(func(s Scores) float64 { return s.NDCG })
}
