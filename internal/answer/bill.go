package answer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

// bill is what one request spends on models, whatever becomes of it.
type bill struct {
	money  float64
	tokens int64
	sent   bool // something was, since the last entry

	reader string // who asks; empty: it is not known

	admit func() error // asks whether the caller may pay for a call; nil: it may

	vectors *embedCache // of the question, by embedder, for a request to several indexes; nil: it is to one
}

// watchSends has the bill know what is sent.
func (b *bill) watchSends(ctx context.Context) context.Context {
	return model.BeforeSend(ctx, func() error {
		b.sent = true
		return nil
	})
}

// admitCall returns the error of a caller who may not pay for a call.
func (b *bill) admitCall(paid bool) error {
	if b.admit == nil || !paid {
		return nil
	}
	return b.admit()
}

const (
	// promptTokens are what a prompt has besides question, history and passages, with some more for the question's other
	// calls.
	promptTokens = 1500
	// usualAnswer is how many tokens an answer is taken to have where the question does not bound it.
	usualAnswer = 1000
)

// estimateCost returns about what an answer costs with the dearest models of some indexes: most have less context.
func (q *Request) estimateCost(specs ...core.Spec) (most int64, money float64) {
	passages, _ := checkBounds("max_context_tokens", q.MaxContextTokens, 1, maxContextTokens, defaultContext)
	completion, _ := checkBounds("max_answer_tokens", q.MaxAnswerTokens, 1, maxAnswerTokens, usualAnswer) // checked before
	sent := promptTokens + passages + tokens.Count(q.Query)
	for _, message := range TrimHistory(q.History) {
		sent += tokens.Count(message.Content)
	}
	for _, spec := range specs {
		if chat := spec.ChatOf(core.RoleAnswer); chat.Provider != "builtin" {
			most = int64(sent + completion)
			money = max(money, (float64(sent)*chat.Price.Prompt+float64(completion)*chat.Price.Completion)/1e6)
		}
	}
	return most, money
}

// add enters a call. One that was sent, and of which it is unknown what the server charged, counts the tokens of its
// texts and, where the caller or the time ended it, the tokens of the longest reply: the server may write on.
func (b *bill) add(price core.Price, usage model.Usage, err error, longest int, texts ...string) {
	if usage.Prompt == 0 && usage.Completion == 0 && b.sent && mayBeCharged(err) {
		for _, text := range texts {
			usage.Prompt += int64(tokens.Count(text))
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			usage.Completion = int64(longest)
		}
	}
	b.sent = false
	b.tokens += usage.Prompt + usage.Completion
	b.money += max(0, float64(usage.Prompt)*price.Prompt+float64(usage.Completion)*price.Completion) / 1e6
}

// mayBeCharged reports whether a server may have answered all the same: not where it refused, or was not reached.
func mayBeCharged(err error) bool {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		return false
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		fault.Is(err, fault.ModelUnavailable) || fault.Is(err, fault.ModelUnreadable)
}

// billed is a chat model that enters its calls, of which each may have so long a reply.
type billed struct {
	model.Chat
	price core.Price
	cost  *bill
	most  int // tokens; 0: what the model may give
}

// Unwrap gives the model below, for model.As.
func (b billed) Unwrap() model.Chat { return b.Chat }

// Complete implements model.Chat.
func (b billed) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	call.Most = b.most
	reply, err := b.Chat.Complete(ctx, call)
	if b.Info().Paid {
		b.cost.add(b.price, reply.Usage, err, cmp.Or(b.most, usualAnswer), call.System, call.User)
	} else if text := firstTokens(reply.Text, b.most); text != reply.Text { // rules know of no tokens
		reply.Text, reply.Truncated = text, true
	}
	return reply, err
}

// unmade is a chat model that cannot be made.
type unmade struct{ err error }

// Info implements model.Chat.
func (unmade) Info() model.Info { return model.Info{} }

// Complete implements model.Chat.
func (u unmade) Complete(context.Context, model.Call) (model.Reply, error) {
	return model.Reply{}, u.err
}

// excused is a chat model in whose place passages are quoted where it fails for a reason that is not the caller's.
type excused struct {
	model.Chat
	log *slog.Logger
}

// excusable are the faults of a chat model that a caller cannot help.
var excusable = map[fault.Code]bool{
	fault.ModelUnavailable: true, fault.ModelRateLimited: true, fault.ModelAuth: true, fault.ModelUnknown: true,
	fault.ModelQuota: true, fault.ModelRejected: true, fault.ModelRefused: true, fault.ModelUnreadable: true,
	fault.EndpointRefused: true, fault.BadConfig: true,
}

// Complete implements model.Chat.
func (e excused) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	reply, err := e.Chat.Complete(ctx, call)
	if code := fault.CodeOf(err); ctx.Err() == nil && excusable[code] {
		e.log.Warn("the chat model gave no answer", "code", string(code), "error", err.Error())
		err = prompt.Excused{Err: err}
	}
	return reply, err
}

// firstTokens returns the beginning of a text: at most so many tokens, or all of it where most is 0.
func firstTokens(text string, most int) string {
	lengths := tokens.Split(text)
	if most == 0 || len(lengths) <= most {
		return text
	}
	end := 0
	for _, length := range lengths[:most] {
		end += length
	}
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
