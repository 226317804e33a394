package chunk

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// tagged is what the store says of the tags of an object.
type tagged struct {
	tags map[string]string
	err  error
}

// readTags reads the tags of a document's object, where the index takes them. An estimate does without.
func (b *builder) readTags(ctx context.Context, plan rows.Plan) (read tagged) {
	if b.Spec.ReadAs().S3Tags && !b.Unasked {
		read.tags, read.err = blob.ReadTags(ctx, b.Corpus, plan.Object)
	}
	return read
}

// Untagged are documents without the tags of their objects, which the store refuses.
type Untagged struct {
	Documents int64  `json:"documents,omitempty"`
	First     string `json:"first,omitempty"` // key of the first one
	Why       string `json:"why,omitempty"`
}

// Add adds those of another unit.
func (u *Untagged) Add(other Untagged) {
	if u.Documents == 0 {
		u.First, u.Why = other.First, other.Why
	}
	u.Documents += other.Documents
}

// Problem returns all of them as one problem.
func (u *Untagged) Problem() core.Problem {
	detail := fmt.Sprintf("tags of %d objects are no metadata yet, each run asks for them again: %s", u.Documents, u.Why)
	return core.Problem{Code: string(fault.StoreDenied), Object: u.First, Detail: redact.Text(detail)}
}

// addBeside adds the metadata that stand beside a document: the tags of its object, and over them those of the file of
// metadata.
func (b *builder) addBeside(ctx context.Context, key string, d *draft) error {
	switch err := b.tagged.err; {
	case errors.Is(err, blob.ErrTagsRefused):
		d.untagged = true
		b.res.Untagged.Add(Untagged{1, key, err.Error()})
	case err != nil && !fault.Is(err, fault.NotFound): // it went after planning
		return err
	}
	d.addMeta(b.tagged.tags)
	if d.plan.Beside == "" {
		return nil
	}
	return b.addSidecar(ctx, d)
}

// addMeta adds metadata, which win over what the document has.
func (d *draft) addMeta(meta map[string]string) {
	if d.row.Meta == nil && len(meta) > 0 {
		d.row.Meta = map[string]string{}
	}
	maps.Copy(d.row.Meta, meta)
}
