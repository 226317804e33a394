package run

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// The files of a backfill: what it is for, how it stands, and what it paid. BackfillBegun is written last: with it the
// backfill exists.
const (
	BackfillBegun = "begun.json"
	BackfillState = "state.json"
	BackfillPaid  = "paid.json"
)

// ReadBackfill reads a backfill; fault.NotFound: there is none of that name.
func ReadBackfill(ctx context.Context, index artifact.Index, name string) (core.Backfill, error) {
	var out core.Backfill
	if _, err := blob.ReadJSON(ctx, index.Store, index.BackfillKey(name, BackfillBegun), &out); err != nil {
		if fault.Is(err, fault.NotFound) {
			err = fault.NotFound.At("find backfill", fault.QuoteName(name)).
				Because("index " + index.Name + " has no backfill of this name").
				Advise("to list them: unweaver backfill list " + index.Name)
		}
		return out, err
	}
	for file, what := range map[string]any{BackfillState: &out.BackfillState, BackfillPaid: &out.BackfillProgress} {
		_, err := blob.ReadJSON(ctx, index.Store, index.BackfillKey(name, file), what)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return out, err
		}
	}
	return out, nil
}

// ReadBackfills reads all backfills of an index, the last begun first.
func ReadBackfills(ctx context.Context, index artifact.Index) ([]core.Backfill, error) {
	out := []core.Backfill{}
	prefix := index.BackfillKey("", "") + "/"
	for info, err := range index.Store.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		name, file, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
		if file != BackfillBegun {
			continue
		}
		one, err := ReadBackfill(ctx, index, name)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b core.Backfill) int { return b.Started.Compare(a.Started) })
	return out, nil
}

// chooser says of a document whether it is meant.
type chooser = func(key string, modified time.Time) bool

// ChooseBackfills says what a build is to make, where it is for a backfill, and else what it leaves to those that go
// on.
func (r *Run) ChooseBackfills(ctx context.Context, fixed Plan, reasons []string) (chosen, leave chooser, err error) {
	if r.Backfill != "" {
		found, err := ReadBackfill(ctx, r.Index, r.Backfill)
		if err != nil {
			return nil, nil, err
		}
		if !fixed.Part {
			return nil, nil, fault.PlanMoved.At("backfill", r.Backfill).
				Because("everything must be rebuilt: " + strings.Join(reasons, "; ")).
				Advise("first run a build: unweaver index --index " + r.Job.Index)
		}
		return found.Choice.NewChooser(), nil, nil
	}
	all, err := ReadBackfills(ctx, r.Index)
	if err != nil {
		return nil, nil, err
	}
	var open []chooser
	for _, one := range all {
		if !core.IsTerminal(one.Status) {
			open = append(open, one.Choice.NewChooser())
		}
	}
	if len(open) == 0 {
		return nil, nil, nil
	}
	return nil, func(key string, modified time.Time) bool {
		return slices.ContainsFunc(open, func(chosen chooser) bool { return chosen(key, modified) })
	}, nil
}
