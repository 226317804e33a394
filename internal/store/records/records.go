// Package records is the port to the store of class records: immutable values under content keys, shared by every
// generation that contains them. They can be rebuilt from the artifacts. Its contract is proven by recordstest.
package records

import "context"

// Record is an immutable class record under its content key.
type Record struct {
	Key   string
	Value []byte
}

// Store holds class records. Writes may be repeated: equal keys are equal values. A write that returns is durable.
type Store interface {
	PutRecords(ctx context.Context, rs []Record) error
	// GetRecords gives values in the order of keys; nil marks an absent one.
	GetRecords(ctx context.Context, keys []string) ([][]byte, error)
	DeleteRecords(ctx context.Context, keys []string) error
	// ScanRecords calls f with batches of keys that start with prefix, in any order, each key at least once.
	ScanRecords(ctx context.Context, prefix string, f func(keys []string) error) error
	// Identity changes when the store lost its memory; a build that sees it change verifies everything.
	Identity(ctx context.Context) (string, error)
	// RecordOwner claims the store for an artifact store; another owner's prefix is refused with fault.StoreOwned.
	RecordOwner(ctx context.Context, storeID string) error
	Ping(ctx context.Context) error
	Close() error
}

// Scrubber is a store that keeps bytes of what was deleted until it needs their place. Scrub overwrites them.
type Scrubber interface {
	Scrub(ctx context.Context) error
}
