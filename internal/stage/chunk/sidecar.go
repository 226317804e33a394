package chunk

import (
	"context"
	"io"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// addSidecar adds the metadata of the file beside a document, which win over its own. A file that cannot be used is
// reported as missing, and the document has its own metadata.
func (b *builder) addSidecar(ctx context.Context, d *draft) error {
	object := d.plan.Object + document.SidecarSuffix
	body, info, err := b.Corpus.Get(ctx, object, blob.Range{Length: -1})
	var meta map[string]string
	var raw []byte
	switch {
	case err == nil:
		defer func() { _ = body.Close() }()
		if raw, err = io.ReadAll(io.LimitReader(body, document.MaxSidecar+1)); err != nil {
			return readFault(object, err)
		}
		d.plan.Beside = info.ETag
		meta, err = document.ParseSidecar(raw)
	case fault.Is(err, fault.NotFound): // it went after planning
		d.plan.Beside = ""
		return nil
	case fault.Is(err, fault.StoreDenied):
		d.plan.Beside = "" // the next run reads it again
		b.hideDocument(d)
	default:
		return err
	}
	if err != nil {
		d.addMissing("the metadata of " + object + ": " + err.Error())
		b.hideDocument(d)
		return nil
	}
	d.addMeta(meta)
	b.hideUnread(d, meta, raw)
	return nil
}
