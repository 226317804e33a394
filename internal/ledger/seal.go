package ledger

import (
	"context"
	"encoding/binary"
	"hash/crc32"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// sealBytes precede the content of a loose entry: the checksum of its name and its content, little endian.
const sealBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumEntry(object string, content []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(object), castagnoli), castagnoli, content)
}

// sealEntry returns the object of a loose entry.
func sealEntry(object string, content []byte) []byte {
	out := make([]byte, 0, sealBytes+len(content))
	return append(binary.LittleEndian.AppendUint32(out, sumEntry(object, content)), content...)
}

// openEntry returns the content of a loose entry; ok is false where it is not what was stored under that name.
func openEntry(object string, raw []byte) (content []byte, ok bool) {
	if len(raw) < sealBytes {
		return nil, false
	}
	content = raw[sealBytes:]
	return content, binary.LittleEndian.Uint32(raw) == sumEntry(object, content)
}

// readContent reads a loose entry; ok is false where there is none, or where it was damaged and is removed.
func (l *Ledger) readContent(
	ctx context.Context, object string,
) (content []byte, info blob.Info, ok bool, err error) {
	raw, info, err := blob.Read(ctx, l.store, object)
	if fault.Is(err, fault.NotFound) {
		return nil, info, false, nil
	}
	if err != nil {
		return nil, info, false, err
	}
	if content, ok = openEntry(object, raw); !ok {
		return nil, info, false, l.removeDamaged(ctx, object)
	}
	return content, info, true, nil
}

type damageKey struct{}

// WatchDamage has note called with every object of the ledger that turns out to be damaged. It may be called by several
// goroutines.
func WatchDamage(ctx context.Context, note func(object string, err error)) context.Context {
	return context.WithValue(ctx, damageKey{}, note)
}

// reportDamage names a damaged object, to the process and to the caller.
func (l *Ledger) reportDamage(ctx context.Context, object string, err error) {
	object = l.store.Location(object)
	if l.OnDamage != nil {
		l.OnDamage(object, err)
	}
	if note, ok := ctx.Value(damageKey{}).(func(string, error)); ok {
		note(object, err)
	}
}

// removeDamaged deletes a loose entry that does not hold, so that another takes its place, and reports it.
func (l *Ledger) removeDamaged(ctx context.Context, object string) error {
	if err := l.store.Delete(ctx, object); err != nil {
		return err
	}
	l.reportDamage(ctx, object, fault.SegmentDamage.At("read ledger entry", l.store.Location(object)).
		Because("its content differs from its name"))
	return nil
}
