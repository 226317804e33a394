// Package memory is the coordination adapter of one process: nothing outlives it.
package memory

import (
	"bytes"
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Store implements coordination.Store. Values are copied on their way in and out.
type Store struct {
	*Claims
	*Fleet
	*Quotas
	mu      sync.Mutex
	runs    map[string]*run
	leases  map[lease]time.Time // when they end
	mirrors map[string][]byte
	changes int // of mirrors
}

type run struct {
	progress, problems, accounts map[string][]byte
	state, control               []byte
}

type lease struct{ index, generation, reader string }

var _ coordination.Store = (*Store)(nil)

// New makes an empty store.
func New() *Store {
	return &Store{
		Claims: NewClaims(), Fleet: NewFleet(), Quotas: NewQuotas(nil),
		runs: map[string]*run{}, leases: map[lease]time.Time{}, mirrors: map[string][]byte{},
	}
}

// Close implements coordination.Store.
func (s *Store) Close() error { return nil }

// withRun calls f for a run, which is made where there is none.
func (s *Store) withRun(id string, f func(r *run)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[id] == nil {
		s.runs[id] = &run{progress: map[string][]byte{}, problems: map[string][]byte{}, accounts: map[string][]byte{}}
	}
	f(s.runs[id])
}

// copyValue returns a value as a store keeps it: an empty one is there, unlike nil.
func copyValue(value []byte) []byte { return append([]byte{}, value...) }

func copyFields(from map[string][]byte) map[string][]byte {
	out := make(map[string][]byte, len(from))
	for field, value := range from {
		out[field] = copyValue(value)
	}
	return out
}

// SetProgress implements coordination.Runs.
func (s *Store) SetProgress(_ context.Context, id, field string, value []byte) error {
	s.withRun(id, func(r *run) { r.progress[field] = copyValue(value) })
	return nil
}

// ReadProgress implements coordination.Runs.
func (s *Store) ReadProgress(_ context.Context, id string) (out map[string][]byte, err error) {
	s.withRun(id, func(r *run) { out = copyFields(r.progress) })
	return out, nil
}

// SetProblem implements coordination.Runs.
func (s *Store) SetProblem(_ context.Context, id, key string, value []byte) error {
	s.withRun(id, func(r *run) {
		if r.problems[key] = copyValue(value); value == nil {
			delete(r.problems, key)
		}
	})
	return nil
}

// ReadProblems implements coordination.Runs.
func (s *Store) ReadProblems(_ context.Context, id string) (out map[string][]byte, err error) {
	s.withRun(id, func(r *run) { out = copyFields(r.problems) })
	return out, nil
}

// SetAccount implements coordination.Runs.
func (s *Store) SetAccount(ctx context.Context, id, worker string, value []byte) error {
	_, _, err := s.ExchangeAccount(ctx, id, worker, value)
	return err
}

// ReadAccounts implements coordination.Runs.
func (s *Store) ReadAccounts(_ context.Context, id string) (out map[string][]byte, err error) {
	s.withRun(id, func(r *run) { out = copyFields(r.accounts) })
	return out, nil
}

// ExchangeAccount implements coordination.Runs.
func (s *Store) ExchangeAccount(
	_ context.Context, id, worker string, value []byte,
) (control []byte, all map[string][]byte, err error) {
	s.withRun(id, func(r *run) {
		r.accounts[worker] = copyValue(value)
		control, all = bytes.Clone(r.control), copyFields(r.accounts)
	})
	return control, all, nil
}

// SetState implements coordination.Runs.
func (s *Store) SetState(_ context.Context, id string, value []byte) error {
	s.withRun(id, func(r *run) { r.state = copyValue(value) })
	return nil
}

// ReadState implements coordination.Runs.
func (s *Store) ReadState(_ context.Context, id string) (out []byte, err error) {
	s.withRun(id, func(r *run) { out = bytes.Clone(r.state) })
	return out, nil
}

// SetControl implements coordination.Runs.
func (s *Store) SetControl(_ context.Context, id string, value []byte) error {
	s.withRun(id, func(r *run) { r.control = copyValue(value) })
	return nil
}

// ReadControl implements coordination.Runs.
func (s *Store) ReadControl(_ context.Context, id string) (out []byte, err error) {
	s.withRun(id, func(r *run) { out = bytes.Clone(r.control) })
	return out, nil
}

// ForgetRun implements coordination.Runs.
func (s *Store) ForgetRun(_ context.Context, id string) error {
	s.withRun(id, func(r *run) {
		clear(r.progress)
		clear(r.problems)
		clear(r.accounts)
		r.control = nil
	})
	return nil
}

// ForgetIndex implements coordination.Runs.
func (s *Store) ForgetIndex(_ context.Context, index string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.runs, func(id string, _ *run) bool { return coordination.RunOf(id, index) })
	maps.DeleteFunc(s.leases, func(held lease, _ time.Time) bool { return held.index == index })
	delete(s.mirrors, index)
	s.changes++
	return nil
}

// Lease implements coordination.Readers.
func (s *Store) Lease(ctx context.Context, index, generation, reader string, ttl time.Duration) error {
	return s.LeaseAll(ctx, []coordination.Held{{Index: index, Generation: generation}}, reader, ttl)
}

// LeaseAll implements coordination.Readers.
func (s *Store) LeaseAll(_ context.Context, held []coordination.Held, reader string, ttl time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range held {
		s.leases[lease{one.Index, one.Generation, reader}] = time.Now().Add(ttl)
	}
	return nil
}

// ListLeased implements coordination.Readers.
func (s *Store) ListLeased(_ context.Context, index string) (map[string]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]bool{}
	for held, until := range s.leases {
		if held.index == index && until.After(time.Now()) {
			out[held.generation] = true
		}
	}
	return out, nil
}

// Mirror implements coordination.Readers.
func (s *Store) Mirror(_ context.Context, index string, _ int64, pointer []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mirrors[index] = copyValue(pointer)
	s.changes++
	return nil
}

// ReadMirrors implements coordination.Readers.
func (s *Store) ReadMirrors(_ context.Context, known string) (string, map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := strconv.Itoa(s.changes)
	if version == known {
		return version, nil, nil
	}
	return version, copyFields(s.mirrors), nil
}

// ReadMirror implements coordination.Readers.
func (s *Store) ReadMirror(_ context.Context, index string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.mirrors[index]), nil
}
