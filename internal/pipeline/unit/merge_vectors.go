package unit

import (
	"bytes"
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/stage/verify"
)

// Vectors segments are merged like splits, with three differences: they are small, as a bulk import reads each in a job
// of its own; they take most of the bytes, so that one is written again only when half of it is dead; and nothing
// counts what is dead in one. How much is dead in all of them follows from what the generation counts; where that is
// much, the keys of some are read, others every night.
const (
	mostVectors = 1 << 16 // rows of a segment that others were merged into
	deadVectors = 0.5     // share of dead rows from which one is written again
	lookShare   = 8       // keys are read where one row in so many of all is dead
)

var vectorsRule = mergeRule{most: mostVectors, dead: deadVectors}

// MergeVectors merges vectors segments of a generation that goes on in its parent's collections. Rows move from file to
// file: the stores keep them as they are, and no model is asked.
func (r *Run) MergeVectors(ctx context.Context, manifest *core.Manifest, written *core.Written) error {
	fixed, err := r.ReadPlan(ctx)
	if err != nil {
		return err
	}
	parent, err := r.ReadParent(ctx, fixed.Source())
	if err != nil || parent == nil {
		return err
	}
	var table *stored.Table // most nights have nothing to merge
	for _, kind := range []struct {
		name   string
		list   *[]core.Segment
		was    []core.Segment
		goesOn bool
		live   int64
	}{
		{
			name: "classes", list: &manifest.Segments.ClassVecs, was: parent.Segments.ClassVecs,
			goesOn: parent.Collections.Classes == manifest.Collections.Classes, live: manifest.Counts.Classes,
		},
		{
			name: "chunks", list: &manifest.Segments.ChunkVecs, was: parent.Segments.ChunkVecs,
			goesOn: parent.Collections.Chunks == manifest.Collections.Chunks, live: manifest.Counts.Windows,
		},
	} {
		if !kind.goesOn { // all of it is of this build, which cut it as it is
			continue
		}
		merging := vectorsMerge{list: *kind.list, was: kind.was, live: kind.live, seed: r.Generation}
		if merging.planMerge(); len(merging.looks)+len(vectorsRule.chooseGroups(merging.sizes, merging.change)) == 0 {
			continue
		}
		if table == nil {
			if table, err = r.OpenTable(ctx, manifest); err != nil {
				return err
			}
			defer table.Release()
		}
		merging.Rewriting = r.NewRewriting(table)
		left, fresh, err := merging.runMerge(ctx)
		if err != nil {
			return r.ReusedDamage(err)
		}
		written.Segments += fresh
		if len(left) < len(*kind.list) || fresh > 0 {
			r.Log.Info("vectors segments merged", "run_id", r.Name(), "kind", kind.name, "before", len(*kind.list),
				"left", len(left))
		}
		*kind.list = left
	}
	return nil
}

// NewRewriting returns how vectors segments are written again with the rows that count in a generation.
func (r *Run) NewRewriting(table *stored.Table) load.Rewriting {
	return load.Rewriting{
		Artifacts: r.Index, Alive: r.Progress.Touch,
		Counts: func(key string) bool { return verify.RowCounts(table, key) },
	}
}

// vectorsMerge is the merging of one kind.
type vectorsMerge struct {
	load.Rewriting
	list, was []core.Segment // of the generation, and of its parent
	live      int64          // rows that count
	seed      string         // another one looks at other segments

	sizes  []mergeable
	change int64 // rows that are new, and as many that these took the place of
	looks  []int // segments whose keys are read
}

func (m *vectorsMerge) planMerge() {
	former := map[string]bool{}
	for _, one := range m.was {
		former[one.SHA256] = true
	}
	names := make([]string, len(m.list))
	m.sizes = make([]mergeable, len(m.list))
	for i, one := range m.list {
		m.sizes[i].rows, names[i] = one.Rows, one.SHA256
		if !former[one.SHA256] {
			m.change += 2 * one.Rows
		}
	}
	m.looks = looksOf(m.sizes, names, m.live, m.change, m.seed)
}

func (m *vectorsMerge) runMerge(ctx context.Context) (left []core.Segment, fresh int64, err error) {
	for _, i := range m.looks {
		if m.sizes[i].dead, err = m.CountDead(ctx, m.list[i]); err != nil {
			return nil, fresh, err
		}
	}
	merged := map[int]bool{} // into another
	left = slices.Clone(m.list)
	for _, group := range vectorsRule.chooseGroups(m.sizes, m.change) {
		var parts []core.Segment
		for _, i := range group {
			parts = append(parts, m.list[i])
			merged[i] = true
		}
		made, isFresh, err := m.Merge(ctx, parts)
		if err != nil {
			return nil, fresh, err
		}
		if isFresh {
			fresh++
		}
		if made.SHA256 != "" {
			left[group[0]] = made
			delete(merged, group[0])
		}
	}
	out := left[:0]
	for i, one := range left {
		if !merged[i] {
			out = append(out, one)
		}
	}
	return out, fresh, nil
}

// looksOf chooses the segments whose keys are read tonight, to know what is dead in them: none unless enough is dead in
// all of them, then as many rows as the night may write, and one segment at least.
func looksOf(list []mergeable, names []string, live, change int64, seed string) (looks []int) {
	var rows int64
	for _, one := range list {
		rows += one.rows
	}
	if dead := rows - live; dead*lookShare < rows {
		return nil
	}
	order := make([]int, len(list))
	places := make([]core.Digest, len(list))
	for i, name := range names {
		order[i], places[i] = i, core.Sum("look", seed, name)
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(places[a][:], places[b][:]) })
	budget := mergeBudget(rows, change)
	for _, i := range order {
		if budget -= list[i].rows; budget < 0 && len(looks) > 0 {
			break
		}
		looks = append(looks, i)
	}
	return looks
}
