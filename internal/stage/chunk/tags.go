package chunk

import (
	"context"
	"errors"
	"maps"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
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

// addBeside adds the metadata that stand beside a document: the tags of its object, and over them those of the file of
// metadata.
func (b *builder) addBeside(ctx context.Context, key string, d *draft) error {
	switch err := b.tagged.err; {
	case errors.Is(err, blob.ErrTagsRefused):
		d.untagged = true
		b.res.Untagged.Add(stage.Untagged{Documents: 1, Keys: []string{key}, Why: err.Error()})
		b.hideDocument(d)
	case err != nil && !fault.Is(err, fault.NotFound): // it went after planning
		return err
	}
	if err := document.CheckMeta(b.tagged.tags); err != nil {
		d.addMissing("the tags of " + d.plan.Object + ": " + err.Error())
		b.hideDocument(d)
	} else {
		d.addMeta(b.tagged.tags)
	}
	if d.plan.Beside == "" {
		return nil
	}
	return b.addSidecar(ctx, d)
}

// hideDocument takes a document's labels away, as those that stand beside it cannot be read: nobody may read it unless
// what is read later gives it others.
func (b *builder) hideDocument(d *draft) {
	if field := b.Spec.ReadAs().Labels.Field; field != "" {
		d.addMeta(map[string]string{field: ""})
	}
}

// hideUnread takes a document's labels away where the metadata that were read name the field of labels, and no value of
// it came out of that.
func (b *builder) hideUnread(d *draft, meta map[string]string, raw []byte) {
	if field := b.Spec.ReadAs().Labels.Field; field != "" && meta[field] == "" && document.HasField(raw, field) {
		b.hideDocument(d)
	}
}

// addMeta adds metadata, which win over what the document has.
func (d *draft) addMeta(meta map[string]string) {
	if d.row.Meta == nil && len(meta) > 0 {
		d.row.Meta = map[string]string{}
	}
	maps.Copy(d.row.Meta, meta)
}
