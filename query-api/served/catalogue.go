package served

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// listReads is how many pointers are read again for one list.
const listReads = 16

// ListPublished returns the indexes that the context's caller may know of, by name.
func (s *Set) ListPublished(ctx context.Context) ([]IndexInfo, error) {
	names, err := artifact.ListIndexes(ctx, s.Artifacts)
	if err == nil && len(names) == 0 { // empty, or missing
		_, err = artifact.StoreID(ctx, s.Artifacts)
	}
	if err != nil {
		return nil, err
	}
	caller := middleware.CallerOf(ctx)
	names = slices.DeleteFunc(names, func(name string) bool { return !caller.MayRead(name) })
	reread := s.findOutdated(names)
	found := make([]IndexInfo, len(names))
	if err := parallel.Each(ctx, len(names), listWidth, func(ctx context.Context, i int) (err error) {
		found[i], err = s.indexInfo(ctx, names[i], reread[names[i]])
		return err
	}); err != nil {
		return nil, err
	}
	for i := range found {
		found[i].HideCounts(caller.Readers())
	}
	return slices.DeleteFunc(found, func(info IndexInfo) bool { return info.Index == "" }), nil
}

// findOutdated chooses the indexes whose pointer is to be read again: those that were not published or the mirror has
// news, and of the others the ones that were not read for the longest time.
func (s *Set) findOutdated(names []string) map[string]bool {
	served, reread := s.listServed(), map[string]bool{}
	var old []due
	for _, name := range names {
		x := served[name]
		if x == nil || x.lastPointer().Manifest == "" {
			reread[name] = true
			continue
		}
		news, _, age, _ := x.checkFreshness()
		switch {
		case news:
			reread[name] = true
		case age >= pollEvery:
			old = append(old, due{name, x, age})
		}
	}
	slices.SortFunc(old, func(a, b due) int { return cmp.Compare(b.age, a.age) })
	for _, one := range old[:min(len(old), listReads)] {
		reread[one.name] = true
	}
	return reread
}

// indexInfo says what is published under a name, as it was read last or, again, as it is; nothing is no error, and no
// name. What cannot be read of one index is reported with it, and hides no other.
func (s *Set) indexInfo(ctx context.Context, name string, reread bool) (IndexInfo, error) {
	x := s.ensureIndex(name)
	var err error
	if reread {
		if err = s.readCurrent(ctx, name, x); !artifact.IsDamage(err) && x.isKnown() {
			err = nil // what was read last serves as well
		}
	}
	x.mu.Lock()
	pointer, damaged := x.published, x.damaged
	x.mu.Unlock()
	if err == nil {
		err = damaged
	}
	if err == nil && pointer.Manifest == "" {
		return IndexInfo{}, nil
	}
	if err == nil {
		if info := x.infoFor(pointer); info != nil {
			return *info, nil
		}
		var manifest *core.Manifest
		if manifest, err = (artifact.Index{Store: s.Artifacts, Name: name}).ManifestOf(ctx, pointer); err == nil {
			info := InfoOf(name, pointer, manifest)
			x.setInfo(pointer, &info)
			return info, nil
		}
	}
	if artifact.IsDamage(err) {
		return IndexInfo{Index: name, Generation: pointer.Generation, Release: pointer.Epoch, State: "damaged"}, nil
	}
	return IndexInfo{}, err
}

// infoFor returns what lists show of the generation that a pointer names, where it is known.
func (x *index) infoFor(pointer core.Pointer) *IndexInfo {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.info == nil || x.informed != pointer {
		return nil
	}
	return x.info
}

func (x *index) setInfo(pointer core.Pointer, info *IndexInfo) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.info, x.informed = info, pointer
}

// IndexInfo is one index of the list.
type IndexInfo struct {
	Index       string            `json:"index"`
	State       string            `json:"state" enum:"published,damaged" doc:"damaged: the index cannot be read"`
	Generation  string            `json:"generation"`
	Release     int64             `json:"release" doc:"number of the publication; rollbacks count too"`
	Documents   int64             `json:"documents"`
	Chunks      int64             `json:"chunks"`
	Classes     int64             `json:"classes"`
	ContentHash string            `json:"content_hash"`
	Models      core.ModelSummary `json:"models"`
	Enriched    []string          `json:"enriched,omitempty" doc:"enrichments of its generation, such as gem (themes)"`
	Analyser    string            `json:"analyser,omitempty" doc:"its language, and the version of its word rules"`
	Created     time.Time         `json:"created,omitzero" doc:"when its generation was built; absent if damaged"`

	labelled bool // its documents have labels
}

// HideCounts leaves out what tells of documents that a caller may not read, where these have labels.
func (i *IndexInfo) HideCounts(readers core.Readers) bool {
	if !i.labelled || readers.All {
		return false
	}
	i.Documents, i.Chunks, i.Classes, i.ContentHash = 0, 0, 0, ""
	return true
}

// InfoOf returns what lists show of a generation that a pointer names.
func InfoOf(name string, pointer core.Pointer, manifest *core.Manifest) IndexInfo {
	var enriched []string
	for _, one := range manifest.Enriched {
		enriched = append(enriched, one.Name)
	}
	return IndexInfo{
		labelled:    manifest.Labelled,
		Enriched:    enriched,
		Index:       name,
		State:       "published",
		Generation:  pointer.Generation,
		Release:     pointer.Epoch,
		Documents:   manifest.Counts.Documents,
		Chunks:      manifest.Counts.Chunks,
		Classes:     manifest.Counts.Classes,
		ContentHash: manifest.Hashes.Content.Digest().String(),
		Models:      manifest.Models,
		Analyser:    manifest.Made.Analyser,
		Created:     manifest.Created,
	}
}
