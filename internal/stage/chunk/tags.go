package chunk

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
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

// heldTags are the tags of the object whose rows, or attachments, are read.
type heldTags struct {
	mu     sync.Mutex
	object string
	known  bool
	tagged
}

// readHeldTags reads the tags of the object that a row is of, once for rows that follow each other.
func (b *builder) readHeldTags(ctx context.Context, plan rows.Plan) tagged {
	b.held.mu.Lock()
	defer b.held.mu.Unlock()
	if !b.held.known || b.held.object != plan.Object {
		b.held.tagged = b.readTags(ctx, plan)
		b.held.object, b.held.known = plan.Object, b.held.err == nil || errors.Is(b.held.err, blob.ErrTagsRefused)
	}
	return b.held.tagged
}

// addBeside adds the metadata that stand beside a document: the tags of its object, and over them those of the file of
// metadata. A row and an attachment get labels alone, and an attachment has none of its own: who sent a message does
// not say who may read it.
func (b *builder) addBeside(ctx context.Context, key string, d *draft) error {
	if d.plan.Part != "" {
		b.hideDocument(d)
	}
	switch err := b.tagged.err; {
	case errors.Is(err, blob.ErrTagsRefused):
		d.untagged = true
		b.res.Untagged.Add(stage.Lacking{Documents: 1, Keys: []string{key}, Why: err.Error()})
		b.hideDocument(d)
	case err != nil && !fault.Is(err, fault.NotFound): // it went after planning
		return err
	}
	tags := maps.Clone(b.tagged.tags)
	maps.DeleteFunc(tags, func(_, value string) bool { return value == "" })
	if err := document.CheckMeta(tags); err != nil {
		d.addMissing("the tags of " + d.plan.Object + ": " + err.Error())
		b.hideDocument(d)
	} else {
		b.addOutside(key, d, tags)
		for name, value := range b.tagged.tags {
			if value == "" && core.IsNamed(name, b.Spec.ReadAs().Labels.Field) {
				b.hideDocument(d)
			}
		}
	}
	if d.plan.Beside == "" {
		return nil
	}
	return b.addSidecar(ctx, key, d)
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
	if field := b.Spec.ReadAs().Labels.Field; field != "" && document.IsUnclear(raw, field, meta) {
		b.hideDocument(d)
	}
}

// addOutside adds metadata of the document's object.
func (b *builder) addOutside(key string, d *draft, meta map[string]string) {
	if strings.Contains(key, "#") { // a row of it, or attached to it
		field := b.Spec.ReadAs().Labels.Field
		meta = maps.Clone(meta)
		maps.DeleteFunc(meta, func(name, _ string) bool { return field == "" || !core.IsNamed(name, field) })
	}
	d.addMeta(meta)
}

// addMeta adds metadata, which win over what the document has.
func (d *draft) addMeta(meta map[string]string) {
	if d.row.Meta == nil && len(meta) > 0 {
		d.row.Meta = map[string]string{}
	}
	maps.Copy(d.row.Meta, meta)
}
