package artifacttest

import (
	"context"
	"io"
	"iter"

	"github.com/unweaver/unweaver/internal/store/blob"
)

// Around is a store whose calls a function does, or does not: what it returns is the error of the call. Key is the
// first of a batch of deletes, and the prefix of a list, which follows the call.
type Around struct {
	blob.Store
	Do func(ctx context.Context, op Op, key string, call func() error) error
}

// Put implements blob.Store.
func (a Around) Put(
	ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond,
) (info blob.Info, err error) {
	err = a.Do(ctx, Put, key, func() error {
		info, err = a.Store.Put(ctx, key, body, size, cond)
		return err
	})
	return info, err
}

// Get implements blob.Store.
func (a Around) Get(ctx context.Context, key string, part blob.Range) (body io.ReadCloser, info blob.Info, err error) {
	err = a.Do(ctx, Get, key, func() error {
		body, info, err = a.Store.Get(ctx, key, part)
		return err
	})
	return body, info, err
}

// Stat implements blob.Store.
func (a Around) Stat(ctx context.Context, key string) (info blob.Info, err error) {
	err = a.Do(ctx, Stat, key, func() error {
		info, err = a.Store.Stat(ctx, key)
		return err
	})
	return info, err
}

// List implements blob.Store.
func (a Around) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return a.ListRange(ctx, prefix, after, "")
}

// ListRange implements blob.Store.
func (a Around) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	if err := a.Do(ctx, List, prefix, func() error { return nil }); err != nil {
		return func(yield func(blob.Info, error) bool) { yield(blob.Info{}, err) }
	}
	return a.Store.ListRange(ctx, prefix, after, until)
}

// Delete implements blob.Store.
func (a Around) Delete(ctx context.Context, key string) error {
	return a.Do(ctx, Delete, key, func() error { return a.Store.Delete(ctx, key) })
}

// DeleteAll implements blob.Store.
func (a Around) DeleteAll(ctx context.Context, keys []string) error {
	return a.Do(ctx, Delete, append(keys, "")[0], func() error { return a.Store.DeleteAll(ctx, keys) })
}
