package observe

import (
	"context"
	"io"
	"iter"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// blobs is an observed store of objects.
type blobs struct {
	blob.Store
	observer Observer
	name     string
}

// Blob puts an observer around a store of objects; nil stays nil.
func Blob(store blob.Store, name string, observer Observer) blob.Store {
	if store == nil || observer == nil {
		return store
	}
	return blobs{store, observer, name}
}

// IsVersioned implements blob.Versioned.
func (b blobs) IsVersioned() bool { return blob.IsVersioned(b.Store) }

// FollowLinks implements blob.Linked.
func (b blobs) FollowLinks() blob.Store {
	b.Store = blob.FollowLinks(b.Store)
	return b
}

// Unwrap gives the store below, for blob.Beneath.
func (b blobs) Unwrap() blob.Store { return b.Store }

// CopyFrom implements blob.Copier: a copy by the server is one operation of it, and what it cannot do is none.
func (b blobs) CopyFrom(ctx context.Context, key string, from blob.Store, source string) (done bool, err error) {
	copier, ok := b.Store.(blob.Copier)
	if !ok {
		return false, nil
	}
	ctx, end := b.observer.BeginStore(ctx, b.name, "copy")
	defer func() { end(err) }()
	return copier.CopyFrom(ctx, key, from, source)
}

// ReadTags implements blob.Tagged.
func (b blobs) ReadTags(ctx context.Context, key string) (tags map[string]string, err error) {
	ctx, end := b.observer.BeginStore(ctx, b.name, "tags")
	defer func() { end(err) }()
	return blob.ReadTags(ctx, b.Store, key)
}

// Put implements blob.Store.
func (b blobs) Put(
	ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond,
) (info blob.Info, err error) {
	ctx, end := b.observer.BeginStore(ctx, b.name, "put")
	defer func() { end(err) }()
	return b.Store.Put(ctx, key, body, size, cond)
}

// Get implements blob.Store. It is over when the store answers: how fast the body is read is its reader's affair.
func (b blobs) Get(ctx context.Context, key string, part blob.Range) (body io.ReadCloser, info blob.Info, err error) {
	ctx, end := b.observer.BeginStore(ctx, b.name, "get")
	defer func() { end(err) }()
	return b.Store.Get(ctx, key, part)
}

// Stat implements blob.Store.
func (b blobs) Stat(ctx context.Context, key string) (info blob.Info, err error) {
	ctx, end := b.observer.BeginStore(ctx, b.name, "stat")
	defer func() { end(err) }()
	return b.Store.Stat(ctx, key)
}

// List implements blob.Store.
func (b blobs) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return b.ListRange(ctx, prefix, after, "")
}

// ListRange implements blob.Store. It is over with the first object, for the reason of Get.
func (b blobs) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		ctx, end := b.observer.BeginStore(ctx, b.name, "list")
		ended := false
		tell := func(err error) {
			if !ended {
				ended = true
				end(err)
			}
		}
		for info, err := range b.Store.ListRange(ctx, prefix, after, until) {
			tell(err)
			if !yield(info, err) {
				return
			}
		}
		tell(nil)
	}
}

// ListFolders implements blob.Store.
func (b blobs) ListFolders(ctx context.Context) (names []string, err error) {
	ctx, end := b.observer.BeginStore(ctx, b.name, "folders")
	defer func() { end(err) }()
	return b.Store.ListFolders(ctx)
}

// Delete implements blob.Store.
func (b blobs) Delete(ctx context.Context, key string) (err error) {
	ctx, end := b.observer.BeginStore(ctx, b.name, "delete")
	defer func() { end(err) }()
	return b.Store.Delete(ctx, key)
}

// DeleteAll implements blob.Store.
func (b blobs) DeleteAll(ctx context.Context, keys []string) (err error) {
	ctx, end := b.observer.BeginStore(ctx, b.name, "delete_all")
	defer func() { end(err) }()
	return b.Store.DeleteAll(ctx, keys)
}

// classRecords is an observed store of class records.
type classRecords struct {
	records.Store
	observer Observer
}

// Unwrap gives the store below, for core.FindBelow.
func (r classRecords) Unwrap() records.Store { return r.Store }

// OfRecords puts an observer around a store of class records; nil stays nil.
func OfRecords(store records.Store, observer Observer) records.Store {
	if store == nil || observer == nil {
		return store
	}
	return classRecords{store, observer}
}

