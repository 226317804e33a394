package api

import (
	"context"
	"net/http"
	"time"

	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/version"
	"github.com/unweaver/unweaver/query-api/guard"
)

// Alive is the answer of /livez.
type Alive struct {
	Status string `json:"status" enum:"alive"`
}

func alive(w http.ResponseWriter, _ *http.Request) { writeJSON(w, Alive{"alive"}) }

// Readiness is the answer of /readyz: of every store and every index that the key is for "ok", or what is wrong.
type Readiness struct {
	Status  string            `json:"status" enum:"ready,not ready"`
	Version string            `json:"version"`
	Checks  map[string]string `json:"checks"`
}

// ready really probes: every store answers, the indexes are known, and each of them has a generation open.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	out := Readiness{Status: "ready", Version: version.String(), Checks: map[string]string{}}
	fail := func(name, why string) { out.Status, out.Checks[name] = "not ready", why }
	for name, probe := range map[string]func() error{
		"artifacts": func() error { _, err := artifact.StoreID(ctx, s.Artifacts); return err },
		"classes":   func() error { return s.Records.Ping(ctx) },
		"vectors":   func() error { return s.Vectors.Ping(ctx) },
	} {
		out.Checks[name] = "ok"
		if err := probe(); err != nil {
			fail(name, err.Error())
		}
	}
	if !s.listed.Load() {
		fail("indexes", "they are being listed")
	}
	caller := guard.Of(r.Context())
	for name, x := range s.served() {
		if !caller.May(name) {
			continue // as if it were not there: names do not leak
		}
		state, ok := x.state()
		out.Checks["index "+name] = state
		if !ok {
			fail("index "+name, state)
		}
	}
	if out.Status != "ready" {
		w.Header().Set("Content-Type", "application/json") // before the status, which ends the headers
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	writeJSON(w, out)
}
