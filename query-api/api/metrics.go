package api

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/query-api/middleware"
)

// serveMetrics gives the metrics, whose labels name every index.
func (s *Server) serveMetrics(w http.ResponseWriter, request *http.Request) {
	caller := middleware.CallerOf(request.Context())
	err := caller.NeedAll()
	if proof := caller.NeedProof(); err == nil && proof != nil { // they count what not everybody may know of
		ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
		defer cancel()
		err = s.served.NeedUnlabelled(ctx, proof)
	}
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	s.Telemetry.Handler().ServeHTTP(w, request)
}
