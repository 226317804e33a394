package eval

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// judgeAnswers rates answers over the runs. An answer that cannot be judged is skipped and asked about again by the
// next evaluation; what would fail for every answer ends this one.
func (p Plan) judgeAnswers(ctx context.Context, row *Row, answers []string) error {
	out := &Factual{}
	row.F1, row.answers = out, answers
	var means, zeros []float64
	for run := range max(1, p.Runs) {
		rated, spent, err := p.rateAnswers(ctx, run, row.Name, answers)
		row.Tokens.Judge += spent
		if err != nil {
			return err
		}
		row.rated = append(row.rated, rated)
		sum, judged, all := 0.0, 0, 0
		for i, value := range rated {
			if p.Dataset.Questions[i].Answer == "" {
				continue
			}
			if all++; !math.IsNaN(value) {
				sum += value
				judged++
			}
		}
		out.Skipped += all - judged
		out.N = all
		means, zeros = append(means, sum/float64(max(1, judged))), append(zeros, sum/float64(max(1, all)))
	}
	out.Mean, out.Variance = variance(means)
	out.AsZero, _ = variance(zeros)
	return nil
}

// hopeless is how many answers, of which none could be judged, show that the judge cannot.
const hopeless = 10

// rateAnswers gives the F1 of each answer, NaN for those that have no gold answer or could not be judged.
func (p Plan) rateAnswers(
	ctx context.Context, run int, system string, answers []string,
) (rated []float64, used int64, err error) {
	judge := *p.Judge
	judge.run = run + 1
	rated = make([]float64, len(answers))
	var mu sync.Mutex
	good, bad := 0, 0
	var last error
	useless := func() error {
		return fault.BadOutput.At("judge answers with", judge.Chat.Info().Model).Because(last).
			Advise("it returned no usable judgement: set another models.judge")
	}
	err = parallel.Each(ctx, len(answers), p.countWorkers(), func(ctx context.Context, i int) error {
		rated[i] = math.NaN()
		question := p.Dataset.Questions[i]
		if question.Answer == "" {
			return nil
		}
		value, spent, err := judge.F1(ctx, answers[i], question.Answer)
		mu.Lock()
		defer mu.Unlock()
		used += spent
		if err == nil {
			rated[i] = value
			good++
			return nil
		}
		if fault.KindOf(err) == fault.Fatal || ctx.Err() != nil {
			return err
		}
		last = fault.CodeOf(err).At("judge the answer to", question.ID+" by "+system).Because(err)
		if bad++; good == 0 && bad == hopeless && fault.Is(err, fault.BadOutput) {
			return useless()
		}
		p.Notice("skipped: " + last.Error())
		return nil
	})
	if err == nil && good == 0 && fault.Is(last, fault.BadOutput) {
		err = useless()
	}
	return rated, used, err
}

// The answers without an index: from no passage, and from the gold ones.
const (
	closedBook = "closed book"
	oracle     = "oracle"
)

// unasked is a model that answers nothing.
type unasked struct{ info model.Info }

var errUnasked = errors.New("it is in no journal")

func (u unasked) Info() model.Info { return u.info }

func (unasked) Complete(context.Context, model.Call) (model.Reply, error) {
	return model.Reply{}, errUnasked
}

// CountUnpaid counts the calls for answers and judgements that a journal does not save. A judgement of which one call
// is missing counts whole.
func (p Plan) CountUnpaid(journal *Journal) (answers, judgements int) {
	ctx := context.Background()
	judge := Judge{Chat: unasked{p.Judge.Chat.Info()}, Parity: p.Judge.Parity, Journal: journal}
	if p.Judge.Other != nil {
		judge.Other = unasked{p.Judge.Other.Info()}
	}
	p.Judge = &judge
	p.Ask = func(context.Context, string, map[string]any) ([]byte, error) { return nil, errUnasked }
	count := func(question Question, answer string, err error) {
		if err != nil {
			answers++
		}
		for run := range max(1, p.Runs) {
			judge.run = run + 1
			if err == nil {
				if _, _, err := judge.F1(ctx, answer, question.Answer); err == nil {
					continue
				}
			}
			judgements += CallsPerAnswer
		}
		judge.run = 0
	}
	for _, question := range p.Dataset.Questions {
		if question.Answer == "" {
			continue
		}
		for _, system := range p.Systems {
			got, err := p.askSystem(ctx, system, question)
			answer := ""
			if got.Answer != nil {
				answer = got.Answer.Text
			}
			count(question, answer, err)
		}
		for _, name := range []string{closedBook, oracle} {
			answer, _, err := judge.Answer(ctx, question.Question, p.passagesFor(name, question))
			count(question, answer, err)
		}
	}
	return answers, judgements
}

// passagesFor returns the passages that a baseline has.
func (p Plan) passagesFor(name string, question Question) (passages []prompt.Passage) {
	if name == oracle {
		for _, id := range question.Gold {
			passages = append(passages, p.Dataset.Texts[id])
		}
	}
	return passages
}

// runBaseline answers without any context, or from the gold passages.
func (p Plan) runBaseline(ctx context.Context, name string) (Row, error) {
	row := Row{System: System{Method: name}, Name: name}
	answers := make([]string, len(p.Dataset.Questions))
	var mu sync.Mutex
	err := parallel.Each(ctx, len(answers), p.countWorkers(), func(ctx context.Context, i int) error {
		question := p.Dataset.Questions[i]
		if question.Answer == "" {
			return nil
		}
		text, usage, err := p.Judge.Answer(ctx, question.Question, p.passagesFor(name, question))
		mu.Lock()
		defer mu.Unlock()
		answers[i] = text
		row.Tokens.PromptQuery += usage.Prompt
		row.Tokens.CompletionQuery += usage.Completion
		return err
	})
	if err == nil {
		err = p.judgeAnswers(ctx, &row, answers)
	}
	return row, err
}
