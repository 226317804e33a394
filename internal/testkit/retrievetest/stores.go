package retrievetest

import (
	"context"
	"sync/atomic"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
)

// Records is a store of class records in memory that can be asked to fail.
type Records struct {
	*recordsmemory.Store
	failed atomic.Pointer[error]
}

// NewRecords makes an empty one.
func NewRecords() *Records { return &Records{Store: recordsmemory.New()} }

// Fail lets every read fail until it is called with nil.
func (r *Records) Fail(err error) { r.failed.Store(&err) }

// GetRecords implements records.Store.
func (r *Records) GetRecords(ctx context.Context, keys []string) ([][]byte, error) {
	if failed := r.failed.Load(); failed != nil && *failed != nil {
		return nil, *failed
	}
	return r.Store.GetRecords(ctx, keys)
}

// Ping implements records.Store.
func (r *Records) Ping(ctx context.Context) error {
	_, err := r.GetRecords(ctx, nil)
	return err
}

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
