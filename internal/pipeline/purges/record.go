// Package purges records which documents must be erased from an index, and finds everything that was made from them.
//
// A purge is a record in the artifacts. From then on every run of the index does its part: plan leaves the documents
// out, segments that hold anything of them are written again, and collect deletes what is left. A process may die
// anywhere; the next run goes on.
//
//	<index>/purges/<id>.json     the record: core.Purge. It stays, as later builds leave out what it names
//	<index>/purges/<id>.traces   what is looked for: digests alone, removed with the last of what they lead to
package purges

import (
	"context"
	"crypto/rand"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	folder       = "/purges/"
	recordEnding = ".json"
	traceEnding  = ".traces"
	readAtOnce   = 16
)

func recordKey(index artifact.Index, id string) string {
	return index.Name + folder + id + recordEnding
}

// TracesKey returns where the traces of a purge lie.
func TracesKey(index artifact.Index, id string) string { return index.Name + folder + id + traceEnding }

// List gives all purges of an index, in the order in which they were asked for.
func List(ctx context.Context, index artifact.Index) ([]core.Purge, error) {
	if err := index.Check(); err != nil {
		return nil, err
	}
	var keys []string
	for info, err := range index.Store.List(ctx, index.Name+folder, "") {
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(info.Key, recordEnding) {
			keys = append(keys, info.Key)
		}
	}
	slices.Sort(keys)
	out := make([]core.Purge, len(keys))
	err := parallel.Each(ctx, len(keys), readAtOnce, func(ctx context.Context, i int) error {
		_, err := blob.ReadJSON(ctx, index.Store, keys[i], &out[i])
		if err == nil && (out[i].ID != strings.TrimSuffix(path.Base(keys[i]), recordEnding) || len(out[i].Documents) == 0) {
			err = fault.SegmentDamage.At("read purge", index.Store.Location(keys[i])).
				Because("the record names no document").
				Advise("restore the record from a backup: without it, purged documents would return")
		}
		return err
	})
	return out, err
}

// Begin writes a purge. Of one that is pending for the same documents it gives that, and changes nothing but that it
// may return no more, or again.
func Begin(ctx context.Context, index artifact.Index, wish core.Purge) (core.Purge, error) {
	slices.SortFunc(wish.Documents, func(a, b core.Digest) int { return slices.Compare(a[:], b[:]) })
	wish.Documents = slices.Compact(wish.Documents)
	all, err := List(ctx, index)
	if err != nil {
		return wish, err
	}
	for _, old := range all {
		if old.State != core.PurgePending || !slices.Equal(old.Documents, wish.Documents) {
			continue
		}
		if old.Return != wish.Return {
			old.Return = wish.Return
			err = Write(ctx, index, old)
		}
		return old, err
	}
	wish.At = wish.At.UTC()
	wish.ID = strings.ToLower(wish.At.Format("20060102T150405.000000Z") + "-" + rand.Text()[:6])
	wish.Index, wish.State = index.Name, core.PurgePending
	_, err = blob.WriteJSON(ctx, index.Store, recordKey(index, wish.ID), wish, blob.Cond{Absent: true})
	return wish, err
}

// Write stores how a purge stands.
func Write(ctx context.Context, index artifact.Index, purge core.Purge) error {
	_, err := blob.WriteJSON(ctx, index.Store, recordKey(index, purge.ID), purge, blob.Cond{})
	return err
}

// Allow lets documents return that were purged: their purges name them no more. It gives how many it let. Those that
// are pending go on, and let them return once they are done.
func Allow(ctx context.Context, index artifact.Index, documents []string) (int, error) {
	all, err := List(ctx, index)
	if err != nil {
		return 0, err
	}
	wanted := SetOf(index.Name, documents)
	allowed := 0
	for _, one := range all {
		if one.Return || !slices.ContainsFunc(one.Documents, func(digest core.Digest) bool { return wanted.Keys[digest] }) {
			continue
		}
		for _, digest := range one.Documents {
			if !wanted.Keys[digest] && !slices.Contains(one.Attached, digest) {
				return allowed, fault.Usage.At("let documents return that were purged by", one.ID).
					Because("it was purged together with other documents").
					Advise("name all documents of that purge")
			}
		}
		one.Return = true
		if err := Write(ctx, index, one); err != nil {
			return allowed, err
		}
		allowed++
	}
	return allowed, nil
}

// Set is a set of documents by the digests of their keys. The zero value has none.
type Set struct {
	Index string               `json:"index"`
	Keys  map[core.Digest]bool `json:"keys"`

	named bool // by a person: what is attached to them is meant too
}

// SetOf returns the set of documents of an index.
func SetOf(index string, documents []string) Set {
	out := Set{Index: index, Keys: map[core.Digest]bool{}, named: true}
	for _, document := range documents {
		out.Keys[core.PurgedKey(index, document)] = true
	}
	return out
}

// Has reports whether a document is in the set.
func (s Set) Has(document string) bool {
	return len(s.Keys) > 0 && s.Keys[core.PurgedKey(s.Index, document)]
}

// isAttached reports whether a document may be attached to one that a person named.
func (s Set) isAttached(document string) bool {
	holder, _, within := strings.Cut(document, "#")
	return within && s.named && s.Has(holder)
}

// ListDigests returns those of its documents, in order.
func (s Set) ListDigests() []core.Digest {
	out := slices.Collect(maps.Keys(s.Keys))
	slices.SortFunc(out, func(a, b core.Digest) int { return slices.Compare(a[:], b[:]) })
	return out
}

// IsIn reports whether a generation has one of the documents, even a dead one. alive is called between its segments.
func (s Set) IsIn(ctx context.Context, index artifact.Index, manifest *core.Manifest, alive func()) (bool, error) {
	for _, segment := range manifest.Segments.Documents {
		for row, err := range artifact.ScanAll(ctx, index.Store, index.SegmentKey(segment.SHA256)) {
			if err != nil || s.Has(string(row.Key)) {
				return err == nil, err
			}
		}
		alive()
	}
	return false, nil
}

// IsEmpty reports whether it has none.
func (s Set) IsEmpty() bool { return len(s.Keys) == 0 }

func (s *Set) addKeys(index string, digests []core.Digest) {
	if s.Keys == nil {
		s.Index, s.Keys = index, map[core.Digest]bool{}
	}
	for _, digest := range digests {
		s.Keys[digest] = true
	}
}

// ListExcluded returns the documents that a run leaves out: those of purges that are pending, and of others those that
// must not return. Pending are the purges that are to be gone on with.
func ListExcluded(all []core.Purge) (excluded, pending Set) {
	for _, one := range all {
		if one.State == core.PurgePending {
			pending.addKeys(one.Index, one.Documents)
		}
		if one.State == core.PurgePending || !one.Return {
			excluded.addKeys(one.Index, one.Documents)
		}
	}
	return excluded, pending
}
