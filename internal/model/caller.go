package model

import "context"

type callerBound struct{}

// CallerBound marks calls that end with their caller, because nothing is kept of them: a question's embedding, an
// answer. Calls without the mark are finished once they are admitted, since they cost the same and what they bring is
// kept. The mark travels with the context, through any decorator.
func CallerBound(ctx context.Context) context.Context {
	return context.WithValue(ctx, callerBound{}, true)
}

// IsCallerBound reports whether the call ends with its caller.
func IsCallerBound(ctx context.Context) bool {
	bound, _ := ctx.Value(callerBound{}).(bool)
	return bound
}

type (
	beforeSend struct{}
	urgent     struct{}
)

// BeforeSend has check asked when a request is about to be sent, after all that it waited for: limits and admission.
// Its error is the request's, which is not sent then. One request may ask several times; the last is the nearest to the
// sending.
func BeforeSend(ctx context.Context, check func() error) context.Context {
	return context.WithValue(ctx, beforeSend{}, check)
}

// CheckSend asks the check of BeforeSend, if there is one. Decorators that wait call it when they have waited.
func CheckSend(ctx context.Context) error {
	if check, ok := ctx.Value(beforeSend{}).(func() error); ok {
		return check()
	}
	return nil
}

// WithUrgency marks a request that others wait for: it does not queue behind them.
func WithUrgency(ctx context.Context) context.Context { return context.WithValue(ctx, urgent{}, true) }

// IsUrgent reports whether others wait for the request.
func IsUrgent(ctx context.Context) bool {
	is, _ := ctx.Value(urgent{}).(bool)
	return is
}

type alive struct{}

// WithSign has sign called while a model inside this process gets on with a request, or waits for its turn: neither is
// a hang. It may be called concurrently.
func WithSign(ctx context.Context, sign func()) context.Context {
	return context.WithValue(ctx, alive{}, sign)
}

// SignOfLife passes a sign on to who waits for the request.
func SignOfLife(ctx context.Context) {
	if sign, ok := ctx.Value(alive{}).(func()); ok {
		sign()
	}
}

type embedding struct{}

// WithProgress has done called with how many more texts of a request have their vector, where a model inside this
// process embeds them. It may be called concurrently.
func WithProgress(ctx context.Context, done func(texts int)) context.Context {
	return context.WithValue(ctx, embedding{}, done)
}

// ReportProgress passes a number of texts on to who waits for the request.
func ReportProgress(ctx context.Context, texts int) {
	if done, ok := ctx.Value(embedding{}).(func(int)); ok {
		done(texts)
	}
}

type beforeAgain struct{}

// BeforeAgain has again asked when an adapter is about to send one more request within the same call, because the
// server refused the form of the first. Decorators count it; an error is the call's. The outermost is asked first.
func BeforeAgain(ctx context.Context, again func() error) context.Context {
	outer, _ := ctx.Value(beforeAgain{}).(func() error)
	return context.WithValue(ctx, beforeAgain{}, func() error {
		if outer != nil {
			if err := outer(); err != nil {
				return err
			}
		}
		return again()
	})
}

// CheckAgain asks what BeforeAgain left, and then as Sending does.
func CheckAgain(ctx context.Context) error {
	if again, ok := ctx.Value(beforeAgain{}).(func() error); ok {
		if err := again(); err != nil {
			return err
		}
	}
	return CheckSend(ctx)
}
