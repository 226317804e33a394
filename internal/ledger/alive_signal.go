package ledger

import "context"

// signEvery is how many entries or keys go by between two signs of life.
const signEvery = 1024

type signKey struct{}

// WithAlive has what takes long in the ledger (Upkeep, and what it is made of) call alive as it gets on: for every pack
// that is swept, and once in a while for entries and keys that are read. Of a task of ten million entries it takes
// many minutes, in which one that showed nothing would count as hanging. Alive may be called by several goroutines.
func WithAlive(ctx context.Context, alive func()) context.Context {
	return context.WithValue(ctx, signKey{}, alive)
}

// signalAlive says that the n-th of many went by.
func signalAlive(ctx context.Context, n int64) {
	if n%signEvery != 0 {
		return
	}
	if alive, ok := ctx.Value(signKey{}).(func()); ok {
		alive()
	}
}
