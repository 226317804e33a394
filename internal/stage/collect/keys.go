package collect

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
)

// chunkRowBytes of a digest stand in the key of a chunk's vector row: rows of equal keys are one row.
const chunkRowBytes = 4

// keySweep deletes the keys of one generation that none of the others lists.
type keySweep struct {
	*collector
	gen     *generation
	own     *segments.Table
	others  []other
	keys    []string
	remove  func(ctx context.Context, keys []string) error
	counter *int64
}

// other is a generation that stays.
type other struct {
	table       *segments.Table
	collections core.Collections
}

// sweepKeys deletes the records and rows that only this generation lists. Where what says of them is damaged it
// deletes nothing: of this generation, and its keys stay; of another, and the generation stays too.
func (c *collector) sweepKeys(ctx context.Context, gen *generation) error {
	own, err := c.OpenTable(ctx, gen.manifest)
	if err != nil {
		if artifact.IsDamage(err) {
			c.noteDamage(gen.name, c.tableKey(gen.manifest, err), err)
			return nil
		}
		return err
	}
	defer own.Release()
	s := &keySweep{collector: c, gen: gen, own: own}
	for _, stays := range c.listGenerations() {
		if stays == gen || stays.manifest == nil {
			continue // one that is damaged and not kept cannot be opened by anybody
		}
		table, err := c.OpenTable(ctx, stays.manifest)
		if err != nil {
			if artifact.IsDamage(err) {
				c.noteDamage(stays.name, c.tableKey(stays.manifest, err), err)
				c.blind = true
				return nil
			}
			return err
		}
		defer table.Release()
		s.others = append(s.others, other{table, stays.manifest.Collections})
	}
	return s.sweepSections(ctx)
}

// listGenerations returns the generations that are there, those of other indexes that share segments too.
func (c *collector) listGenerations() []*generation {
	var out []*generation
	for _, name := range slices.Sorted(maps.Keys(c.gens)) {
		out = append(out, c.gens[name])
	}
	return append(out, c.others...)
}

// tableKey returns the object that could not be read, as far as that is known, or the manifest's.
func (c *collector) tableKey(manifest *core.Manifest, cause error) string {
	if reported := fault.As(cause); reported != nil && reported.Object != "" {
		return reported.Object
	}
	return c.Artifacts.GenerationKey(manifest.Generation, "manifest.json")
}

// sweepSections deletes in this order: records, rows of classes, rows of chunks.
func (s *keySweep) sweepSections(ctx context.Context) error {
	for _, sweep := range []func(context.Context) error{s.deleteRecords, s.classRows, s.chunkRows} {
		if err := sweep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// othersIn gives the others whose rows lie in a collection. Of one that none of them uses all rows go with the
// collection.
func (s *keySweep) othersIn(of func(core.Collections) string) []other {
	var out []other
	for _, o := range s.others {
		if of(o.collections) == of(s.gen.manifest.Collections) {
			out = append(out, o)
		}
	}
	return out
}

// tablesOf returns the tables of generations.
func tablesOf(others []other) []*segments.Table {
	out := make([]*segments.Table, len(others))
	for i, o := range others {
		out[i] = o.table
	}
	return out
}

func (s *keySweep) deleteRecords(ctx context.Context) error {
	s.remove, s.counter = s.Records.DeleteRecords, &s.res.Records
	manifest := s.gen.manifest
	for class := range s.own.ClassesLeft(tablesOf(s.others)) {
		listed := false
		for _, o := range s.others {
			same, ok := o.table.FindClass(class.ID)
			listed = listed || ok && same.Record == class.Record
		}
		if listed {
			continue
		}
		key := core.RecordKey(manifest.Store, s.base, class.ID, class.Record)
		if err := s.addKey(ctx, key); err != nil {
			return err
		}
	}
	return s.flushKeys(ctx)
}

func (s *keySweep) classRows(ctx context.Context) error {
	others := s.othersIn(func(c core.Collections) string { return c.Classes })
	if len(others) == 0 {
		return nil
	}
	s.rowsOf(s.gen.manifest.Collections.Classes)
	for class := range s.own.ClassesLeft(tablesOf(others)) {
		listed := false
		for _, o := range others {
			same, ok := o.table.FindClass(class.ID)
			listed = listed || ok && same.Vector == class.Vector
		}
		if listed {
			continue
		}
		if err := s.addKey(ctx, core.ClassRowOf(class.ID, class.Vector)); err != nil {
			return err
		}
	}
	return s.flushKeys(ctx)
}

func (s *keySweep) chunkRows(ctx context.Context) error {
	others := s.othersIn(func(c core.Collections) string { return c.Chunks })
	if len(others) == 0 {
		return nil
	}
	s.rowsOf(s.gen.manifest.Collections.Chunks)
	for chunk := range s.own.ChunksLeft(tablesOf(others)) {
		listed := 0 // windows below this are
		for _, o := range others {
			same, ok := o.table.FindChunk(chunk.ID)
			if ok && bytes.Equal(same.Digest[:chunkRowBytes], chunk.Digest[:chunkRowBytes]) {
				listed = max(listed, same.Windows)
			}
		}
		for window := listed; window < chunk.Windows; window++ {
			if err := s.addKey(ctx, core.ChunkRow(chunk.ID, window, chunk.Digest)); err != nil {
				return err
			}
		}
	}
	return s.flushKeys(ctx)
}

func (s *keySweep) rowsOf(collection string) {
	s.counter = &s.res.Rows
	s.remove = func(ctx context.Context, keys []string) error {
		err := s.Vectors.Delete(ctx, collection, keys)
		if fault.Is(err, fault.NotFound) { // the collection is gone, and its rows with it
			return nil
		}
		return err
	}
}

func (s *keySweep) addKey(ctx context.Context, key string) error {
	if s.keys = append(s.keys, key); len(s.keys) < batchKeys {
		return nil
	}
	return s.flushKeys(ctx)
}

// flushKeys deletes what is gathered.
func (s *keySweep) flushKeys(ctx context.Context) error {
	if len(s.keys) == 0 {
		return nil
	}
	if err := s.confirmDelete(ctx, s.gen); err != nil {
		return err
	}
	if err := s.remove(ctx, s.keys); err != nil {
		return err
	}
	*s.counter += int64(len(s.keys))
	s.countDone(len(s.keys))
	s.keys = s.keys[:0]
	return nil
}
