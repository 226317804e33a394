// Package classes is the port to the store of class records and of the state of running builds: claims, shared limits,
// progress, control, reader leases and the mirror of the pointer. Its contract is proven by classestest.
//
// Records are the only data here that is worth keeping, and they can be rebuilt from the artifacts; everything else is
// about processes that run now and may be lost with them at no cost but time.
package classes

import (
	"context"
	"time"
)

// Record is an immutable class record under its content key.
type Record struct {
	Key   string
	Value []byte
}

// Records holds class records. Writes may be repeated: equal keys are equal values. A write that returns is durable.
type Records interface {
	PutRecords(ctx context.Context, rs []Record) error
	// GetRecords gives values in the order of keys; nil marks an absent one.
	GetRecords(ctx context.Context, keys []string) ([][]byte, error)
	DeleteRecords(ctx context.Context, keys []string) error
	// ScanRecords calls f with batches of keys that start with prefix, in any order, each key at least once.
	ScanRecords(ctx context.Context, prefix string, f func(keys []string) error) error
}

// Reserved is the answer to a reservation: go on, or wait and ask again.
type Reserved struct{ Wait time.Duration }

// Coordination is shared by the workers of an installation. Nothing here is data: after a loss, claims are taken again
// and the rate windows start empty.
type Coordination interface {
	// Claim takes a key for an owner until ttl has passed; a second claim by the same owner renews it. It reports
	// whether the owner has it now.
	Claim(ctx context.Context, key, owner string, ttl time.Duration) (bool, error)
	// Release gives a claim back; releasing what one does not hold does nothing.
	Release(ctx context.Context, key, owner string) error
	// Reserve asks for n requests and tokens of an endpoint under per-minute limits (0 = none).
	Reserve(ctx context.Context, endpoint string, requests, tokens, perMinute, tokensPerMinute int) (Reserved, error)
	// Settle corrects a reservation's tokens by delta once usage is known.
	Settle(ctx context.Context, endpoint string, delta int) error
}

// Runs holds the state of builds. Values are small and opaque here.
type Runs interface {
	// SetProgress writes absolute progress of one batch attempt: writing it twice changes nothing.
	SetProgress(ctx context.Context, run, field string, value []byte) error
	Progress(ctx context.Context, run string) (map[string][]byte, error)
	SetState(ctx context.Context, run string, value []byte) error
	State(ctx context.Context, run string) ([]byte, error) // nil when unknown
	// SetControl writes what activities of a run poll (pause, concurrency, budget).
	SetControl(ctx context.Context, run string, value []byte) error
	Control(ctx context.Context, run string) ([]byte, error)
	// ForgetRun drops progress and control, and keeps the state.
	ForgetRun(ctx context.Context, run string) error
}

// Readers holds leases on generations that queries still use, and the mirror of the pointer.
type Readers interface {
	Lease(ctx context.Context, index, generation, reader string, ttl time.Duration) error
	Leased(ctx context.Context, index string) (map[string]bool, error) // generations with a live lease
	// Mirror records the pointer of an index; the higher epoch wins.
	Mirror(ctx context.Context, index string, epoch int64, pointer []byte) error
	Mirrored(ctx context.Context, index string) ([]byte, error)
}

// Store is the port.
type Store interface {
	Records
	Coordination
	Runs
	Readers
	// Identity changes when the store lost its memory; a build that sees it change verifies everything.
	Identity(ctx context.Context) (string, error)
	// Own claims the store for an artifact store; another owner's prefix is refused with fault.StoreOwned.
	Own(ctx context.Context, storeID string) error
	Ping(ctx context.Context) error
	Close() error
}
