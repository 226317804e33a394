package ledger

import (
	"bytes"
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

type noteKey struct{}

// WithNote has every key that is asked for call note, whether it is paid for, found, or fails. note may be nil. It
// may be called by several goroutines. What is made by the ledger alone can be listed so, by any caller.
func WithNote(ctx context.Context, note func(task string, key core.Digest)) context.Context {
	return context.WithValue(ctx, noteKey{}, note)
}

// NoteKeys reports keys that are asked for.
func NoteKeys(ctx context.Context, task string, keys ...core.Digest) {
	note, _ := ctx.Value(noteKey{}).(func(string, core.Digest))
	if note == nil {
		return
	}
	for _, key := range keys {
		note(task, key)
	}
}

// EncodeLine returns the key of a row that lists an entry.
func EncodeLine(task string, key core.Digest) string { return task + "/" + string(key[:]) }

// ReadLine returns the entry that such a row lists.
func ReadLine(line []byte) (task string, key core.Digest, err error) {
	name, raw, ok := bytes.Cut(line, []byte("/"))
	if !ok || len(raw) != len(key) {
		return "", key, fault.SegmentDamage.At("read", "a list of ledger entries").Because("a row is none of it")
	}
	copy(key[:], raw)
	return string(name), key, nil
}
