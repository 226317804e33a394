package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// listReads is how many pointers are read again for one list.
const listReads = 16

// listIndexes answers from what the watcher knows, for one listing of folders and at most listReads pointers, those
// that were not read for the longest time. What is new here is read once, as is what is damaged.
func (s *Server) listIndexes(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
	defer cancel()
	found, err := s.listPublished(ctx)
	var out Indexes
	if err == nil {
		out.Items, out.NextCursor, err = namedPage(request, found, func(info IndexInfo) string { return info.Index })
	}
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	s.writeTagged(w, request, out)
}

// listPublished returns the indexes that the context's caller may know of, by name.
func (s *Server) listPublished(ctx context.Context) ([]IndexInfo, error) {
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
		found[i].hideCounts(caller.Readers())
	}
	return slices.DeleteFunc(found, func(info IndexInfo) bool { return info.Index == "" }), nil
}

// findOutdated chooses the indexes whose pointer is to be read again: those of which nothing is known or the mirror has
// news, and of the others the ones that were not read for the longest time.
func (s *Server) findOutdated(names []string) map[string]bool {
	served, reread := s.listServed(), map[string]bool{}
	var old []due
	for _, name := range names {
		x := served[name]
		if x == nil || !x.isKnown() {
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

// indexInfo says what is published under a name; nothing is no error, and no name. What cannot be read of one index is
// reported with it, and hides no other.
func (s *Server) indexInfo(ctx context.Context, name string, reread bool) (IndexInfo, error) {
	pointer, err := s.standingOf(ctx, name, reread)
	if err == nil && pointer.Manifest == "" {
		return IndexInfo{}, nil
	}
	if err == nil {
		x := s.ensureIndex(name)
		if info := x.infoFor(pointer); info != nil {
			return *info, nil
		}
		var manifest *core.Manifest
		if manifest, err = (artifact.Index{Store: s.Artifacts, Name: name}).ManifestOf(ctx, pointer); err == nil {
			info := infoOf(name, pointer, manifest)
			x.setInfo(pointer, &info)
			return info, nil
		}
	}
	if artifact.IsDamage(err) {
		return IndexInfo{Index: name, Generation: pointer.Generation, Release: pointer.Epoch, State: "damaged"}, nil
	}
	return IndexInfo{}, err
}

// standingOf returns the pointer of an index, as it was read last or, again, as it is. Names without a published index
// leave no trace.
func (s *Server) standingOf(ctx context.Context, name string, reread bool) (core.Pointer, error) {
	s.mu.Lock()
	x := s.indexes[name]
	s.mu.Unlock()
	switch {
	case x == nil:
		began := time.Now()
		pointer, _, err := artifact.Index{Store: s.Artifacts, Name: name}.ReadPointer(ctx)
		if err == nil && pointer.Manifest != "" {
			s.ensureIndex(name).learnPointer(pointer, core.Pointer{}, began)
		}
		return pointer, err
	case reread:
		if err := s.readCurrent(ctx, name, x); err != nil && (artifact.IsDamage(err) || !x.isKnown()) {
			return core.Pointer{}, err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.published, x.damaged
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
