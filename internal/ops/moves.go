package ops

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/build/releases"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops/port"
	"github.com/unweaver/unweaver/internal/store/localfile"
	"github.com/unweaver/unweaver/internal/stream/scratch"
)

// Move implements Control. It needs neither the engine nor a worker: what is served can be changed while both are down.
func (s *Service) Move(ctx context.Context, r MoveRequest) (corpus.Move, error) {
	if !corpus.ValidIndex(r.Index) {
		return corpus.Move{}, slug("index", r.Index)
	}
	desk := releases.Desk{
		Artifacts: s.Stores.Artifacts, Mirror: s.Stores.Coordination, Records: s.Stores.Records, Vectors: s.Stores.Vectors,
	}
	return desk.Do(ctx, releases.Request{
		Action: r.Action, Index: r.Index, Generation: r.Generation, To: r.To, Name: r.Name, Force: r.Force,
		Operator: port.OperatorOf(ctx),
	})
}

// Operations implements Control.
func (s *Service) Operations(ctx context.Context, index string, limit int) ([]corpus.Operation, error) {
	if !corpus.ValidIndex(index) {
		return nil, slug("index", index)
	}
	return releases.Operations(ctx, s.artifacts(index), limit)
}

// Difference implements Control. What differs is copied to a folder of its own for as long.
func (s *Service) Difference(ctx context.Context, r DifferenceRequest) (out corpus.Difference, err error) {
	if !corpus.ValidIndex(r.Index) {
		return out, slug("index", r.Index)
	}
	folder, err := scratch.Folder()
	if err != nil {
		return out, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	cache, err := localfile.New(folder, 0)
	if err != nil {
		return out, err
	}
	return releases.Difference(ctx, cache, s.artifacts(r.Index), r.From, r.To)
}

// recordPatience is how long a command on a run waits for its record: one that stops a run must not wait for a store
// that is out.
const recordPatience = 5 * time.Second

// recorded does a command on a run between the two records of its operation. Where these cannot be written, the command
// is done all the same, as it may be what saves money, and the error says so.
func (s *Service) recorded(ctx context.Context, action, run string, do func() error) error {
	name, _, _ := strings.Cut(run, "/")
	index := s.artifacts(name)
	bounded, cancel := context.WithTimeout(ctx, recordPatience)
	op, unrecorded := releases.Begin(bounded, index, time.Now(), corpus.Operation{
		Action: action, Run: run, Operator: port.OperatorOf(ctx),
	})
	cancel()
	err := do()
	if unrecorded == nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
		defer cancel()
		unrecorded = releases.End(bounded, index, op, releases.OutcomeOf(time.Now(), err))
	}
	if unrecorded == nil || err != nil {
		return err
	}
	if fault.As(unrecorded) == nil && errors.Is(unrecorded, context.DeadlineExceeded) {
		unrecorded = fault.StoreDown.At("write", "operations").Because(unrecorded)
	}
	return fault.CodeOf(unrecorded).At("record "+action+" of", run).
		Because(unrecorded).
		Advise("it took effect; the audit trail does not have it")
}
