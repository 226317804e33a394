package collect

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// since is when something began to wait.
type since struct{ time.Time }

// condemned is condemned.json. Every change of it is a conditional write, so that of a collector and a build that
// re-uses what is condemned one sees the other.
type condemned struct {
	Format   int              `json:"format"`
	Since    map[string]since `json:"since"`              // "segment:<sha256>" or "collection:<name>"
	Deleting []string         `json:"deleting,omitempty"` // a batch whose deletes may have begun
}

// condemnedFormat is raised when a reader of the old format could misread the new one.
const condemnedFormat = 1

const (
	segmentEntry    = "segment:"
	collectionEntry = "collection:"
)

func condemnedKey(index artifact.Index) string { return index.Name + "/condemned.json" }

func readCondemned(ctx context.Context, index artifact.Index) (condemned, string, error) {
	list := condemned{Format: condemnedFormat, Since: map[string]since{}}
	raw, info, err := blob.Read(ctx, index.Store, condemnedKey(index))
	if fault.Is(err, fault.NotFound) {
		return list, "", nil
	}
	if err != nil {
		return list, "", err
	}
	var found condemned
	if err := json.Unmarshal(raw, &found); err == nil && found.Format == condemnedFormat {
		if found.Since != nil {
			list = found
		}
		list.Deleting = found.Deleting
	}
	return list, info.ETag, nil // one that cannot be read begins again: everything waits once more
}

// writeList stores the list in place of the version that tag names, and gives the new tag.
func (l condemned) writeList(ctx context.Context, index artifact.Index, tag string) (string, error) {
	cond := blob.Cond{Match: tag}
	if tag == "" {
		cond = blob.Cond{Absent: true}
	}
	info, err := blob.WriteJSON(ctx, index.Store, condemnedKey(index), l, cond)
	if fault.Is(err, fault.Precondition) {
		return "", overtakenFault(index.Name, "a build or another collector changed the list of the condemned")
	}
	return info.ETag, err
}

// entriesOf returns the things that a manifest names, itself among them.
func entriesOf(manifest *core.Manifest, sha string) []string {
	out := []string{
		segmentEntry + sha,
		collectionEntry + manifest.Collections.Classes, collectionEntry + manifest.Collections.Chunks,
	}
	for _, segment := range manifest.Segments.All() {
		out = append(out, segmentEntry+segment.SHA256)
	}
	return out
}

// collectSegments condemns what no manifest names, and deletes what has waited long enough.
func (c *collector) collectSegments(ctx context.Context) error {
	named := map[string]bool{}
	for _, gen := range c.listGenerations() {
		named[segmentEntry+gen.ref.Manifest] = true
		if gen.manifest != nil {
			for _, name := range entriesOf(gen.manifest, gen.ref.Manifest) {
				named[name] = true
			}
		}
	}
	list, tag, err := readCondemned(ctx, c.Artifacts)
	if err != nil {
		return err
	}
	before := maps.Clone(list.Since)
	if len(list.Deleting) > 0 { // of a collector that died
		if err := c.deleteDue(ctx, list.Deleting, named); err != nil {
			return err
		}
	}
	dead, err := c.listUnnamed(ctx, named)
	if err != nil {
		return err
	}
	due := c.condemnEntries(&list, dead)
	if len(due) == 0 && len(list.Deleting) == 0 && maps.Equal(before, list.Since) {
		return nil
	}
	for batch := range slices.Chunk(due, batchKeys) {
		list.Deleting = batch
		if tag, err = list.writeList(ctx, c.Artifacts, tag); err != nil {
			return err
		}
		if err := c.deleteDue(ctx, batch, nil); err != nil {
			return err
		}
	}
	list.Deleting = nil
	_, err = list.writeList(ctx, c.Artifacts, tag)
	return err
}

// condemnEntries takes what is dead into the list and gives what of it may be deleted now, which leaves the list.
func (c *collector) condemnEntries(list *condemned, dead []string) (due []string) {
	next := map[string]since{}
	for _, name := range dead {
		at, known := list.Since[name]
		if waited, ok := c.waited[name]; ok && (!known || waited.Before(at.Time)) {
			at, known = waited, true
		}
		switch {
		case c.Purged != nil:
			due = append(due, name)
			continue
		case !known || at.After(c.Now): // one from the future is of a clock that was wrong
			next[name] = since{c.Now.UTC()}
		case c.Now.Sub(at.Time) < c.Grace:
			next[name] = at
		default:
			due = append(due, name)
			continue
		}
		c.res.Condemned++
	}
	list.Since = next
	return due
}

// listUnnamed lists segments and collections that no manifest names.
func (c *collector) listUnnamed(ctx context.Context, named map[string]bool) ([]string, error) {
	var dead []string
	prefix := c.Artifacts.SegmentKey("") + "/"
	for info, err := range c.Artifacts.Store.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		if name := segmentEntry + strings.TrimPrefix(info.Key, prefix); !named[name] {
			dead = append(dead, name)
		}
	}
	all, err := c.Vectors.List(ctx, c.Collections)
	for _, collection := range all {
		if name := collectionEntry + collection; !named[name] {
			dead = append(dead, name)
		}
	}
	return dead, err
}

