package collect

import (
	"context"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/segments"
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
	var known []*segments.Table
	store := ""
	for _, gen := range c.all() {
		if gen.manifest == nil {
			continue
		}
		table, err := c.OpenTable(ctx, gen.manifest)
		if err != nil {
			return c.res, err
		}
		defer table.Release()
		known, store = append(known, table), gen.manifest.Store
	}
	prefix := strings.TrimSuffix(core.RecordKey(store, c.base, core.ID{}, core.Digest{}),
		core.ID{}.String()+":"+core.Digest{}.String())
	err := in.Records.ScanRecords(ctx, prefix, func(keys []string) error {
		var dead []string
		for _, key := range keys {
			if !listsRecord(known, strings.TrimPrefix(key, prefix)) {
				dead = append(dead, key)
			}
		}
		if len(dead) == 0 {
			return ctx.Err()
		}
		if err := c.ask(ctx, nil); err != nil {
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
func listsRecord(known []*segments.Table, name string) bool {
	idText, digestText, _ := strings.Cut(name, ":")
	id, err := core.ParseID(idText)
	if err != nil {
		return true
	}
	var digest core.Digest
	if digest.UnmarshalText([]byte(digestText)) != nil {
		return true
	}
	for _, table := range known {
		if class, ok := table.Class(id); ok && class.Record == digest {
			return true
		}
	}
	return false
}
