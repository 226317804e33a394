package observe

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

// shared is an observed store of coordination.
type shared struct {
	coordination.Store
	observer Observer
}

// Unwrap gives the store below, for who looks for a capability of it.
func (s shared) Unwrap() coordination.Store { return s.Store }

// OfCoordination puts an observer around a store of coordination; nil stays nil.
func OfCoordination(store coordination.Store, observer Observer) coordination.Store {
	if store == nil || observer == nil {
		return store
	}
	return shared{store, observer}
}

// Claim implements coordination.Claims.
func (s shared) Claim(ctx context.Context, key, owner string, ttl time.Duration) (has bool, err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "claim")
	defer func() { end(err) }()
	return s.Store.Claim(ctx, key, owner, ttl)
}

// ClaimAll implements coordination.Claims.
func (s shared) ClaimAll(
	ctx context.Context, keys []string, owner string, ttl time.Duration,
) (got []bool, err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "claim_all")
	defer func() { end(err) }()
	return s.Store.ClaimAll(ctx, keys, owner, ttl)
}

// Reserve implements coordination.Claims.
func (s shared) Reserve(
	ctx context.Context, endpoint string, requests, tokens, perMinute, tokensPerMinute int,
) (reserved coordination.Reserved, err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "reserve")
	defer func() { end(err) }()
	return s.Store.Reserve(ctx, endpoint, requests, tokens, perMinute, tokensPerMinute)
}

// Spend implements coordination.Runs.
func (s shared) Spend(
	ctx context.Context, run, worker string, value []byte,
) (control []byte, all map[string][]byte, err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "spend")
	defer func() { end(err) }()
	return s.Store.Spend(ctx, run, worker, value)
}

// SetState implements coordination.Runs.
func (s shared) SetState(ctx context.Context, run string, value []byte) (err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "set_state")
	defer func() { end(err) }()
	return s.Store.SetState(ctx, run, value)
}

// State implements coordination.Runs.
func (s shared) State(ctx context.Context, run string) (value []byte, err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "state")
	defer func() { end(err) }()
	return s.Store.State(ctx, run)
}

// Accounts implements coordination.Runs.
func (s shared) Accounts(ctx context.Context, run string) (all map[string][]byte, err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "accounts")
	defer func() { end(err) }()
	return s.Store.Accounts(ctx, run)
}

// Control implements coordination.Runs.
func (s shared) Control(ctx context.Context, run string) (value []byte, err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "control")
	defer func() { end(err) }()
	return s.Store.Control(ctx, run)
}

// Lease implements coordination.Readers.
func (s shared) Lease(ctx context.Context, index, generation, reader string, ttl time.Duration) (err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "lease")
	defer func() { end(err) }()
	return s.Store.Lease(ctx, index, generation, reader, ttl)
}

// LeaseAll implements coordination.Readers.
func (s shared) LeaseAll(
	ctx context.Context, held []coordination.Held, reader string, ttl time.Duration,
) (err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "lease_all")
	defer func() { end(err) }()
	return s.Store.LeaseAll(ctx, held, reader, ttl)
}

// Mirrors implements coordination.Readers.
func (s shared) Mirrors(ctx context.Context, known string) (version string, all map[string][]byte, err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "mirrors")
	defer func() { end(err) }()
	return s.Store.Mirrors(ctx, known)
}

// Mirrored implements coordination.Readers.
func (s shared) Mirrored(ctx context.Context, index string) (value []byte, err error) {
	ctx, end := s.observer.Store(ctx, Coordination, "mirrored")
	defer func() { end(err) }()
	return s.Store.Mirrored(ctx, index)
}
