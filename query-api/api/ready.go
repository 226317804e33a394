package api

import (
	"context"
	"net/http"
	"time"

	"github.com/unweaver/unweaver/internal/core/version"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/problem"
	"github.com/unweaver/unweaver/query-api/served"
)

// Alive is the answer of /livez.
type Alive struct {
	Status string `json:"status" enum:"alive"`
}

func serveAlive(w http.ResponseWriter, _ *http.Request) { writeJSON(w, Alive{"alive"}) }

// Readiness is the answer of /readyz: of every store and every index that the key is for "ok", or what is wrong.
type Readiness struct {
	Status  string                  `json:"status" enum:"ready,not ready"`
	Version string                  `json:"version"`
	Checks  map[string]string       `json:"checks" doc:"stores and indexes: ok, or what is wrong"`
	Indexes []served.IndexReadiness `json:"indexes"`
}

// serveReady probes the replica: every store answers, the indexes are known, and those that are opened at start are
// open; others are opened when they are asked for. An index that cannot be opened is shown and takes nothing else away:
// the replica is ready as long as it serves another. With ?index= it is that index which counts, and it is opened.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	out := Readiness{Version: version.String(), Checks: map[string]string{}, Indexes: []served.IndexReadiness{}}
	ready := true
	for name, err := range s.served.ProbeStores(ctx) {
		out.Checks[name] = "ok"
		if err != nil {
			out.Checks[name], ready = redact.Text(err.Error()), false
		}
	}
	var err error
	one := r.URL.Query().Get("index")
	if one != "" {
		out.Indexes, err = s.served.ReadinessOf(ctx, one)
	} else {
		out.Indexes = s.served.AllReadiness(middleware.CallerOf(r.Context()).MayRead)
		if !s.served.AreListed() {
			out.Checks["indexes"], ready = "the indexes are being listed", false
		}
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	for _, index := range out.Indexes {
		out.Checks["index "+index.Index] = index.DescribeState()
		ready = ready && (one == "" || index.IsOpen())
	}
	if ready && served.CanServeOne(out.Indexes) {
		out.Status = "ready"
		writeJSON(w, out)
		return
	}
	out.Status = "not ready"
	w.Header().Set("Retry-After", "1")
	problem.WriteJSON(w, http.StatusServiceUnavailable, out)
}
