package pipeline

import (
	"context"

	"github.com/unweaver/unweaver/internal/model"
)

// Begin implements model.Meter: it waits until a look at control and budget that began after it was asked admits the
// call. A grant that grew old before its call is sent is asked for again.
func (b *book) Begin(ctx context.Context, task string, prompt int64) (func(model.Usage, bool), error) {
	admitted, err := b.admit(ctx, task, prompt)
	if err != nil {
		return nil, err
	}
	return admitted.End, nil
}

// Ahead implements model.Foresight. What is admitted counts as in flight until it is used or given back. Near the end
// of a budget nothing is: what waits would take the room of what is sent, and the budget would be over before it is
// spent.
func (b *book) Ahead(ctx context.Context, task string, prompt int64) (*model.Admission, error) {
	if !b.roomy() {
		return nil, nil //nolint:nilnil // none, and no failure
	}
	return b.admit(ctx, task, prompt)
}

// roomyCalls and roomyShare are what must be left of a budget for calls to be admitted ahead: more than all processes
// send while an admission holds.
const (
	roomyCalls = 4096
	roomyShare = 0.1
)

// roomy tells whether the budget is far from spent, by what is known now.
func (b *book) roomy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	budget, total := b.control.limit(b.settings.Budget), b.total()
	tokens := total.Tokens.Sum() + total.Expected.Sum()
	return (budget.Calls <= 0 || budget.Calls-b.promised() >= roomyCalls) &&
		(budget.Tokens <= 0 || float64(tokens) < (1-roomyShare)*float64(budget.Tokens)) &&
		(budget.Money <= 0 || total.Cost+total.Risk < (1-roomyShare)*budget.Money)
}

// admit waits for the admission of a call.
func (b *book) admit(ctx context.Context, task string, prompt int64) (*model.Admission, error) {
	usage := model.Usage{Prompt: prompt, Completion: b.reply(task)}
	asked := flight{task: task, prompt: prompt, completion: usage.Completion, cost: b.cost(task, usage)}
	for {
		if err := b.stored(ctx); err != nil {
			return nil, err
		}
		mine := &ticket{flight: asked, granted: make(chan error, 1)}
		b.mu.Lock()
		b.waiting = append(b.waiting, mine)
		b.ensureLoop()
		b.mu.Unlock()
		b.wake()
		// The answer is waited for whatever happens to ctx: what was admitted stands in the account.
		err := <-mine.granted
		if err != nil {
			return nil, err
		}
		fresh := func() bool { return b.clock().Sub(mine.at) < admission }
		if ctx.Err() == nil && fresh() {
			return &model.Admission{
				Until: mine.at.Add(admission),
				Holds: func() bool { return fresh() && (b.ledger == nil || b.ledger.Trouble() == nil) },
				End:   func(usage model.Usage, answered bool) { b.end(asked, usage, answered) },
			}, nil
		}
		b.change(func(account *Account) { account.fly(asked, -1) })
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
}
