package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/model"
)

// Judge rates answers by factual correctness as RAGAS does: both texts are cut into claims,
// each claim is checked against the other text.
type Judge struct {
	Chat   model.Chat
	Other  model.Chat // who answers baselines, where that is not the judge
	Parity bool       // baselines are asked in the reference's form
	Style  string     // of answers

	Journal *Journal
	run     int // of judgements: each is asked for by itself
}

// completeCall asks the model, repeats what fails for a while, and has read take the reply. One that read refuses is
// asked for once more, with a reminder, and enters no journal.
func (j *Judge) completeCall(
	ctx context.Context, chat model.Chat, call model.Call, read func(model.Reply) error,
) (model.Reply, error) {
	fields := []string{chat.Info().Model, fmt.Sprint(j.run), call.Task, call.System, call.User}
	reply, err := askOnce(ctx, j.Journal, fields, func(ctx context.Context) (reply model.Reply, err error) {
		var used model.Usage
		for range 2 {
			err = retry.Do(ctx, func(ctx context.Context) error {
				reply, err = chat.Complete(ctx, call)
				used.Prompt += reply.Usage.Prompt
				used.Completion += reply.Usage.Completion
				return err
			})
			if err == nil {
				err = read(reply)
			}
			if !fault.Is(err, fault.BadOutput) {
				break
			}
			call.User += reminder
		}
		reply.Usage = used
		return reply, err
	})
	if err == nil {
		err = read(reply)
	}
	return reply, err
}

// CallsPerAnswer are what one rating costs.
const CallsPerAnswer = 4

var (
	claimsSchema = json.RawMessage(`{"type":"object","properties":{` +
		`"claims":{"type":"array","items":{"type":"string"}}` +
		`},"required":["claims"],"additionalProperties":false}`)
	checkSchema = json.RawMessage(`{"type":"object","properties":{"verdicts":{"type":"array","items":` +
		`{"type":"object","properties":{"statement":{"type":"string"},"reason":{"type":"string"},` +
		`"verdict":{"type":"integer","enum":[0,1]}},` +
		`"required":["statement","reason","verdict"],"additionalProperties":false}` +
		`}},"required":["verdicts"],"additionalProperties":false}`)
)

const claimsTask = `Break the text into claims that can be checked one by one. ` +
	`Every fact is a claim of its own; leave none out and add none.
Each claim must be understood without the text: replace pronouns by what they stand for.

Example text: Marie Curie, born in Warsaw in 1867, won two Nobel Prizes.
Example answer: {"claims": ["Marie Curie was born in Warsaw.", "Marie Curie was born in 1867.", ` +
	`"Marie Curie won two Nobel Prizes."]}

Answer with JSON: {"claims": [...]}.`

const reminder = "\n\nAnswer again with nothing but the JSON that is asked for, complete."

const checkTask = `Judge each statement by the context alone. ` +
	`The verdict is 1 if the statement can be directly inferred from the context, else 0.
Answer with JSON: {"verdicts": [{"statement": ..., "reason": ..., "verdict": 0 or 1}, ...]}, ` +
	`one for each statement, in their order.`

// judgement is what the judge answers: claims, or verdicts on them.
type judgement struct {
	Claims   []string `json:"claims"`
	Verdicts []struct {
		Verdict int `json:"verdict"`
	} `json:"verdicts"`
}

// callJudge asks the judge, and refuses an answer that is no JSON or in which check finds a fault.
func (j *Judge) callJudge(
	ctx context.Context, system, user string, schema json.RawMessage, check func(judgement) string,
) (out judgement, used int64, err error) {
	call := model.Call{Task: "judge", System: system, User: user, Schema: schema, Input: user}
	reply, err := j.completeCall(ctx, j.Chat, call, func(reply model.Reply) error {
		text := reply.Text
		if i, k := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}'); i >= 0 && k > i {
			text = text[i : k+1]
		}
		out = judgement{}
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			return fault.BadOutput.At("read judgement", "").Because(fmt.Sprintf("%v in %.80q", err, reply.Text))
		}
		if why := check(out); why != "" {
			return fault.BadOutput.At("read judgement", "").Because(why)
		}
		return nil
	})
	return out, reply.Usage.Prompt + reply.Usage.Completion, err
}

