package run

import (
	"context"

	"github.com/unweaver/unweaver/internal/model"
)

// Begin implements model.Meter: it waits until a look at control and budget that began after it was asked admits the
// call. A grant that grew old before its call is sent is asked for again.
func (b *Book) Begin(ctx context.Context, task string, prompt int64) (func(model.Usage, bool), error) {
	admitted, err := b.admitCall(ctx, task, prompt)
	if err != nil {
		return nil, err
	}
	return admitted.End, nil
}

// AdmitAhead implements model.Foresight. What is admitted counts as in flight until it is used or given back. Near the
// end of a budget nothing is: what waits would take the room of what is sent, and the budget would be over before it is
// spent.
func (b *Book) AdmitAhead(ctx context.Context, task string, prompt int64) (*model.Admission, error) {
	if !b.hasRoom() {
		return nil, nil //nolint:nilnil // none, and no failure
	}
	return b.admitCall(ctx, task, prompt)
}

// roomyCalls and roomyShare are what must be left of a budget for calls to be admitted ahead: more than all processes
// send while an admission holds.
const (
	roomyCalls = 4096
	roomyShare = 0.1
)

// hasRoom reports whether the budget is far from spent, by what is known now.
func (b *Book) hasRoom() bool {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	budget, total := b.Control.LimitBudget(b.Settings.Budget), b.Total()
	tokens := total.Tokens.Sum() + total.Expected.Sum()
	return (budget.Calls <= 0 || budget.Calls-b.countPromised() >= roomyCalls) &&
		(budget.Tokens <= 0 || float64(tokens) < (1-roomyShare)*float64(budget.Tokens)) &&
		(budget.Money <= 0 || total.Cost+total.Risk < (1-roomyShare)*budget.Money)
}

// admitCall waits for the admission of a call.
func (b *Book) admitCall(ctx context.Context, task string, prompt int64) (*model.Admission, error) {
	usage := model.Usage{Prompt: prompt, Completion: b.EstimateReply(task)}
	asked := Flight{Task: task, Prompt: prompt, Completion: usage.Completion, Cost: b.Cost(task, usage)}
	for {
		if err := b.AwaitStored(ctx); err != nil {
			return nil, err
		}
		mine := &ticket{Flight: asked, granted: make(chan error, 1)}
		b.Mu.Lock()
		b.waiting = append(b.waiting, mine)
		b.ensureLoop()
		b.Mu.Unlock()
		b.wakeLoop()
		// The answer is waited for whatever happens to ctx: what was admitted stands in the account.
		err := <-mine.granted
		if err != nil {
			return nil, err
		}
		fresh := func() bool { return b.Clock().Sub(mine.at) < admission }
		if ctx.Err() == nil && fresh() {
			return &model.Admission{
				Until: mine.at.Add(admission),
				Holds: func() bool { return fresh() && (b.Ledger == nil || b.Ledger.FindTrouble() == nil) },
				End:   func(usage model.Usage, answered bool) { b.endCall(asked, usage, answered) },
			}, nil
		}
		b.Change(func(account *Account) { account.CountFlight(asked, -1) })
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
}

// EstimateReply returns about how many tokens the answer to a request will have.
func (b *Book) EstimateReply(task string) int64 {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	return Account{Calls: b.Mine.Calls.Plus(b.others.Calls), Replies: b.Mine.Replies.Plus(b.others.Replies)}.replyOf(task)
}

// Cost returns what the tokens cost that a call used.
func (b *Book) Cost(task string, usage model.Usage) float64 {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if task == taskEmbed {
		return float64(usage.Prompt) * b.Settings.Embedding.Price.Prompt / 1e6
	}
	price := b.Settings.ChatOf(model.RoleOf(task)).Price
	cost := (float64(usage.Prompt)*price.Prompt + float64(usage.Completion)*price.Completion) / 1e6
	if b.Factor > 0 {
		cost *= b.Factor
	}
	return cost
}
