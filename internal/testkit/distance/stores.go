package distance

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// blobs is a distant blob store.
type blobs struct {
	blob.Store
	*Requests
}

// Blob puts a blob store at a distance.
func Blob(store blob.Store, requests *Requests) blob.Store { return blobs{store, requests} }

// IsVersioned implements blob.Versioned.
func (s blobs) IsVersioned() bool { return blob.IsVersioned(s.Store) }

// FollowLinks implements blob.Linked.
func (s blobs) FollowLinks() blob.Store {
	s.Store = blob.FollowLinks(s.Store)
	return s
}

// Put implements blob.Store.
func (s blobs) Put(ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond) (blob.Info, error) {
	kind := Put
	if cond != (blob.Cond{}) {
		kind = PutIf
	}
	if err := s.request(ctx, kind, PrefixOf(key)); err != nil {
		return blob.Info{}, err
	}
	return s.Store.Put(ctx, key, body, size, cond)
}

// Get implements blob.Store. What is waited for is the first byte.
func (s blobs) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	if err := s.request(ctx, Get, PrefixOf(key)); err != nil {
		return nil, blob.Info{}, err
	}
	return s.Store.Get(ctx, key, part)
}

// Stat implements blob.Store.
func (s blobs) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := s.request(ctx, Head, PrefixOf(key)); err != nil {
		return blob.Info{}, err
	}
	return s.Store.Stat(ctx, key)
}

// ReadTags implements blob.Tagged.
func (s blobs) ReadTags(ctx context.Context, key string) (map[string]string, error) {
	if err := s.request(ctx, "tags", PrefixOf(key)); err != nil {
		return nil, err
	}
	return blob.ReadTags(ctx, s.Store, key)
}

// List implements blob.Store.
func (s blobs) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return s.ListRange(ctx, prefix, after, "")
}

// ListRange implements blob.Store.
func (s blobs) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		if err := s.request(ctx, List, PrefixOf(prefix)); err != nil {
			yield(blob.Info{}, err)
			return
		}
		given := 0
		for info, err := range s.Store.ListRange(ctx, prefix, after, until) {
			if given++; err == nil && given > 1 && given%perRequest == 1 {
				err = s.request(ctx, List, PrefixOf(prefix))
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// ListFolders implements blob.Store.
func (s blobs) ListFolders(ctx context.Context) ([]string, error) {
	folders, err := s.Store.ListFolders(ctx)
	for range 1 + len(folders)/perRequest {
		if err := s.request(ctx, List, ""); err != nil {
			return nil, err
		}
	}
	return folders, err
}

// Delete implements blob.Store.
func (s blobs) Delete(ctx context.Context, key string) error {
	if err := s.request(ctx, Delete, PrefixOf(key)); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// DeleteAll implements blob.Store.
func (s blobs) DeleteAll(ctx context.Context, keys []string) error {
	for from := 0; from < len(keys); from += perRequest {
		if err := s.request(ctx, DeleteAll, PrefixOf(keys[from])); err != nil {
			return err
		}
	}
	return s.Store.DeleteAll(ctx, keys)
}

// claims is a distant coordination store, as far as paid calls and readers ask it.
type claims struct {
	coordination.Store
	*Requests
}

// Coordination puts a coordination store at a distance: claims, leases of readers and mirrors; the rest is as near as
// it was. Many claims take one request, as with Redis.
func Coordination(store coordination.Store, requests *Requests) coordination.Store {
	return claims{store, requests}
}

// Claim implements coordination.Claims.
func (s claims) Claim(ctx context.Context, key, owner string, ttl time.Duration) (bool, error) {
	if err := s.request(ctx, "claim", "coordination"); err != nil {
		return false, err
	}
	return s.Store.Claim(ctx, key, owner, ttl)
}

// Release implements coordination.Claims.
func (s claims) Release(ctx context.Context, key, owner string) error {
	if err := s.request(ctx, "release", "coordination"); err != nil {
		return err
	}
	return s.Store.Release(ctx, key, owner)
}

// ClaimAll claims many keys in one request.
func (s claims) ClaimAll(ctx context.Context, keys []string, owner string, ttl time.Duration) ([]bool, error) {
	if err := s.request(ctx, "claim", "coordination"); err != nil {
		return nil, err
	}
	return s.Store.ClaimAll(ctx, keys, owner, ttl)
}

// ReleaseAll gives many claims back in one request.
func (s claims) ReleaseAll(ctx context.Context, keys []string, owner string) error {
	if err := s.request(ctx, "release", "coordination"); err != nil {
		return err
	}
	return s.Store.ReleaseAll(ctx, keys, owner)
}

// Lease implements coordination.Readers.
func (s claims) Lease(ctx context.Context, held []coordination.Held, reader string, ttl time.Duration) error {
	if err := s.request(ctx, Put, "coordination/lease"); err != nil {
		return err
	}
	return s.Store.Lease(ctx, held, reader, ttl)
}

// ReadMirror implements coordination.Readers.
func (s claims) ReadMirror(ctx context.Context, index string) ([]byte, error) {
	if err := s.request(ctx, Get, "coordination/mirror"); err != nil {
		return nil, err
	}
	return s.Store.ReadMirror(ctx, index)
}

// ReadMirrors implements coordination.Readers.
func (s claims) ReadMirrors(ctx context.Context, known string) (string, map[string][]byte, error) {
	if err := s.request(ctx, Get, "coordination/mirrors"); err != nil {
		return "", nil, err
	}
	return s.Store.ReadMirrors(ctx, known)
}
