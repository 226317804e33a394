package model

import "context"

type callerBound struct{}

// CallerBound marks calls that end with their caller, because nothing is kept of them: a question's embedding. Calls
// without the mark are finished once they are admitted, since they cost the same and what they bring is kept. The mark
// travels with the context, through any decorator.
func CallerBound(ctx context.Context) context.Context {
	return context.WithValue(ctx, callerBound{}, true)
}

// IsCallerBound tells whether the call ends with its caller.
func IsCallerBound(ctx context.Context) bool {
	bound, _ := ctx.Value(callerBound{}).(bool)
	return bound
}
