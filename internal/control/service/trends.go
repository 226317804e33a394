package service

import (
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

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
