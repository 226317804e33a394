package artifact

import (
	"context"
	"encoding/hex"
	"path"
	"strings"
)

// PutScratch stores the file of a unit of work beside key, under a name made from its content, and gives that name for
// the unit's result. An attempt that was given up and lives on may so write what it likes: what a recorded result names
// is never written over with anything else. What no result names goes with the scratch of its run.
func (t *File) PutScratch(ctx context.Context, index Index, key string) (name string, err error) {
	ending := path.Ext(key)
	key = strings.TrimSuffix(key, ending) + "-" + hex.EncodeToString(t.h.Sum(nil)[:16]) + ending
	return path.Base(key), t.Put(ctx, index.Store, key)
}

// PutScratch ends the file and stores it as File.PutScratch does.
func (r *Rows) PutScratch(ctx context.Context, index Index, key string) (name string, err error) {
	if err := r.Close(); err != nil {
		return "", err
	}
	return r.file.PutScratch(ctx, index, key)
}

// ScratchKey returns the key of the file that PutScratch was given key for, and gave name.
func ScratchKey(key, name string) string { return path.Dir(key) + "/" + name }
