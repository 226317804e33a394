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
	ctx, end := s.observer.BeginStore(ctx, Coordination, "claim")
	defer func() { end(err) }()
	return s.Store.Claim(ctx, key, owner, ttl)
}

// ClaimAll implements coordination.Claims.
func (s shared) ClaimAll(
	ctx context.Context, keys []string, owner string, ttl time.Duration,
) (got []bool, err error) {
	ctx, end := s.observer.BeginStore(ctx, Coordination, "claim_all")
	defer func() { end(err) }()
	return s.Store.ClaimAll(ctx, keys, owner, ttl)
}

// Reserve implements coordination.Claims.
func (s shared) Reserve(
	ctx context.Context, endpoint string, requests, tokens, perMinute, tokensPerMinute int,
) (reserved coordination.Reserved, err error) {
	ctx, end := s.observer.BeginStore(ctx, Coordination, "reserve")
	defer func() { end(err) }()
	return s.Store.Reserve(ctx, endpoint, requests, tokens, perMinute, tokensPerMinute)
}

// ExchangeAccount implements coordination.Runs.
func (s shared) ExchangeAccount(
	ctx context.Context, run, worker string, value []byte,
) (control []byte, all map[string][]byte, err error) {
	ctx, end := s.observer.BeginStore(ctx, Coordination, "spend")
	defer func() { end(err) }()
	return s.Store.ExchangeAccount(ctx, run, worker, value)
}

// SetState implements coordination.Runs.
func (s shared) SetState(ctx context.Context, run string, value []byte) (err error) {
	ctx, end := s.observer.BeginStore(ctx, Coordination, "set_state")
	defer func() { end(err) }()
	return s.Store.SetState(ctx, run, value)
}

// ReadState implements coordination.Runs.
func (s shared) ReadState(ctx context.Context, run string) (value []byte, err error) {
	ctx, end := s.observer.BeginStore(ctx, Coordination, "state")
	defer func() { end(err) }()
	return s.Store.ReadState(ctx, run)
}

// ReadAccounts implements coordination.Runs.
func (s shared) ReadAccounts(ctx context.Context, run string) (all map[string][]byte, err error) {
	ctx, end := s.observer.BeginStore(ctx, Coordination, "accounts")
	defer func() { end(err) }()
	return s.Store.ReadAccounts(ctx, run)
}

// ReadControl implements coordination.Runs.
func (s shared) ReadControl(ctx context.Context, run string) (value []byte, err error) {
	ctx, end := s.observer.BeginStore(ctx, Coordination, "control")
	defer func() { end(err) }()
	return s.Store.ReadControl(ctx, run)
}

// Lease implements coordination.Readers.
func (s shared) Lease(ctx context.Context, held []coordination.Held, reader string, ttl time.Duration) (err error) {
	ctx, end := s.observer.BeginStore(ctx, Coordination, "lease")
	defer func() { end(err) }()
	return s.Store.Lease(ctx, held, reader, ttl)
}

// ReadMirrors implements coordination.Readers.
func (s shared) ReadMirrors(ctx context.Context, known string) (version string, all map[string][]byte, err error) {
	ctx, end := s.observer.BeginStore(ctx, Coordination, "mirrors")
	defer func() { end(err) }()
	return s.Store.ReadMirrors(ctx, known)
}

// ReadMirror implements coordination.Readers.
func (s shared) ReadMirror(ctx context.Context, index string) (value []byte, err error) {
	ctx, end := s.observer.BeginStore(ctx, Coordination, "mirrored")
	defer func() { end(err) }()
	return s.Store.ReadMirror(ctx, index)
}

// TakeQuota implements coordination.Quotas.
func (s shared) TakeQuota(
	ctx context.Context, subject, id string, want, limit coordination.Use,
) (taken coordination.Taken, err error) {
	ctx, end := s.observer.BeginStore(ctx, Coordination, "take_quota")
	defer func() { end(err) }()
	return s.Store.TakeQuota(ctx, subject, id, want, limit)
}
