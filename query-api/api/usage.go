package api

import (
	"net/http"
	"time"

	"github.com/unweaver/unweaver/query-api/middleware"
)

// KeyUsage is the answer of GET /v1/usage.
type KeyUsage struct {
	Key      string                `json:"key" doc:"id of the key, or sub: and the person; empty: neither is shown"`
	RenewsIn int64                 `json:"renews_in" doc:"seconds until midnight UTC, when counting begins again"`
	Quotas   []middleware.QuotaUse `json:"quotas" doc:"empty: nothing is bounded"`
}

// serveUsage answers GET /v1/usage.
func (s *Server) serveUsage(w http.ResponseWriter, request *http.Request) {
	caller := middleware.CallerOf(request.Context())
	quotas, renews, err := caller.ReadQuotas(request.Context())
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	writeJSON(w, KeyUsage{caller.ID(), int64(renews / time.Second), quotas})
}
