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
	Generation string `json:"generation,omitempty" doc:"that is served"`
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
		return "ok, by generation " + r.Generation + "; the newer one: " + r.Cause
	case stateOpening:
		return "its generation is being opened"
	case stateClosed:
		return "ok, and opened by the first request for it"
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
	out := Readiness{Version: version.String(), Checks: s.probeStores(ctx), Indexes: []IndexReadiness{}}
	ready := true
	for _, said := range out.Checks {
		ready = ready && said == "ok"
	}
	var err error
	if one := r.URL.Query().Get("index"); one != "" {
		out.Indexes, err = s.readinessOf(ctx, one)
	} else {
		out.Indexes = s.allReadiness(middleware.CallerOf(r.Context()))
		if !s.listed.Load() {
			out.Checks["indexes"], ready = "they are being listed", false
		}
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	serving, one := 0, r.URL.Query().Has("index")
	for _, index := range out.Indexes {
		out.Checks["index "+index.Index] = index.describeState()
		if index.canServe() {
			serving++
		}
		ready = ready && !index.first && (!one || index.isOpen())
	}
	if ready = ready && (serving > 0 || len(out.Indexes) == 0); ready {
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

// probeStores asks every store, side by side: "ok", or what is wrong.
func (s *Server) probeStores(ctx context.Context) map[string]string {
	out := map[string]string{}
	var mu sync.Mutex
	var probes sync.WaitGroup
	for name, probe := range map[string]func() error{
		"artifacts": func() error { _, err := artifact.StoreID(ctx, s.Artifacts); return err },
		"classes":   func() error { return s.Records.Ping(ctx) },
		"vectors":   func() error { return s.Vectors.Ping(ctx) },
	} {
		probes.Go(func() {
			said := "ok"
			if err := probe(); err != nil {
				said = redact.Text(err.Error())
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = said
		})
	}
	probes.Wait()
	return out
}

// allReadiness returns the readiness of all indexes that the caller may know, in the order of names.
func (s *Server) allReadiness(caller *middleware.Caller) []IndexReadiness {
	out := []IndexReadiness{}
	for name, x := range s.listServed() {
		if !caller.MayRead(name) {
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
