package runlog

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Trends are the last nights of an index, and what they come to together.
type Trends struct {
	Index  string       `json:"index"`
	Nights []core.Night `json:"nights" doc:"the oldest first"`
	Totals Totals       `json:"totals"`
}

// Totals are sums over nights.
type Totals struct {
	Nights    int     `json:"nights"`
	Published int     `json:"published"`
	Unchanged int     `json:"unchanged"`
	Held      int     `json:"held"`
	Failed    int     `json:"failed"`
	Cancelled int     `json:"cancelled"`
	Calls     int64   `json:"calls"`
	Tokens    int64   `json:"tokens"`
	Cost      float64 `json:"cost"`
	Seconds   float64 `json:"seconds"`
	Bytes     int64   `json:"bytes"`
}

// MostNights bounds how many nights are asked for at once.
const MostNights = core.MostNights

// ReadTrends gives the last nights of an index, at most so many. The error is fault.RunNotFound where there was none.
func (s Source) ReadTrends(ctx context.Context, index string, most int) (Trends, error) {
	out := Trends{Index: index, Nights: []core.Night{}}
	if !core.ValidIndex(index) {
		return out, fault.InvalidParam.At("read the nights of", fault.QuoteName(index)).Because("it is no name of an index")
	}
	kept, err := s.readNights(ctx, index)
	if err != nil {
		return out, err
	}
	if len(kept.Nights) == 0 {
		return out, fault.RunNotFound.At("read the nights of", index).
			Because("nights.json names no build of the index that ended").
			Advise("to list its runs: unweaver runs " + index + "; to build it: unweaver index CORPUS --index " + index)
	}
	out.Nights = append(out.Nights, kept.Nights[max(0, len(kept.Nights)-most):]...)
	for _, night := range out.Nights {
		out.Totals.addNight(night)
	}
	return out, nil
}

// readNights reads the nights that an index keeps: none where they are not kept yet, or are damaged.
func (s Source) readNights(ctx context.Context, index string) (kept core.Nights, err error) {
	_, err = blob.ReadJSON(ctx, s.Artifacts, artifact.Index{Name: index}.NightsKey(), &kept)
	if artifact.IsDamage(err) {
		return core.Nights{}, nil
	}
	return kept, err
}

func (t *Totals) addNight(night core.Night) {
	t.Nights++
	switch {
	case night.Status == core.StatusHeld:
		t.Held++
	case night.Status == core.StatusFailed:
		t.Failed++
	case night.Status == core.StatusCancelled:
		t.Cancelled++
	case night.Unchanged:
		t.Unchanged++
	}
	if night.Published {
		t.Published++
	}
	t.Calls += night.Calls
	t.Tokens += night.Tokens
	t.Cost += night.Cost
	t.Seconds += night.Seconds
	t.Bytes += night.Bytes
}
