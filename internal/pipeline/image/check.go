package image

import (
	"context"
	"fmt"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// rowKinds are the kinds of segments that are row files, with what reads a row.
var rowKinds = map[string]func([]byte) error{
	"documents": func(raw []byte) error { _, err := rows.DecodeDocument(raw); return err },
	"text":      func(raw []byte) error { _, err := textseg.DecodeStart(raw); return err },
	"extract":   func(raw []byte) error { _, err := rows.DecodeExtract(raw); return err },
	"mentions":  func(raw []byte) error { _, err := rows.DecodeMention(raw); return err },
	"chunks":    func(raw []byte) error { _, err := rows.DecodeSplitChunk(raw); return err },
	"classes": func(raw []byte) error {
		class, err := rows.DecodeClass(raw)
		if err == nil {
			_, err = rows.DecodeRecord(class.Record)
		}
		return err
	},
}

// checkRows reads every row of an image whose signature was not checked, and refuses one that has others than builds
// write. Sums prove nothing about what a forger wrote: a row that becomes far larger when it is read would take
// the memory of this process, and one that cannot be read would keep purges of other indexes waiting.
func (p *pull) checkRows(ctx context.Context) error {
	if p.Key != "" {
		return nil
	}
	for _, kind := range p.manifest.Segments.Kinds() {
		decode, has := rowKinds[kind.Name]
		if !has {
			continue
		}
		check := func(ctx context.Context, i int) error { return p.checkSegment(ctx, kind.Segments[i], decode) }
		if err := parallel.Each(ctx, len(kind.Segments), width, check); err != nil {
			return err
		}
	}
	return nil
}

func (p *pull) checkSegment(ctx context.Context, segment core.Segment, decode func([]byte) error) error {
	key := p.index.SegmentKey(segment.SHA256)
	refuse := func(why any) error {
		return fault.InvalidParam.At("pull file", p.index.Store.Location(key)).
			Because(why).
			Advise("pull no image from whom you do not trust; to be sure who made it: --verify-key")
	}
	file, err := artifact.OpenRowsOf(ctx, p.index.Store, key, segment.Bytes)
	if err != nil {
		return err
	}
	for _, frame := range file.Frames {
		if frame.Raw > mostFrame {
			return refuse(fmt.Sprintf("a row of it has %d MiB", frame.Raw>>20))
		}
	}
	for row, err := range file.Scan(ctx, 0, len(file.Frames)) {
		if err != nil {
			return err
		}
		if err := decode(row.Value); err != nil {
			return refuse(err)
		}
	}
	return nil
}
