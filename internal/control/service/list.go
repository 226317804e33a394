package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/workflows"
)

// listWidth is how many indexes, or runs, are asked about at once.
const listWidth = 8

// ListIndexes implements Control.
func (s *Service) ListIndexes(ctx context.Context) ([]runlog.Card, error) {
	cards, err := s.runLog().ListCards(ctx)
	if err != nil {
		return nil, err
	}
	err = parallel.Each(ctx, len(cards), listWidth, func(ctx context.Context, i int) error {
		if cards[i].State == runlog.StatePublished {
			if err := s.checkServed(ctx, cards[i].Index); err != nil {
				cards[i].State, cards[i].Detail = runlog.StateDamaged, err.Error()
			}
		}
		if cards[i].Running == nil {
			return nil
		}
		if s.confirmRun(ctx, cards[i].Running); core.IsTerminal(cards[i].Running.Status) {
			cards[i].Running, cards[i].LastRun = nil, cards[i].Running
		}
		return nil
	})
	return cards, err
}

// servedPatience is how long the stores may take to say whether they have what an index serves.
const servedPatience = 10 * time.Second

// checkServed finds why the queries of an index that is published fail: its pointer or manifest cannot be read, a
// segment is missing, or a store does not answer or has lost what it serves. It lists the segments once.
func (s *Service) checkServed(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, servedPatience)
	defer cancel()
	index := s.indexOf(name)
	current, _, err := index.ReadPointer(ctx)
	if err != nil || current.Manifest == "" {
		return err
	}
	manifest, err := index.ManifestOf(ctx, current)
	if err != nil {
		return err
	}
	segment, err := unit.LostSegment(ctx, index, manifest)
	if err == nil && segment != "" {
		err = fault.SegmentDamage.At("serve", name).Because(segment).
			Advise("run: unweaver restore " + name + "; it prints the command for anything that it cannot restore")
	}
	if err != nil {
		return err
	}
	lost, err := unit.StoresLost(ctx, index, s.Stores.Records, s.Stores.Vectors, manifest)
	if err == nil && lost {
		err = fault.StoreDown.At("serve", name).
			Because("the entity or vector store has lost the data of generation " + current.Generation + " needs").
			Advise("run: unweaver restore " + name)
	}
	return err
}

// probeServed checks every index, and names the first of those that cannot be served.
func (s *Service) probeServed(ctx context.Context) (string, error) {
	names, err := artifact.ListIndexes(ctx, s.Stores.Artifacts)
	if err != nil {
		return "", err
	}
	wrong := make([]error, len(names))
	_ = parallel.Each(ctx, len(names), listWidth, func(ctx context.Context, i int) error {
		wrong[i] = s.checkServed(ctx, names[i])
		return nil
	})
	bad := slices.DeleteFunc(wrong, func(err error) bool { return err == nil })
	if len(bad) == 0 {
		return fmt.Sprintf("%d; all published generations can be served", len(names)), ctx.Err()
	}
	return "", fmt.Errorf("%d of %d cannot be served: %w", len(bad), len(names), bad[0])
}

// ListRuns implements Control.
func (s *Service) ListRuns(ctx context.Context, index string, limit int) ([]runlog.Summary, error) {
	names := []string{index}
	if index == "" {
		var err error
		if names, err = artifact.ListIndexes(ctx, s.Stores.Artifacts); err != nil {
			return nil, err
		}
	} else if err := checkIndex(index); err != nil {
		return nil, err
	}
	lists := make([][]runlog.Summary, len(names))
	err := parallel.Each(ctx, len(names), listWidth, func(ctx context.Context, i int) error {
		var err error
		lists[i], err = s.runLog().List(ctx, names[i], limit)
		for number := range lists[i] {
			s.confirmRun(ctx, &lists[i][number])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	runs := slices.Concat(lists...)
	slices.SortStableFunc(runs, func(one, two runlog.Summary) int { return two.Started.Compare(one.Started) })
	if index != "" && len(runs) == 0 {
		return nil, fault.RunNotFound.At("list runs of", index).
			Because("the index was never built").
			Advise("to build it: unweaver index CORPUS --index " + index)
	}
	if limit > 0 && len(runs) > limit {
		runs = runs[:limit]
	}
	return runs, nil
}

// confirmRun asks the engine about a run that goes on by what the stores say: it may have been ended from outside. What
// the engine does not answer stays as it is.
func (s *Service) confirmRun(ctx context.Context, run *runlog.Summary) {
	if core.IsTerminal(run.Status) || run.Status == runlog.Damaged {
		return
	}
	if runs, err := s.isRunning(ctx, workflows.WorkflowID(run.Run), ""); err == nil && !runs {
		run.Status, run.Reason, run.Stage = core.StatusFailed, "gone", ""
	}
}

// ReadLog implements Control.
func (s *Service) ReadLog(ctx context.Context, name string) (runlog.Log, error) {
	run, err := s.ReadStatus(ctx, name)
	if err != nil {
		return runlog.Log{}, err
	}
	return s.runLog().ReadLog(ctx, run)
}

// ReadTrends implements Control.
func (s *Service) ReadTrends(ctx context.Context, index string, nights int) ([]runlog.Trends, error) {
	if nights < 1 || nights > runlog.MostNights {
		nights = runlog.MostNights
	}
	if index != "" {
		one, err := s.runLog().ReadTrends(ctx, index, nights)
		return []runlog.Trends{one}, err
	}
	names, err := artifact.ListIndexes(ctx, s.Stores.Artifacts)
	if err != nil {
		return nil, err
	}
	out := make([]runlog.Trends, len(names))
	err = parallel.Each(ctx, len(names), listWidth, func(ctx context.Context, i int) error {
		var err error
		if out[i], err = s.runLog().ReadTrends(ctx, names[i], nights); fault.Is(err, fault.RunNotFound) {
			err = nil // nothing of it has ended yet
		}
		return err
	})
	return slices.DeleteFunc(out, func(one runlog.Trends) bool { return len(one.Nights) == 0 }), err
}
