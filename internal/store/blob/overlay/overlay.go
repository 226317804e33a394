// Package overlay is a blob store that reads one store and writes another: what is written hides what lies below, and
// what lies below never changes. An estimate runs real stages over it and takes nothing.
package overlay

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Store is the overlay. Deletions reach the upper store only.
type Store struct{ lower, upper blob.Store }

var _ blob.Store = Store{}

// New lays upper over lower, which is only read.
func New(lower, upper blob.Store) Store { return Store{lower, upper} }

// above marks the tags of the upper store: two stores may use one tag for different contents.
const above = "above-"

func markAbove(info blob.Info) blob.Info {
	info.ETag = above + info.ETag
	return info
}

// Get implements blob.Store.
func (s Store) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	tag, ours := strings.CutPrefix(part.Match, above)
	if part.Match != "" && !ours {
		if _, err := s.upper.Stat(ctx, key); err == nil {
			return nil, blob.Info{}, fault.Precondition.At("read", s.Location(key))
		}
		return s.lower.Get(ctx, key, part)
	}
	wanted := part
	wanted.Match = tag
	body, info, err := s.upper.Get(ctx, key, wanted)
	if fault.Is(err, fault.NotFound) {
		return s.lower.Get(ctx, key, part)
	}
	return body, markAbove(info), err
}

// Stat implements blob.Store.
func (s Store) Stat(ctx context.Context, key string) (blob.Info, error) {
	info, err := s.upper.Stat(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return s.lower.Stat(ctx, key)
	}
	return markAbove(info), err
}

// Put implements blob.Store: conditions are held to what is seen. The upper store holds them to what others write
// meanwhile: what lies below alone must not have been written by others.
func (s Store) Put(ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond) (blob.Info, error) {
	if cond != (blob.Cond{}) {
		seen, err := s.Stat(ctx, key)
		switch {
		case err != nil && !fault.Is(err, fault.NotFound):
			return blob.Info{}, err
		case err == nil && cond.Absent, cond.Match != "" && (err != nil || seen.ETag != cond.Match):
			return blob.Info{}, fault.Precondition.At("write", s.Location(key))
		}
		if tag, ours := strings.CutPrefix(cond.Match, above); ours {
			cond = blob.Cond{Match: tag}
		} else {
			cond = blob.Cond{Absent: true}
		}
	}
	info, err := s.upper.Put(ctx, key, body, size, cond)
	return markAbove(info), err
}

// List implements blob.Store.
func (s Store) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return s.ListRange(ctx, prefix, after, "")
}

// ListRange implements blob.Store: both stores in one order, the upper one's objects where both have a key.
func (s Store) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		next, stop := iter.Pull2(s.upper.ListRange(ctx, prefix, after, until))
		defer stop()
		top, topErr, more := next()
		for below, err := range s.lower.ListRange(ctx, prefix, after, until) {
			if err != nil {
				yield(below, err)
				return
			}
			for more && topErr == nil && top.Key < below.Key {
				if !yield(markAbove(top), nil) {
					return
				}
				top, topErr, more = next()
			}
			if more && topErr == nil && top.Key == below.Key {
				below = markAbove(top)
				top, topErr, more = next()
			}
			if !yield(below, nil) {
				return
			}
		}
		for more && topErr == nil {
			if !yield(markAbove(top), nil) {
				return
			}
			top, topErr, more = next()
		}
		if more {
			yield(top, topErr)
		}
	}
}

// ListFolders implements blob.Store.
func (s Store) ListFolders(ctx context.Context) ([]string, error) { return blob.FoldersOf(ctx, s.List) }

// Delete implements blob.Store for what was written here.
func (s Store) Delete(ctx context.Context, key string) error { return s.upper.Delete(ctx, key) }

// DeleteAll implements blob.Store for what was written here.
func (s Store) DeleteAll(ctx context.Context, keys []string) error {
	return s.upper.DeleteAll(ctx, keys)
}

// Location implements blob.Store.
func (s Store) Location(key string) string { return s.lower.Location(key) }
