package chunk

import (
	"context"
	"io"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// sidecar is a file of metadata that was read.
type sidecar struct {
	object, etag string
	planned      string // its ETag, as plan saw it
	raw          []byte
	meta         map[string]string
	bad          error // what is wrong with it
}

// addSidecar adds the metadata of the file beside a document, which win over its own. A file that cannot be used is
// reported as missing, and the document has its own metadata.
func (b *builder) addSidecar(ctx context.Context, key string, d *draft) error {
	object := d.plan.Object + document.SidecarSuffix
	if nested := d.plan.IsNested(); !nested || b.beside.object != object || b.beside.planned != d.plan.Beside {
		found, err := b.readSidecar(ctx, object)
		if fault.Is(err, fault.NotFound) { // it went after planning
			d.plan.Beside = ""
			return nil
		}
		if err != nil {
			return err
		}
		b.beside = found
		b.beside.planned = d.plan.Beside
	}
	if d.plan.Beside = b.beside.etag; b.beside.bad != nil {
		d.addMissing("the metadata of " + object + ": " + b.beside.bad.Error())
		b.hideDocument(d)
		return nil
	}
	b.addOutside(key, d, b.beside.meta)
	b.hideUnread(d, b.beside.meta, b.beside.raw)
	return nil
}

// readSidecar reads a file of metadata.
func (b *builder) readSidecar(ctx context.Context, object string) (sidecar, error) {
	out := sidecar{object: object}
	body, info, err := b.Corpus.Get(ctx, object, blob.Range{Length: -1})
	if fault.Is(err, fault.StoreDenied) {
		out.bad = err // without its ETag, the next run reads it again
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer func() { _ = body.Close() }()
	if out.raw, err = io.ReadAll(io.LimitReader(body, document.MaxSidecar+1)); err != nil {
		return out, readFault(object, err)
	}
	out.etag = info.ETag
	out.meta, out.bad = document.ParseSidecar(out.raw)
	return out, nil
}
