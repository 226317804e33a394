package stage

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stream/parallel"
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
// health distinguishes the two where the server only refuses, or answers nonsense: the item is asked for once more when
// the server is known to serve, and it is the item's failure only where the server serves after that too. Where all of
// the first items fail the same, that is a failure of the system. Without health, nil, a refusal is always one of the
// system, and nonsense one of the item.
func Ask[T any](
	ctx context.Context,
	chat model.Chat,
	call model.Call,
	reminder string,
	read func(text string) (T, bool),
	health *Health,
) (Answer[T], error) {
	answer, err := askSoundly(ctx, chat, call, reminder, read, health)
	if err == nil {
		err = health.noteItem(chat.Info(), answer.Reason, answer.Raw)
	}
	return answer, err
}

// askSoundly does what Ask does, without a look at other items.
func askSoundly[T any](
	ctx context.Context,
	chat model.Chat,
	call model.Call,
	reminder string,
	read func(text string) (T, bool),
	health *Health,
) (Answer[T], error) {
	defer health.enterItem()()
	var usage model.Usage
	one := sender{chat: chat, health: health, probe: newProbe(chat, call, read)}
	suffixes := []string{"", reminder}
	for {
		answer, err := askEach(ctx, &one, call, suffixes, read)
		usage.Prompt += answer.Usage.Prompt
		usage.Completion += answer.Usage.Completion
		answer.Usage = usage
		refused := isRefusal(err) && !one.held
		if err != nil && !refused {
			return answer, err
		}
		if !refused && answer.Reason != string(fault.BadOutput) {
			health.noteSuccess(one.sent)
			return answer, nil
		}
		if health == nil {
			return answer, err
		}
		one.reportUseless()
		if down := health.checkServing(ctx, one.sent, one.probe); down != nil {
			if refused && isRefusal(down) {
				down = err // the words of the refusal itself
			}
			return answer, down
		}
		if len(suffixes) > 1 { // what was answered so far may have been the last of an outage
			suffixes = suffixes[:1]
			continue
		}
		if refused {
			answer.Reason, answer.Raw, answer.Passing = string(fault.ModelRefused), clipText(err.Error()), true
		}
		return answer, nil
	}
}

// isRefusal reports whether a server gives nothing, for no reason that is said to be the text's.
func isRefusal(err error) bool {
	return fault.Is(err, fault.ModelRefused) || fault.Is(err, fault.ModelUnreadable)
}

// askEach asks with one suffix after the other until an answer can be read.
func askEach[T any](
	ctx context.Context, one *sender, call model.Call, suffixes []string, read func(text string) (T, bool),
) (Answer[T], error) {
	var answer Answer[T]
	user := call.User
	for _, suffix := range suffixes {
		call.User = user + suffix
		value, ok, err := askWhole(ctx, one, call, read, &answer)
		if err != nil {
			if fault.KindOf(err) != fault.Content {
				return answer, err
			}
			answer.Reason, answer.Raw = string(fault.CodeOf(err)), clipText(err.Error())
			return answer, nil
		}
		if ok {
			answer.Value, answer.Retried, answer.Raw = value, suffix != "", ""
			return answer, nil
		}
		one.reportUseless()
	}
	answer.Reason = string(fault.BadOutput)
	return answer, nil
}

// askWhole makes one call, and once an item another with twice the room where the reply was cut: of the two the
// longer one that can be read counts. It enters what the replies cost, and the last of them.
func askWhole[T any](
	ctx context.Context, one *sender, call model.Call, read func(text string) (T, bool), answer *Answer[T],
) (value T, ok bool, err error) {
	for {
		reply, err := one.completeCall(ctx, call)
		if err != nil && call.Roomy && ok { // half of it is there
			return value, ok, nil
		}
		if err != nil {
			return value, false, err
		}
		answer.Usage.Prompt += reply.Usage.Prompt
		answer.Usage.Completion += reply.Usage.Completion
		answer.Raw = clipText(reply.Text)
		if reply.Text == "" {
			answer.Raw = reply.ExplainEmpty()
		}
		if whole, readable := readAnswer(read, reply.Text); readable {
			value, ok = whole, true
		}
		if !reply.Roomier || one.roomy {
			return value, ok, nil
		}
		one.roomy, call.Roomy = true, true
	}
}

// readAnswer reads an answer. One that makes the reader panic is one that cannot be read: it costs its item, not the
// run.
func readAnswer[T any](read func(string) (T, bool), text string) (value T, ok bool) {
	var crash error
	func() {
		defer parallel.CatchPanic(&crash)
		value, ok = read(text)
	}()
	return value, ok && crash == nil
}

// sender sends the requests of one item.
type sender struct {
	chat     model.Chat
	health   *Health
	probe    func(context.Context) error
	sent     time.Time // when the last request was sent, after all that it waited for
	reported bool      // health has a report that the item came to nothing
	roomy    bool      // twice the room was asked for
	held     bool      // the error is that of the small request: nothing was sent
}

// reportUseless reports the first answer of no use to health.
func (s *sender) reportUseless() {
	if !s.reported {
		s.reported = true
		s.health.noteUseless(s.sent)
	}
}

// completeCall makes one call, repeated in place while it fails for a while. It is not sent while the model is in
// doubt.
func (s *sender) completeCall(ctx context.Context, call model.Call) (reply model.Reply, err error) {
	began, inDoubt := time.Now(), false
	ready := func() error {
		s.sent = time.Now()
		return s.health.checkDoubt(began, inDoubt)
	}
	for {
		if inDoubt, err = s.health.settleDoubt(ctx, began, s.probe); err != nil {
			s.held = true
			return reply, err
		}
		err = retry.Do(ctx, func(ctx context.Context) error {
			if err := ready(); err != nil {
				return err
			}
			var err error
			reply, err = s.chat.Complete(model.BeforeSend(ctx, ready), call)
			return err
		})
		if !errors.Is(err, errDoubt) {
			return reply, err
		}
	}
}

// clipText returns what a dead letter keeps of an answer or an error: its beginning, without secrets.
func clipText(raw string) string {
	if len(raw) <= rawBytes {
		return redact.Text(raw)
	}
	return redact.Text(strings.ToValidUTF8(raw[:rawBytes], ""))
}
