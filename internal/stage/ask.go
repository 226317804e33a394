package stage

import (
	"context"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/model"
)

// Answer is what came of asking a model.
type Answer[T any] struct {
	Value   T
	Retried bool        // the first answer could not be read, the second one could
	Usage   model.Usage // of all answers
	Reason  string      // a code, where the model gave nothing that can be used for this item
	Raw     string      // with Reason: the last answer, or the server's words; at most rawBytes
	Passing bool        // with Reason: a refusal that may not last; not worth remembering, a later run asks again
}

// rawBytes bounds what is kept of an answer that could not be read.
const rawBytes = 64 << 10

// Ask calls a model, and once more, with reminder appended, when read refuses the first answer. Calls that fail for a
// while are repeated in place. A failure of the item is an Answer with a Reason; an error is a failure of the system.
// health tells the two apart where the server only refuses, or answers nonsense; without it, nil, a refusal is always
// one of the system, and nonsense one of the item.
func Ask[T any](
	ctx context.Context,
	chat model.Chat,
	call model.Call,
	reminder string,
	read func(text string) (T, bool),
	health *Health,
) (Answer[T], error) {
	var usage model.Usage
	for round := 0; ; round++ {
		sent := time.Now()
		answer, err := askTwice(ctx, chat, call, reminder, read)
		usage.Prompt += answer.Usage.Prompt
		usage.Completion += answer.Usage.Completion
		answer.Usage = usage
		refused := fault.Is(err, fault.ModelRefused)
		if err != nil && !refused {
			return answer, err
		}
		doubtful := refused || answer.Reason == string(fault.BadOutput)
		if !doubtful {
			health.good(sent)
			return answer, nil
		}
		if health == nil {
			return answer, err
		}
		served, _ := health.since(sent)
		if !served {
			if down := health.serves(ctx, sent, probe(chat, call, read)); down != nil {
				if refused && fault.Is(down, fault.ModelRefused) {
					down = err // the words of the refusal itself
				}
				return answer, down
			}
		}
		// A refusal costs nothing, so that it is asked for again in any case: it may have been the last of an outage.
		if round == 0 && (refused || !served) {
			continue
		}
		if refused {
			answer.Reason, answer.Raw, answer.Passing = string(fault.ModelRefused), clip(err.Error()), true
		}
		return answer, nil
	}
}

// askTwice asks, and once more where the answer cannot be read.
func askTwice[T any](
	ctx context.Context, chat model.Chat, call model.Call, reminder string, read func(text string) (T, bool),
) (Answer[T], error) {
	var answer Answer[T]
	user := call.User
	for _, suffix := range []string{"", reminder} {
		call.User = user + suffix
		reply, err := complete(ctx, chat, call)
		if err != nil {
			if fault.KindOf(err) != fault.Content {
				return answer, err
			}
			answer.Reason, answer.Raw = string(fault.CodeOf(err)), clip(err.Error())
			return answer, nil
		}
		answer.Usage.Prompt += reply.Usage.Prompt
		answer.Usage.Completion += reply.Usage.Completion
		value, ok := read(reply.Text)
		if ok {
			answer.Value, answer.Retried, answer.Raw = value, suffix != "", ""
			return answer, nil
		}
		answer.Raw = clip(reply.Text)
	}
	answer.Reason = string(fault.BadOutput)
	return answer, nil
}

// complete is one call, repeated in place while it fails for a while.
func complete(ctx context.Context, chat model.Chat, call model.Call) (reply model.Reply, err error) {
	err = retry.Do(ctx, func(ctx context.Context) error {
		var err error
		reply, err = chat.Complete(ctx, call)
		return err
	})
	return reply, err
}

func clip(raw string) string {
	if len(raw) <= rawBytes {
		return raw
	}
	return strings.ToValidUTF8(raw[:rawBytes], "")
}
