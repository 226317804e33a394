package retrievetest

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Records is a store of class records in memory that can be asked to fail.
type Records struct {
	mu     sync.Mutex
	values map[string][]byte
	failed error
}

var _ records.Store = (*Records)(nil)

// Vectors is a store of vectors that can fail.
type Vectors struct {
	vectors.Store
	failed atomic.Pointer[error]
}

// Fail lets every search fail until it is called with nil.
func (v *Vectors) Fail(err error) { v.failed.Store(&err) }

// Search implements vectors.Store.
func (v *Vectors) Search(ctx context.Context, collection string, question []float32, n int) ([]vectors.Hit, error) {
	if failed := v.failed.Load(); failed != nil && *failed != nil {
		return nil, *failed
	}
	return v.Store.Search(ctx, collection, question, n)
}

// Unwrap gives the store itself.
func (v *Vectors) Unwrap() vectors.Store { return v.Store }

// NewRecords makes an empty one.
func NewRecords() *Records { return &Records{values: map[string][]byte{}} }

// Set stores a record.
func (r *Records) Set(key string, value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values[key] = value
}

// Fail lets every call fail until it is called with nil.
func (r *Records) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

// Lose forgets every record, as a server that was started again.
func (r *Records) Lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.values)
}

// PutRecords implements records.Store.
func (r *Records) PutRecords(_ context.Context, list []records.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range list {
		r.values[record.Key] = record.Value
	}
	return r.failed
}

// GetRecords implements records.Store.
func (r *Records) GetRecords(_ context.Context, keys []string) ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([][]byte, len(keys))
	for i, key := range keys {
		out[i] = r.values[key]
	}
	return out, r.failed
}

// DeleteRecords implements records.Store.
func (r *Records) DeleteRecords(_ context.Context, keys []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		delete(r.values, key)
	}
	return r.failed
}

// ScanRecords implements records.Store.
func (r *Records) ScanRecords(_ context.Context, prefix string, f func(keys []string) error) error {
	r.mu.Lock()
	var keys []string
	for key := range r.values {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	r.mu.Unlock()
	return f(keys)
}

// Identity implements records.Store.
func (r *Records) Identity(context.Context) (string, error) { return "memory", nil }

// RecordOwner implements records.Store.
func (r *Records) RecordOwner(context.Context, string) error { return nil }

// Ping implements records.Store.
func (r *Records) Ping(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Close implements records.Store.
func (r *Records) Close() error { return nil }

// Readers remembers leases and mirrors in memory.
type Readers struct {
	mu      sync.Mutex
	leases  map[string]time.Time // index/generation -> end
	mirrors map[string][]byte
	changes int
}

var _ coordination.Readers = (*Readers)(nil)

// NewReaders makes an empty one.
func NewReaders() *Readers {
	return &Readers{leases: map[string]time.Time{}, mirrors: map[string][]byte{}}
}

// Lease implements coordination.Readers.
func (r *Readers) Lease(_ context.Context, index, generation, _ string, ttl time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases[index+"/"+generation] = time.Now().Add(ttl)
	return nil
}

// LeaseAll implements coordination.Readers.
func (r *Readers) LeaseAll(ctx context.Context, held []coordination.Held, reader string, ttl time.Duration) error {
	for _, one := range held {
		if err := r.Lease(ctx, one.Index, one.Generation, reader, ttl); err != nil {
			return err
		}
	}
	return nil
}

// Forget drops every lease, as if their time had passed.
func (r *Readers) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.leases)
}

// ListLeased implements coordination.Readers.
func (r *Readers) ListLeased(_ context.Context, index string) (map[string]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]bool{}
	for key, end := range r.leases {
		if generation, ok := strings.CutPrefix(key, index+"/"); ok && time.Now().Before(end) {
			out[generation] = true
		}
	}
	return out, nil
}

// Mirror implements coordination.Readers.
func (r *Readers) Mirror(_ context.Context, index string, _ int64, pointer []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mirrors[index] = pointer
	r.changes++
	return nil
}

// ReadMirrors implements coordination.Readers.
func (r *Readers) ReadMirrors(_ context.Context, known string) (string, map[string][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	version := strconv.Itoa(r.changes)
	if version == known {
		return version, nil, nil
	}
	return version, maps.Clone(r.mirrors), nil
}

// ReadMirror implements coordination.Readers.
func (r *Readers) ReadMirror(_ context.Context, index string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mirrors[index], nil
}
