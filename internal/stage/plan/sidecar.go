package plan

import (
	"iter"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// addSidecar notes a file of metadata, which is no document.
func (l *listing) addSidecar(owner string, info blob.Info) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sidecars.Add([]byte(core.ObjectKey(owner)), []byte(info.ETag))
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
}

func newSidecarCursor(p *planner) *sidecarCursor {
	out := &sidecarCursor{planner: p}
	out.next, out.stop = iter.Pull2(p.sidecars.StreamSorted())
	out.pair, out.err, out.more = out.next()
	return out
}

// findFor returns the ETag of the file beside a document, and passes over those of keys before it, which have no
// document. An empty key is behind all others.
func (s *sidecarCursor) findFor(key string) (string, error) {
	for s.more && s.err == nil && (key == "" || string(s.pair[0]) < key) {
		if !s.used {
			s.alone.Add(s.pair[0], nil)
		}
		s.used = false
		s.pair, s.err, s.more = s.next()
	}
	if !s.more || s.err != nil || string(s.pair[0]) != key {
		return "", s.err
	}
	s.used = true
	return string(s.pair[1]), nil
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
