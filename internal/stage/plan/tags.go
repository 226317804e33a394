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
	ctx     context.Context // of the one request
	once    sync.Once
	refused error
}

// getsTags reports whether a document is without the tags of its object and may get them now. The store is asked for
// the tags of one such object: where it refuses these, all documents stay as they are.
func (p *planner) getsTags(doc *planned) bool {
	if !doc.old.LacksTags() {
		return false
	}
	p.tags.once.Do(func() {
		if _, err := blob.ReadTags(p.tags.ctx, p.Corpus, doc.row.Object); errors.Is(err, blob.ErrTagsRefused) {
			p.tags.refused = err
		}
	})
	return p.tags.refused == nil
}

// countUntagged counts a document that stays without the tags of its object.
func (p *planner) countUntagged(doc *planned) {
	if doc.old.LacksTags() && !p.getsTags(doc) {
		p.res.Untagged.Add(stage.Untagged{Documents: 1, First: doc.key, Why: p.tags.refused.Error()})
	}
}
