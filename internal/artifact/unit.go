package artifact

import (
	"context"
	"encoding/hex"
	"path"
	"strings"
)

// PutScratch stores the file of a unit of work beside key, under a name that tells its content, and gives that name for
// the unit's result. An attempt that was given up and lives on may so write what it likes: what a recorded result names
// is never written over with anything else. What no result names goes with the scratch of its run. With Index.OneName
// the file lies at key, and the name is empty.
func (t *File) PutScratch(ctx context.Context, index Index, key string) (name string, err error) {
	if index.OneName {
		return "", t.Put(ctx, index.Store, key)
	}
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

// ScratchKey is where the file lies that PutScratch was given key for, and gave name. A result without a name is of a
// run of one name for every attempt.
func ScratchKey(key, name string) string {
	if name == "" {
		return key
	}
	return path.Dir(key) + "/" + name
}
