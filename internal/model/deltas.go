package model

import "context"

type deltas struct{}

// WithDeltas has take given the text of an answer piece by piece, as the model writes it, by models that can; the reply
// holds the whole text all the same, and a model that cannot never calls it. take is called by one goroutine at a time
// and never after the call has returned; its error ends the call and is the call's. Text that was taken cannot be taken
// back: a call that fails behind it is not repeated. It travels with the context, through any decorator.
func WithDeltas(ctx context.Context, take func(text string) error) context.Context {
	return context.WithValue(ctx, deltas{}, take)
}

// FindTaker gives what Deltas left, nil where nothing did.
func FindTaker(ctx context.Context) func(text string) error {
	take, _ := ctx.Value(deltas{}).(func(text string) error)
	return take
}
