package model

import (
	"context"
	"errors"

	"github.com/unweaver/unweaver/internal/fault"
)

// EmbedTask is what a Meter gets for a request for embeddings; requests to chat models carry the task of their Call.
const EmbedTask = "embed"

// Meter admits requests that are paid for and counts what they cost. Begin is called right before a request is sent and
// may refuse it (the run is paused, cancelled, its budget is spent); its error is then the request's. prompt is about
// how many tokens the request holds: what counts where its sender dies before the answer. The function that it returns
// is called exactly once with what came back: the tokens that the server reported, and whether it answered at all.
// A request that was answered is paid for, also when its content turned out bad. Both may be called concurrently.
type Meter interface {
	Begin(ctx context.Context, task string, prompt int64) (end func(usage Usage, answered bool), err error)
}

// Refusals is a Meter that also counts the requests that a server would not take for now, as they make a run slow.
type Refusals interface {
	Refused(task string, err error)
}

// countRefusal counts err where it says that the server would not take a request for now.
func countRefusal(meter Meter, task string, err error) {
	code := fault.CodeOf(err)
	if refusals, ok := meter.(Refusals); ok && (code == fault.ModelRateLimited || code == fault.ModelUnavailable) {
		refusals.Refused(task, err)
	}
}

// aboutTokens estimates the tokens of texts together: four bytes each, as limits reckon too.
func aboutTokens(texts ...string) int64 {
	bytes := 0
	for _, text := range texts {
		bytes += len(text)
	}
	return int64(bytes+3) / 4
}

// MeterChat puts a meter around a paid model; models that cost nothing, and a nil meter, leave it as it is. It belongs
// below limits, so that nothing waits between admission and sending; limits may have a request admitted a moment before
// (Foresight).
func MeterChat(chat Chat, meter Meter) Chat {
	if meter == nil || !chat.Info().Paid {
		return chat
	}
	return meteredChat{chat, meter}
}

// MeterEmbedder meters an embedder as MeterChat meters a chat model; the task is EmbedTask.
func MeterEmbedder(embedder Embedder, meter Meter) Embedder {
	if meter == nil || !embedder.Info().Paid {
		return embedder
	}
	return meteredEmbedder{embedder, meter}
}

type meteredChat struct {
	Chat
	meter Meter
}

// Unwrap gives the model below, for As.
func (m meteredChat) Unwrap() Chat { return m.Chat }

// Complete implements Chat.
func (m meteredChat) Complete(ctx context.Context, call Call) (reply Reply, err error) {
	counted := metering{m.meter, call.Task, aboutTokens(call.System, call.User) + int64(call.CountPictures()), nil}
	if err := counted.beginRequest(ctx); err != nil {
		return Reply{}, err
	}
	if err := CheckSend(ctx); err != nil {
		counted.end(Usage{}, false)
		return Reply{}, err
	}
	returned := false
	// A panic below must not leave the meter waiting.
	defer func() { counted.end(reply.Usage, returned && wasAnswered(err)) }()
	reply, err = m.Chat.Complete(counted.meterRepeats(ctx), call)
	returned = true
	countRefusal(m.meter, call.Task, err)
	return reply, err
}

// metering is one request after the other of a call.
type metering struct {
	meter  Meter
	task   string
	prompt int64 // tokens of a request, about
	end    func(usage Usage, answered bool)
}

func (m *metering) beginRequest(ctx context.Context) (err error) {
	ahead, _ := ctx.Value(admitted{}).(*Admission)
	if m.end = ahead.takeEnd(); m.end != nil {
		return nil
	}
	m.end, err = m.meter.Begin(ctx, m.task, m.prompt)
	return err
}

// meterRepeats has a request that the adapter repeats in another form begun, after the end of the one before.
func (m *metering) meterRepeats(ctx context.Context) context.Context {
	return BeforeAgain(ctx, func() error {
		m.end(Usage{}, false) // refused, so not paid
		err := m.beginRequest(ctx)
		if err != nil {
			m.end = func(Usage, bool) {}
		}
		return err
	})
}

type meteredEmbedder struct {
	Embedder
	meter Meter
}

// Unwrap gives the embedder below, for As.
func (m meteredEmbedder) Unwrap() Embedder { return m.Embedder }

// Embed implements Embedder.
func (m meteredEmbedder) Embed(ctx context.Context, texts []string) (out [][]float32, usage Usage, err error) {
	counted := metering{m.meter, EmbedTask, aboutTokens(texts...), nil}
	if err := counted.beginRequest(ctx); err != nil {
		return nil, Usage{}, err
	}
	returned := false
	defer func() { counted.end(usage, returned && wasAnswered(err)) }()
	out, usage, err = m.Embedder.Embed(counted.meterRepeats(ctx), texts)
	returned = true
	countRefusal(m.meter, EmbedTask, err)
	return out, usage, err
}

// answeredError marks the error of a request that the server answered.
type answeredError struct{ cause error }

func (e *answeredError) Error() string { return e.cause.Error() }
func (e *answeredError) Unwrap() error { return e.cause }

// AnsweredError marks the error of a request that the server answered, and so charged for, although the answer is of no
// use. Adapters mark such errors and return the usage beside them; the fault in err's chain stays what it was.
func AnsweredError(err error) error {
	if err == nil {
		return nil
	}
	return &answeredError{err}
}

// wasAnswered reports whether the request behind err was answered.
func wasAnswered(err error) bool {
	var mark *answeredError
	return err == nil || errors.As(err, &mark)
}
