package collect

import (
	"context"
	"strings"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/format/live"
)

// SweepRecords deletes the class records of the index that no generation lists, by looking at every key of the store:
// what abandoned builds left behind, and generations that were damaged when they went. Run does not need it. As there,
// the caller holds the lease, so that no build is writing; generations that are marked count as listing. It deletes
// nothing while a generation is damaged.
func SweepRecords(ctx context.Context, in In) (Result, error) {
	if in.Guard == nil {
		in.Guard = func(context.Context) error { return nil }
	}
	c := &collector{In: in}
	if err := c.look(ctx); err != nil || c.blind || len(c.gens) == 0 {
		return c.res, err
	}
	var files []*live.File
	store := ""
	for _, name := range c.names() {
		gen := c.gens[name]
		if gen.manifest == nil {
			continue
		}
		file, release, err := c.open(ctx, gen.manifest)
		if err != nil {
			return c.res, err
		}
		defer release()
		files, store = append(files, file), gen.manifest.Store
	}
	prefix := strings.TrimSuffix(corpus.RecordKey(store, in.Artifacts.Name, corpus.ID{}, corpus.Digest{}),
		corpus.ID{}.String()+":"+corpus.Digest{}.String())
	err := in.Records.ScanRecords(ctx, prefix, func(keys []string) error {
		var dead []string
		for _, key := range keys {
			if !listsRecord(files, strings.TrimPrefix(key, prefix)) {
				dead = append(dead, key)
			}
		}
		if len(dead) == 0 {
			return ctx.Err()
		}
		if err := c.ask(ctx, ""); err != nil {
			return err
		}
		if err := in.Records.DeleteRecords(ctx, dead); err != nil {
			return err
		}
		c.res.Records += int64(len(dead))
		c.count(len(dead))
		return nil
	})
	return c.res, err
}

// listsRecord tells whether a generation lists <class id>:<record digest>. What does not read as that is not ours.
func listsRecord(files []*live.File, name string) bool {
	idText, digestText, _ := strings.Cut(name, ":")
	id, err := corpus.ParseID(idText)
	if err != nil {
		return true
	}
	var digest corpus.Digest
	if digest.UnmarshalText([]byte(digestText)) != nil {
		return true
	}
	for _, file := range files {
		if class := file.Class(id); class != nil && class.Record == digest {
			return true
		}
	}
	return false
}
