package served

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// States of an index in this replica.
const (
	StateReady   = "ready"
	StateBehind  = "behind"  // an older generation serves, since the newer one cannot be opened
	StateOpening = "opening" // nothing is open yet
	StateFailed  = "failed"  // nothing is open, and the last opening failed
	StateClosed  = "closed"  // nothing is open; the first request for it opens it
)

// IndexReadiness says whether an index is served by this replica, and what to do where it is not.
type IndexReadiness struct {
	Index      string `json:"index"`
	State      string `json:"state" enum:"ready,behind,opening,failed,closed"`
	Generation string `json:"generation,omitempty" doc:"generation that is served"`
	Code       string `json:"code,omitempty"`
	Cause      string `json:"cause,omitempty"`
	Remedy     string `json:"remedy,omitempty"`

	first bool // it is opened at start, which the replica is not ready before
}

// canServe reports whether queries are answered, at once or after an opening.
func (r IndexReadiness) canServe() bool { return r.State != StateFailed && !r.first }

// IsOpen reports whether queries are answered at once.
func (r IndexReadiness) IsOpen() bool { return r.State == StateReady || r.State == StateBehind }

// DescribeState returns what checks say of the index.
func (r IndexReadiness) DescribeState() string {
	switch r.State {
	case StateReady:
		return "ok"
	case StateBehind:
		return "ok with generation " + r.Generation + "; cannot open the newer one: " + r.Cause
	case StateOpening:
		return "its generation is being opened"
	case StateClosed:
		return "ok, opens at the first request"
	}
	return r.Cause
}

// checkReadiness returns the readiness of the index; false where nothing is published under its name any more.
func (x *index) checkReadiness(name string) (IndexReadiness, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := IndexReadiness{Index: name, State: StateClosed, first: x.ahead && x.failed == nil}
	switch {
	case x.current != nil:
		out.State, out.Generation = StateReady, x.current.Manifest.Generation
	case x.opening != nil || x.asked:
		out.State = StateOpening
	}
	if err := x.failed; err != nil && !fault.Is(err, fault.GenBusy) { // else it only found no room
		out.State = StateFailed
		if x.current != nil {
			out.State = StateBehind
		}
		out.Code, out.Cause = string(fault.CodeOf(err)), redact.Text(err.Error())
		if e := fault.As(err); e != nil {
			out.Remedy = redact.Text(e.Hint)
		}
	}
	return out, x.readAt.IsZero() || x.published.Manifest != ""
}

// ServingState returns the state of an index in this replica.
func (s *Set) ServingState(name string) string {
	readiness, _ := s.ensureIndex(name).checkReadiness(name)
	return readiness.State
}

// noteFailure notes that the index cannot be served, where nothing of it is open.
func (x *index) noteFailure(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.current == nil {
		x.failed = err
	}
}

// CanServeOne reports whether the indexes that are opened at start are open, and any index can be served.
func CanServeOne(indexes []IndexReadiness) bool {
	return !slices.ContainsFunc(indexes, func(index IndexReadiness) bool { return index.first }) &&
		(len(indexes) == 0 || slices.ContainsFunc(indexes, IndexReadiness.canServe))
}

// CheckReadiness returns what the internal /readyz says of stores and indexes, in states and codes, and whether the
// replica is ready, as serveReady has it.
func (s *Set) CheckReadiness(ctx context.Context) (checks map[string]string, ready bool) {
	checks, ready = map[string]string{}, s.listed.Load()
	if !ready {
		checks["indexes"] = "opening: they are being listed"
	}
	for name, err := range s.ProbeStores(ctx) {
		checks[name] = "ok"
		if err != nil {
			checks[name], ready = string(fault.CodeOf(err)), false
		}
	}
	indexes := s.AllReadiness(func(string) bool { return true })
	for _, index := range indexes {
		state := index.State
		switch {
		case state == StateReady || state == StateClosed && !index.first:
			state = "ok"
		case state == StateClosed:
			state = StateOpening // it is its turn soon
		case index.Code != "":
			state += " (" + index.Code + ")"
		}
		checks["index "+index.Index] = state
	}
	return checks, ready && CanServeOne(indexes)
}

// ProbeStores asks every store, side by side, and returns nil or what is wrong by its name.
func (s *Set) ProbeStores(ctx context.Context) map[string]error {
	var artifacts, classes, vectors error
	var probes sync.WaitGroup
	probes.Go(func() { _, artifacts = artifact.StoreID(ctx, s.Artifacts) })
	probes.Go(func() { classes = s.Records.Ping(ctx) })
	probes.Go(func() { vectors = s.Vectors.Ping(ctx) })
	probes.Wait()
	return map[string]error{"artifacts": artifacts, "classes": classes, "vectors": vectors}
}

// AllReadiness returns the readiness of all indexes that who asks may know, in the order of names.
func (s *Set) AllReadiness(mayRead func(index string) bool) []IndexReadiness {
	out := []IndexReadiness{}
	for name, x := range s.listServed() {
		if !mayRead(name) {
			continue // as if it were not there: names do not leak
		}
		if one, published := x.checkReadiness(name); published {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b IndexReadiness) int { return strings.Compare(a.Index, b.Index) })
	return out
}

// ReadinessOf returns the readiness of one index; fault.UnknownIndex where nothing is published under its name. One
// that was published since the start is opened.
func (s *Set) ReadinessOf(ctx context.Context, name string) ([]IndexReadiness, error) {
	if !middleware.CallerOf(ctx).MayRead(name) {
		return nil, UnknownIndex(name)
	}
	pointer, err := s.FindPointer(ctx, name)
	switch {
	case fault.Is(err, fault.UnknownIndex):
		return nil, err
	case err != nil:
		s.mu.Lock()
		x := s.indexes[name]
		s.mu.Unlock()
		if x == nil { // it is unknown whether it is there
			return nil, err
		}
		x.noteFailure(err)
	default:
		x := s.ensureIndex(name)
		x.countWaiting(1)
		x.startOpening(s, name, pointer)
		x.countWaiting(-1)
	}
	one, _ := s.ensureIndex(name).checkReadiness(name)
	return []IndexReadiness{one}, nil
}
