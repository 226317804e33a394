package upkeep

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stream/extsort"
)

// enrichedPurge adds to the traces of each purge what enrichments of generations that hold its documents were made from
// and those of generations that stay were not: answers about the documents, about answers on them beside others,
// and vectors of both. It comes before collect drops a generation. Memory grows with what is added.
func (p *purging) enrichedPurge(ctx context.Context) error {
	refs, err := p.index.ListByName(ctx)
	if err != nil {
		return err
	}
	manifests := map[string]*core.Manifest{}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		manifest, err := p.index.Manifest(ctx, refs[name].Manifest)
		if artifact.IsDamage(err) { // collect deletes nothing that it might need
			continue
		}
		if err != nil {
			return err
		}
		manifests[name] = manifest
	}
	for i, traces := range p.traces {
		changed, err := p.enrichedTraces(ctx, traces, manifests)
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		if err := traces.Save(ctx, p.index, p.pending[i].ID); err != nil {
			return err
		}
	}
	return nil
}

func (p *purging) enrichedTraces(
	ctx context.Context, traces *purges.Traces, manifests map[string]*core.Manifest,
) (changed bool, err error) {
	going, staying := map[string]bool{}, map[string]bool{}
	for name, manifest := range manifests {
		for _, file := range manifest.Segments.Enriched {
			switch {
			case file.Kind != core.EnrichedLedger:
			case traces.Holders[name]:
				going[file.SHA256] = true
			default:
				staying[file.SHA256] = true
			}
		}
	}
	if len(going) == 0 {
		return changed, nil
	}
	var sorter extsort.Sorter
	defer sorter.Close()
	add := func(files, but map[string]bool, as []byte) error {
		for sha := range files {
			if but[sha] { // the same list
				continue
			}
			for row, err := range artifact.ScanAll(ctx, p.index.Store, p.index.SegmentKey(sha)) {
				if err != nil {
					return err
				}
				sorter.Add(row.Key, as)
			}
			p.Progress.Touch()
		}
		return nil
	}
	if err := add(going, staying, unit.OfHolder); artifact.IsDamage(err) {
		traces.Unlisted = true // it is not known any more
		return true, nil
	} else if err != nil {
		return changed, err
	}
	// What others list stays all the same.
	if err := add(staying, nil, unit.OfOther); err != nil && !artifact.IsDamage(err) {
		return changed, err
	}
	var line []byte
	goes := false
	note := func() error {
		if !goes {
			return nil
		}
		task, key, err := ledger.ReadLine(line)
		if err != nil {
			return err
		}
		if traces.Keys[task] == nil {
			traces.Keys[task] = map[core.Digest]bool{}
		}
		changed = changed || !traces.Keys[task][key]
		traces.Keys[task][key] = true
		return nil
	}
	for row, err := range sorter.StreamSorted() {
		if err != nil {
			return changed, err
		}
		if !bytes.Equal(row[0], line) {
			if err := note(); err != nil {
				return changed, err
			}
			line, goes = append(line[:0], row[0]...), true
		}
		goes = goes && bytes.Equal(row[1], unit.OfHolder)
	}
	return changed, note()
}
