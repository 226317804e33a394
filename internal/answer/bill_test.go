package answer

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
)

// endingChat sends, and ends with an error.
type endingChat struct {
	model.Chat
	err error
}

func (endingChat) Info() model.Info { return model.Info{Paid: true} }

func (e endingChat) Complete(ctx context.Context, _ model.Call) (model.Reply, error) {
	return model.Reply{}, errors.Join(model.CheckSend(ctx), e.err)
}

// Who hangs up does not pass a limit: the server may write the answer to its end.
func TestACallThatItsCallerEndsCountsTheLongestReply(t *testing.T) {
	down := fault.ModelUnavailable.At("call chat model", "m")
	for name, c := range map[string]struct {
		err    error
		most   int
		tokens int64
	}{
		"the caller has gone":   {fmt.Errorf("call: %w", context.Canceled), 700, 702},
		"the time is over":      {context.DeadlineExceeded, 700, 702},
		"a reply of any length": {context.Canceled, 0, usualAnswer + 2},
		"the server fails":      {down, 700, 2},
		"the server refuses":    {fault.ModelRateLimited.At("call chat model", "m"), 700, 0},
	} {
		cost := &bill{}
		_, err := billed{endingChat{err: c.err}, core.Price{Prompt: 1e6, Completion: 1e6}, cost, c.most}.
			Complete(cost.watchSends(t.Context()), model.Call{User: "Who signed"})
		assert.ErrorIs(t, err, c.err, name)
		assert.Equal(t, c.tokens, cost.tokens, name)
		assert.InDelta(t, c.tokens, cost.money, 0, name)
	}
}

func TestNoPriceGivesMoney(t *testing.T) {
	cost := &bill{}
	cost.add(core.Price{Prompt: -1e6, Completion: -1e6}, model.Usage{Prompt: 1, Completion: 1}, nil, 0)
	cost.sent = true
	cost.addRerank(core.RerankPrice{Prompt: -1e6, Call: -1}, model.Usage{Prompt: 1}, nil)
	assert.Zero(t, cost.money)
}
