package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core/version"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// Alive is the answer of /livez.
type Alive struct {
	Status string `json:"status" enum:"alive"`
}

func serveAlive(w http.ResponseWriter, _ *http.Request) { writeJSON(w, Alive{"alive"}) }

// Readiness is the answer of /readyz: of every store and every index that the key is for "ok", or what is wrong.
type Readiness struct {
	Status  string            `json:"status" enum:"ready,not ready"`
	Version string            `json:"version"`
	Checks  map[string]string `json:"checks" doc:"stores and indexes: ok, or what is wrong"`
	Indexes []IndexReadiness  `json:"indexes"`
}

// States of an index in this replica.
const (
	stateReady   = "ready"
	stateBehind  = "behind"  // an older generation serves, since the newer one cannot be opened
	stateOpening = "opening" // nothing is open yet
	stateFailed  = "failed"  // nothing is open, and the last opening failed
	stateClosed  = "closed"  // nothing is open; the first request for it opens it
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
func (r IndexReadiness) canServe() bool { return r.State != stateFailed && !r.first }

// isOpen reports whether queries are answered at once.
func (r IndexReadiness) isOpen() bool { return r.State == stateReady || r.State == stateBehind }

// describeState returns what checks say of the index.
func (r IndexReadiness) describeState() string {
	switch r.State {
	case stateReady:
		return "ok"
	case stateBehind:
		return "ok with generation " + r.Generation + "; cannot open the newer one: " + r.Cause
	case stateOpening:
		return "its generation is being opened"
	case stateClosed:
		return "ok, opens at the first request"
	}
	return r.Cause
}

// checkReadiness returns the readiness of the index; false where nothing is published under its name any more.
func (x *index) checkReadiness(name string) (IndexReadiness, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := IndexReadiness{Index: name, State: stateClosed, first: x.ahead && x.failed == nil}
	switch {
	case x.current != nil:
		out.State, out.Generation = stateReady, x.current.Manifest.Generation
	case x.opening != nil || x.asked:
		out.State = stateOpening
	}
	if err := x.failed; err != nil && !fault.Is(err, fault.GenBusy) { // else it only found no room
		out.State = stateFailed
		if x.current != nil {
			out.State = stateBehind
		}
		out.Code, out.Cause = string(fault.CodeOf(err)), redact.Text(err.Error())
		if e := fault.As(err); e != nil {
			out.Remedy = redact.Text(e.Hint)
		}
	}
	return out, x.readAt.IsZero() || x.published.Manifest != ""
}

// noteFailure notes that the index cannot be served, where nothing of it is open.
func (x *index) noteFailure(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.current == nil {
		x.failed = err
	}
}

// serveReady probes the replica: every store answers, the indexes are known, and those that are opened at start are
// open; others are opened when they are asked for. An index that cannot be opened is shown and takes nothing else away:
// the replica is ready as long as it serves another. With ?index= it is that index which counts, and it is opened.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	out := Readiness{Version: version.String(), Checks: map[string]string{}, Indexes: []IndexReadiness{}}
	ready := true
	for name, err := range s.probeStores(ctx) {
		out.Checks[name] = "ok"
		if err != nil {
			out.Checks[name], ready = redact.Text(err.Error()), false
		}
	}
	var err error
	if one := r.URL.Query().Get("index"); one != "" {
		out.Indexes, err = s.readinessOf(ctx, one)
	} else {
		out.Indexes = s.allReadiness(middleware.CallerOf(r.Context()).MayRead)
		if !s.listed.Load() {
			out.Checks["indexes"], ready = "the indexes are being listed", false
		}
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	one := r.URL.Query().Has("index")
	for _, index := range out.Indexes {
		out.Checks["index "+index.Index] = index.describeState()
		ready = ready && (!one || index.isOpen())
	}
	if ready && canServeOne(out.Indexes) {
		out.Status = "ready"
		writeJSON(w, out)
		return
	}
	out.Status = "not ready"
	w.Header().Set("Content-Type", "application/json") // before the status, which ends the headers
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	writeJSON(w, out)
}

// canServeOne reports whether the indexes that are opened at start are open, and any index can be served.
func canServeOne(indexes []IndexReadiness) bool {
	return !slices.ContainsFunc(indexes, func(index IndexReadiness) bool { return index.first }) &&
		(len(indexes) == 0 || slices.ContainsFunc(indexes, IndexReadiness.canServe))
}

// CheckReadiness returns what the internal /readyz says of stores and indexes, in states and codes, and whether the
// replica is ready, as serveReady has it.
func (s *Server) CheckReadiness(ctx context.Context) (checks map[string]string, ready bool) {
	checks, ready = map[string]string{}, s.listed.Load()
	if !ready {
		checks["indexes"] = "opening: they are being listed"
	}
	for name, err := range s.probeStores(ctx) {
		checks[name] = "ok"
		if err != nil {
			checks[name], ready = string(fault.CodeOf(err)), false
		}
	}
	indexes := s.allReadiness(func(string) bool { return true })
	for _, index := range indexes {
		state := index.State
		switch {
		case state == stateReady || state == stateClosed && !index.first:
			state = "ok"
		case state == stateClosed:
			state = stateOpening // it is its turn soon
		case index.Code != "":
			state += " (" + index.Code + ")"
		}
		checks["index "+index.Index] = state
	}
	return checks, ready && canServeOne(indexes)
}

// probeStores asks every store, side by side, and returns nil or what is wrong by its name.
func (s *Server) probeStores(ctx context.Context) map[string]error {
	out := map[string]error{}
	var mu sync.Mutex
	var probes sync.WaitGroup
	for name, probe := range map[string]func() error{
		"artifacts": func() error { _, err := artifact.StoreID(ctx, s.Artifacts); return err },
		"classes":   func() error { return s.Records.Ping(ctx) },
		"vectors":   func() error { return s.Vectors.Ping(ctx) },
	} {
		probes.Go(func() {
			err := probe()
			mu.Lock()
			defer mu.Unlock()
			out[name] = err
		})
	}
	probes.Wait()
	return out
}

// allReadiness returns the readiness of all indexes that who asks may know, in the order of names.
func (s *Server) allReadiness(mayRead func(index string) bool) []IndexReadiness {
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

// readinessOf returns the readiness of one index; fault.UnknownIndex where nothing is published under its name. One
// that was published since the start is opened.
func (s *Server) readinessOf(ctx context.Context, name string) ([]IndexReadiness, error) {
	if !middleware.CallerOf(ctx).MayRead(name) {
		return nil, unknownIndex(name)
	}
	pointer, err := s.findPointer(ctx, name)
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
