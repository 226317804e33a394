package api

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// needAllDocuments returns the error of a caller who may not read every document of an index whose documents have
// labels. Where it cannot be found out whether they have, the error says why.
func (s *Server) needAllDocuments(ctx context.Context, name string) error {
	return s.needNamed(ctx, name, "")
}

// needNamed returns the error of needAllDocuments unless the caller asks for the generation that is published.
func (s *Server) needNamed(ctx context.Context, name, wanted string) error {
	caller := middleware.CallerOf(ctx)
	if caller.Readers().All || !core.ValidIndex(name) {
		return nil
	}
	generation, labelled, err := s.readLabelled(ctx, name)
	if err != nil || !labelled || wanted != "" && generation == wanted {
		return err
	}
	return caller.NeedAllDocuments(name)
}

// needNamedCaller returns the error of a caller without a key who asks for what tells of all documents of an index
// whose documents have labels.
func (s *Server) needNamedCaller(ctx context.Context, name string) error {
	proof := middleware.CallerOf(ctx).NeedProof()
	if proof == nil || !core.ValidIndex(name) {
		return nil
	}
	if _, labelled, err := s.readLabelled(ctx, name); err == nil && !labelled {
		return nil
	}
	return proof
}

// readLabelled returns which generation of an index is published, and whether its documents have labels: what was read
// a moment ago, or is read now. Of an index of which nothing is published, any generation with labels counts. What
// cannot be read is an error. Names without a published index leave no trace.
func (s *Server) readLabelled(ctx context.Context, name string) (generation string, labelled bool, err error) {
	s.mu.Lock()
	x := s.indexes[name]
	s.mu.Unlock()
	if x != nil {
		if generation, labelled, known := x.knownLabelled(); known {
			return generation, labelled, nil
		}
	}
	of := artifact.Index{Store: s.Artifacts, Name: name}
	var pointer core.Pointer
	if x != nil {
		err = s.readCurrent(ctx, name, x)
		pointer = x.lastPointer()
	} else {
		began := time.Now()
		if pointer, _, err = of.ReadPointer(ctx); err == nil && pointer.Manifest != "" {
			x = s.ensureIndex(name)
			x.learnPointer(pointer, core.Pointer{}, began)
		}
	}
	if err != nil {
		return "", false, err
	}
	if pointer.Manifest == "" {
		labelled, err = hasLabelled(ctx, of)
		return "", labelled, err
	}
	if info := x.infoFor(pointer); info != nil {
		return pointer.Generation, info.labelled, nil
	}
	manifest, err := of.ManifestOf(ctx, pointer)
	if err != nil {
		return "", false, err
	}
	info := infoOf(name, pointer, manifest)
	x.setInfo(pointer, &info)
	return pointer.Generation, manifest.Labelled, nil
}

// knownLabelled returns the same of what is open, or was read less than a poll ago.
func (x *index) knownLabelled() (generation string, labelled, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch pointer := x.published; {
	case x.damaged != nil || pointer.Manifest == "":
	case x.current != nil && x.manifest == pointer.Manifest:
		return pointer.Generation, x.current.HasLabels(), true
	case x.info != nil && x.informed == pointer && time.Since(x.readAt) < pollEvery:
		return pointer.Generation, x.info.labelled, true
	}
	return "", false, false
}

// showsLabels reports whether documents of an index that is open, or was read, have labels.
func (s *Server) showsLabels() bool {
	for _, x := range s.listServed() {
		x.mu.Lock()
		labelled := x.current != nil && x.current.HasLabels() || x.info != nil && x.info.labelled
		x.mu.Unlock()
		if labelled {
			return true
		}
	}
	return false
}

// hasLabelled reports whether an index has a generation whose documents have labels.
func hasLabelled(ctx context.Context, of artifact.Index) (bool, error) {
	refs, err := of.ListRefs(ctx)
	for _, ref := range refs {
		if err != nil {
			break
		}
		var manifest *core.Manifest
		if manifest, err = of.Manifest(ctx, ref.Manifest); err == nil && manifest.Labelled {
			return true, nil
		}
	}
	return false, err
}
