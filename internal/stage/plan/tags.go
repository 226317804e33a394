package plan

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/unweaver/unweaver/internal/core"
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
	seed    string           // differs from run to run
	last    string           // the object before
	seen    uint64           // objects so far
}

// getsTags reports whether a document is without the tags of its object and may get them now. The store is asked for
// the tags of the first eight such objects, and of ever fewer further on, which are others in each run: tags that it
// gives now are found behind many that it refuses. Where it refuses all of these, the other documents stay as they
// are; where it gives some, the others behind are read again.
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
	case object != t.last:
		t.last, t.seen = object, t.seen+1
	}
	if t.seen > blob.TagProbes && t.draw(object) >= blob.TagProbes/float64(t.seen) {
		return t.refused
	}
	if t.asked == nil {
		t.asked = map[string]error{}
	}
	if _, err := blob.ReadTags(t.ctx, corpus, object); errors.Is(err, blob.ErrTagsRefused) {
		refused, t.refused = err, err
	}
	t.asked[object], t.given = refused, refused == nil
	return refused
}

// draw returns a number from 0 up to 1 for an object, another one in each run.
func (t *askedTags) draw(object string) float64 {
	sum := core.Sum("tags/1", t.seed, object)
	return float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
}

// countUntagged counts a document that stays without the tags of its object.
func (p *planner) countUntagged(doc *planned) {
	if !doc.old.LacksTags() {
		return
	}
	if err := p.tags.ask(p.Corpus, doc.row.Object); err != nil {
		p.res.Untagged.Add(stage.Lacking{Documents: 1, Keys: []string{doc.key}, Why: err.Error()})
	}
}
