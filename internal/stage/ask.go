package stage

import (
	"context"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/model"
)

// Answer is what came of asking a model.
type Answer[T any] struct {
	Value   T
	Retried bool        // the first answer could not be read, the second one could
	Usage   model.Usage // of all answers
	Reason  string      // a code, where the model gave nothing that can be used: a content failure
	Raw     string      // with Reason: the last answer, or the server's words; at most rawBytes
}

// rawBytes bounds what is kept of an answer that could not be read.
const rawBytes = 64 << 10

// Ask calls a model, and once more, with reminder appended, when read refuses the first answer. Calls that fail for a
// while are repeated in place. A failure of the content is an Answer with a Reason, which is worth remembering; an
// error is a failure of the system, which is not.
func Ask[T any](
	ctx context.Context,
	chat model.Chat,
	call model.Call,
	reminder string,
	read func(text string) (T, bool),
) (Answer[T], error) {
	var answer Answer[T]
	user := call.User
	for _, suffix := range []string{"", reminder} {
		call.User = user + suffix
		var reply model.Reply
		err := retry.Do(ctx, func(ctx context.Context) error {
			var err error
			reply, err = chat.Complete(ctx, call)
			return err
		})
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

func clip(raw string) string {
	if len(raw) <= rawBytes {
		return raw
	}
	return strings.ToValidUTF8(raw[:rawBytes], "")
}
