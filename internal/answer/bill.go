package answer

import (
	"context"
	"errors"
	"net"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

// bill is what one request spends on models, whatever becomes of it.
type bill struct {
	money float64
	sent  bool // something was, since the last entry
}

// watchSends has the bill know what is sent.
func (b *bill) watchSends(ctx context.Context) context.Context {
	return model.BeforeSend(ctx, func() error {
		b.sent = true
		return nil
	})
}

// add enters a call. One that was sent, and of which it is unknown whether the server charged it, counts the tokens
// of its texts.
func (b *bill) add(price core.Price, usage model.Usage, err error, texts ...string) {
	if usage.Prompt == 0 && usage.Completion == 0 && b.sent && mayBeCharged(err) {
		for _, text := range texts {
			usage.Prompt += int64(tokens.Count(text))
		}
	}
	b.sent = false
	b.money += (float64(usage.Prompt)*price.Prompt + float64(usage.Completion)*price.Completion) / 1e6
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
		b.cost.add(b.price, reply.Usage, err, call.System, call.User)
	} else if text := firstTokens(reply.Text, b.most); text != reply.Text { // rules know of no tokens
		reply.Text, reply.Truncated = text, true
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
