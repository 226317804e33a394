package plan

import (
	"iter"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// addSidecar notes a file of metadata, which is no document.
func (l *listing) addSidecar(owner string, info blob.Info) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sidecars.Add([]byte(core.ObjectKey(owner)), []byte(info.ETag))
	if kind, _, _ := stage.TypeOf(l.Spec, owner); l.hasLabelField() && (kind.HasRows() || kind == document.JSON) {
		l.sidecars.Add([]byte(core.RowKey(owner, "")), []byte(info.ETag)) // its rows come behind this key
	}
}

// hasLabelField reports whether metadata give documents labels.
func (p *planner) hasLabelField() bool { return p.Spec.ReadAs().Labels.Field != "" }

// besideNested returns what of the file of metadata beside an object counts for what is in it: its labels alone do.
func (p *planner) besideNested(etag string) string {
	if p.hasLabelField() {
		return etag
	}
	return ""
}

// sidecarCursor walks over the files of metadata beside the documents, in the order of their keys.
type sidecarCursor struct {
	*planner
	next func() ([2][]byte, error, bool)
	stop func()
	pair [2][]byte
	more bool
	err  error
	used bool // a document has the current one

	whole map[string]bool // objects that are documents with a file, and might have been rows
}

func newSidecarCursor(p *planner) *sidecarCursor {
	out := &sidecarCursor{planner: p, whole: map[string]bool{}}
	out.next, out.stop = iter.Pull2(p.sidecars.StreamSorted())
	out.pair, out.err, out.more = out.next()
	return out
}

// findFor returns the ETag of the file beside a document, or the object that a row is of, and passes over those of keys
// before it, which have no document. An empty key is behind all others.
func (s *sidecarCursor) findFor(key string) (string, error) {
	if object, _, nested := strings.Cut(key, "#"); nested {
		key = object + "#"
	}
	for s.more && s.err == nil && (key == "" || string(s.pair[0]) < key) {
		s.passOver(string(s.pair[0]))
		s.used = false
		s.pair, s.err, s.more = s.next()
	}
	if !s.more || s.err != nil || string(s.pair[0]) != key {
		return "", s.err
	}
	s.used = true
	return string(s.pair[1]), nil
}

// passOver notes a file that no document has, as one or as a row of its object.
func (s *sidecarCursor) passOver(key string) {
	object, ofRows := strings.CutSuffix(key, "#")
	kind, _, _ := stage.TypeOf(s.Spec, core.ObjectOf(object))
	twice := s.hasLabelField() && (kind.HasRows() || kind == document.JSON)
	switch {
	case ofRows && (s.used || s.whole[object]):
		delete(s.whole, object)
	case !ofRows && s.used && twice:
		s.whole[object] = true
	case !s.used && (ofRows || !twice):
		s.alone.Add([]byte(object), nil)
	}
}

// refuseAlone reports files of metadata that stand beside no document.
func (p *planner) refuseAlone() error {
	for pair, err := range p.alone.StreamSorted() {
		if err != nil {
			return err
		}
		object := string(pair[0]) + document.SidecarSuffix
		why := fault.Unreadable.At("read", object).Because("no document has the name before " + document.SidecarSuffix).
			Advise("rename it after its document, or remove it; rows of a table have their metadata in its columns")
		p.problems.add(fault.Unreadable, object, why.Error(), false)
	}
	return nil
}