func (j *Judge) extractClaims(ctx context.Context, text string) ([]string, int64, error) {
	out, n, err := j.callJudge(ctx, claimsTask, "Text: "+text, claimsSchema, func(out judgement) string {
		if out.Claims == nil {
			return fmt.Sprintf("no list of claims of %.80q", text)
		}
		return ""
	})
	return out.Claims, n, err
}

// countSupported counts the claims that a context supports.
func (j *Judge) countSupported(ctx context.Context, claims []string, text string) (int, int64, error) {
	if len(claims) == 0 {
		return 0, 0, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Context: %s\n\nStatements:\n", text)
	for i, c := range claims {
		fmt.Fprintf(&b, "%d. %s\n", i+1, c)
	}
	out, n, err := j.callJudge(ctx, checkTask, b.String(), checkSchema, func(out judgement) string {
		if len(out.Verdicts) != len(claims) {
			return fmt.Sprintf("%d verdicts on %d statements, the first of which is %.80q",
				len(out.Verdicts), len(claims), claims[0])
		}
		for i, v := range out.Verdicts {
			if v.Verdict != 0 && v.Verdict != 1 {
				return fmt.Sprintf("verdict %d on the statement %.80q, where 0 or 1 is asked for", v.Verdict, claims[i])
			}
		}
		return ""
	})
	yes := 0
	for _, v := range out.Verdicts {
		yes += v.Verdict
	}
	return yes, n, err
}

// F1 rates an answer against the gold answer; it is rounded to two decimals, as RAGAS does. used counts the judge's
// tokens.
func (j *Judge) F1(ctx context.Context, answer, gold string) (f1 float64, used int64, err error) {
	if strings.TrimSpace(answer) == "" {
		return 0, 0, nil
	}
	said, n, err := j.extractClaims(ctx, answer)
	used += n
	if err != nil {
		return 0, used, err
	}
	tp, n, err := j.countSupported(ctx, said, gold)
	used += n
	if err != nil {
		return 0, used, err
	}
	want, n, err := j.extractClaims(ctx, gold)
	used += n
	if err != nil {
		return 0, used, err
	}
	found, n, err := j.countSupported(ctx, want, answer)
	used += n
	if err != nil {
		return 0, used, err
	}
	return scoreClaims(tp, len(said)-tp, len(want)-found), used, nil
}

// scoreClaims returns F1 of true positives, false positives and false negatives; tp are the answer's claims in both
// ratios.
func scoreClaims(tp, fp, fn int) float64 {
	ratio := func(a, b int) float64 {
		if b == 0 {
			return 0
		}
		return float64(a) / float64(b)
	}
	p, r := ratio(tp, tp+fp), ratio(tp, tp+fn)
	if p+r == 0 {
		return 0
	}
	return math.Round(200*p*r/(p+r)) / 100
}

// Answer asks for an answer by the prompt of all methods: from whole passages in their order, or, without any, from
// what the model knows.
func (j *Judge) Answer(
	ctx context.Context, question string, passages []prompt.Passage,
) (string, model.Usage, error) {
	form := prompt.FormOf(j.Parity, j.Style)
	given, _ := form.Pack(passages, math.MaxInt)
	system, user := form.Ask(given, question)
	call := model.Call{Task: model.Answer, System: system, User: user, Question: question}
	chat := j.Other
	if chat == nil {
		chat = j.Chat
	}
	reply, err := j.completeCall(ctx, chat, call, func(model.Reply) error { return nil })
	return strings.TrimSpace(reply.Text), reply.Usage, err
}