// PutRecords implements records.Store.
func (r classRecords) PutRecords(ctx context.Context, rows []records.Record) (err error) {
	ctx, end := r.observer.BeginStore(ctx, Records, "put")
	defer func() { end(err) }()
	return r.Store.PutRecords(ctx, rows)
}

// GetRecords implements records.Store.
func (r classRecords) GetRecords(ctx context.Context, keys []string) (values [][]byte, err error) {
	ctx, end := r.observer.BeginStore(ctx, Records, "get")
	defer func() { end(err) }()
	return r.Store.GetRecords(ctx, keys)
}

// DeleteRecords implements records.Store.
func (r classRecords) DeleteRecords(ctx context.Context, keys []string) (err error) {
	ctx, end := r.observer.BeginStore(ctx, Records, "delete")
	defer func() { end(err) }()
	return r.Store.DeleteRecords(ctx, keys)
}

// Ping implements records.Store.
func (r classRecords) Ping(ctx context.Context) (err error) {
	ctx, end := r.observer.BeginStore(ctx, Records, "ping")
	defer func() { end(err) }()
	return r.Store.Ping(ctx)
}

// vectorStore is an observed vector store.
type vectorStore struct {
	vectors.Store
	observer Observer
}

// OfVectors puts an observer around a vector store; nil stays nil. What vectors.As finds below it is not observed.
func OfVectors(store vectors.Store, observer Observer) vectors.Store {
	if store == nil || observer == nil {
		return store
	}
	return vectorStore{store, observer}
}

// Unwrap gives the store below, for vectors.As.
func (v vectorStore) Unwrap() vectors.Store { return v.Store }

// Create implements vectors.Store.
func (v vectorStore) Create(ctx context.Context, collection string, dim int) (err error) {
	ctx, end := v.observer.BeginStore(ctx, Vectors, "create")
	defer func() { end(err) }()
	return v.Store.Create(ctx, collection, dim)
}

// Upsert implements vectors.Store.
func (v vectorStore) Upsert(ctx context.Context, collection string, rows []vectors.Row) (err error) {
	ctx, end := v.observer.BeginStore(ctx, Vectors, "upsert")
	defer func() { end(err) }()
	return v.Store.Upsert(ctx, collection, rows)
}

// Has implements vectors.Store.
func (v vectorStore) Has(ctx context.Context, collection string, keys []string) (found []bool, err error) {
	ctx, end := v.observer.BeginStore(ctx, Vectors, "has")
	defer func() { end(err) }()
	return v.Store.Has(ctx, collection, keys)
}

// Fetch implements vectors.Store.
func (v vectorStore) Fetch(ctx context.Context, collection string, keys []string) (found [][]float32, err error) {
	ctx, end := v.observer.BeginStore(ctx, Vectors, "fetch")
	defer func() { end(err) }()
	return v.Store.Fetch(ctx, collection, keys)
}

// Count implements vectors.Store.
func (v vectorStore) Count(ctx context.Context, collection string) (rows int64, err error) {
	ctx, end := v.observer.BeginStore(ctx, Vectors, "count")
	defer func() { end(err) }()
	return v.Store.Count(ctx, collection)
}

// Load implements vectors.Store.
func (v vectorStore) Load(ctx context.Context, collection string) (err error) {
	ctx, end := v.observer.BeginStore(ctx, Vectors, "load")
	defer func() { end(err) }()
	return v.Store.Load(ctx, collection)
}

// Search implements vectors.Store.
func (v vectorStore) Search(
	ctx context.Context, collection string, question []float32, n int,
) (hits []vectors.Hit, err error) {
	ctx, end := v.observer.BeginStore(ctx, Vectors, "search")
	defer func() { end(err) }()
	return v.Store.Search(ctx, collection, question, n)
}

// Delete implements vectors.Store.
func (v vectorStore) Delete(ctx context.Context, collection string, keys []string) (err error) {
	ctx, end := v.observer.BeginStore(ctx, Vectors, "delete")
	defer func() { end(err) }()
	return v.Store.Delete(ctx, collection, keys)
}

// Ping implements vectors.Store.
func (v vectorStore) Ping(ctx context.Context) (err error) {
	ctx, end := v.observer.BeginStore(ctx, Vectors, "ping")
	defer func() { end(err) }()
	return v.Store.Ping(ctx)
}