func (c *collector) deleteDue(ctx context.Context, names []string, named map[string]bool) error {
	n, err := deleteEntries(ctx, c.Artifacts, c.Vectors, names, named, c.newPermit(nil))
	c.res.Deleted += int64(n)
	c.countDone(n)
	return err
}

// deleteEntries deletes segments and collections, but those that are named.
func deleteEntries(
	ctx context.Context, index artifact.Index, store vectors.Store, names []string, named map[string]bool, permit Permit,
) (int, error) {
	var keys []string
	n := 0
	for _, name := range names {
		if named[name] {
			continue
		}
		n++
		if sha, ok := strings.CutPrefix(name, segmentEntry); ok {
			keys = append(keys, index.SegmentKey(sha))
			continue
		}
		if err := permit.checkPermit(ctx); err != nil {
			return 0, err
		}
		if err := store.Drop(ctx, strings.TrimPrefix(name, collectionEntry)); err != nil {
			return 0, err
		}
	}
	return n, permit.eraseKeys(ctx, index.Store, keys)
}

// Settle ends what a collector that died was deleting, so that what a build finds in the store from then on is there to
// stay. A build calls it when it has taken the lease, before it looks for segments. Where a generation cannot be read,
// so that what it names is not known, nothing is deleted: what is left of the batch stays, and is condemned again.
func Settle(ctx context.Context, index artifact.Index, store vectors.Store, permit Permit) error {
	list, tag, err := readCondemned(ctx, index)
	if err != nil || len(list.Deleting) == 0 {
		return err
	}
	named, known, err := namedNow(ctx, index)
	if err != nil {
		return err
	}
	if known {
		if _, err := deleteEntries(ctx, index, store, list.Deleting, named, permit); err != nil {
			return err
		}
	} else if err := permit.checkPermit(ctx); err != nil {
		return err
	}
	list.Deleting = nil
	_, err = list.writeList(ctx, index, tag)
	return err
}

// namedNow returns what the generations of an index, and of those that share its segments, name; not known where one of
// them cannot be read.
func namedNow(ctx context.Context, index artifact.Index) (named map[string]bool, known bool, err error) {
	family, err := index.FamilyRefs(ctx)
	if err != nil {
		return nil, false, unlessDamage(err)
	}
	named = map[string]bool{}
	for _, refs := range family {
		for _, ref := range refs {
			manifest, err := index.Manifest(ctx, ref.Manifest)
			if err != nil {
				return nil, false, unlessDamage(err)
			}
			for _, name := range entriesOf(manifest, ref.Manifest) {
				named[name] = true
			}
		}
	}
	return named, true, nil
}

func unlessDamage(err error) error {
	if artifact.IsDamage(err) {
		return nil
	}
	return err
}

// reclaimTries is how often a reclaim meets another writer of the list before it gives up.
const reclaimTries = 10

// statsAtOnce is how many objects are looked for at the same time.
const statsAtOnce = 16

// Reclaim takes segments and collections that a build is about to name off the list of the condemned, and gives the
// segments that cannot be had any more, because they were deleted. A build calls it right before it stores its
// manifest, with everything that the manifest names, and looks afterwards whether it still holds the lease: then no
// collector is deleting, and what is found of a batch that one began is there to stay.
func Reclaim(
	ctx context.Context, index artifact.Index, segments []string, collections ...string,
) (missing []string, err error) {
	for range reclaimTries {
		list, tag, err := readCondemned(ctx, index)
		if err != nil {
			return nil, err
		}
		there, gone, err := ofBatch(ctx, index, list.Deleting, segments)
		if err != nil {
			return nil, err
		}
		for _, collection := range collections { // that they are there was looked at
			there[collectionEntry+collection] = true
		}
		batch := len(list.Deleting) // what is gone stays in it, so that a repeated call says the same
		list.Deleting = slices.DeleteFunc(list.Deleting, func(name string) bool { return there[name] })
		found := len(list.Deleting) < batch
		take := func(name string) {
			if _, ok := list.Since[name]; ok {
				delete(list.Since, name)
				found = true
			}
		}
		for _, sha := range segments {
			take(segmentEntry + sha)
		}
		for _, collection := range collections {
			take(collectionEntry + collection)
		}
		if !found {
			return gone, nil
		}
		if _, err = list.writeList(ctx, index, tag); err == nil || !fault.Is(err, fault.GenBusy) {
			return gone, err
		}
	}
	return nil, overtakenFault(index.Name, "the list of the condemned changes all the time")
}

// ofBatch looks which of the segments that are in a batch of deletes are still there, and which are gone.
func ofBatch(
	ctx context.Context, index artifact.Index, batch, segments []string,
) (there map[string]bool, gone []string, err error) {
	var asked []string
	for _, sha := range segments {
		if slices.Contains(batch, segmentEntry+sha) {
			asked = append(asked, sha)
		}
	}
	found := make([]bool, len(asked))
	err = parallel.Each(ctx, len(asked), statsAtOnce, func(ctx context.Context, i int) error {
		_, err := index.Store.Stat(ctx, index.SegmentKey(asked[i]))
		found[i] = err == nil
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
	there = map[string]bool{}
	for i, sha := range asked {
		if found[i] {
			there[segmentEntry+sha] = true
		} else {
			gone = append(gone, sha)
		}
	}
	return there, gone, err
}
