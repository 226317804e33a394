package plan

import (
	"context"
	"errors"
	"sync"

	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// askedTags is whether the store still refuses tags.
type askedTags struct {
	ctx     context.Context // of the requests
	mu      sync.Mutex
	asked   map[string]error // by object: the refusal of its tags, or nil
	given   bool             // for one object, at least
	refused error            // the last refusal
}

// getsTags reports whether a document is without the tags of its object and may get them now. The store is asked for
// the tags of some such objects. Where it refuses all of these, the other documents stay as they are; where it gives
// some, the others are read again.
func (p *planner) getsTags(doc *planned) bool {
	return doc.old.LacksTags() && p.tags.ask(p.Corpus, doc.row.Object) == nil
}

// ask returns why the store refuses the tags of an object, as far as it was asked; nil: it may give them.
func (t *askedTags) ask(corpus blob.Store, object string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	refused, known := t.asked[object]
	switch {
	case known || t.given:
		return refused
	case len(t.asked) >= blob.TagProbes:
		return t.refused
	case t.asked == nil:
		t.asked = map[string]error{}
	}
	if _, err := blob.ReadTags(t.ctx, corpus, object); errors.Is(err, blob.ErrTagsRefused) {
		refused, t.refused = err, err
	}
	t.asked[object], t.given = refused, refused == nil
	return refused
}

// countUntagged counts a document that stays without the tags of its object.
func (p *planner) countUntagged(doc *planned) {
	if !doc.old.LacksTags() {
		return
	}
	if err := p.tags.ask(p.Corpus, doc.row.Object); err != nil {
		p.res.Untagged.Add(stage.Untagged{Documents: 1, Keys: []string{doc.key}, Why: err.Error()})
	}
}
