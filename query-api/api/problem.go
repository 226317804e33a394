package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// Problem is an error as RFC 9457 tells it; Type is stable, Code is its last part.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code"`
	Hint   string `json:"hint,omitempty"`
}

const problemBase = "https://unweaver.dev/problems/"

// statuses of the codes that a query can meet (docs/contract.md, HTTP).
var statuses = map[fault.Code]int{
	fault.Usage:            http.StatusBadRequest,
	fault.UnknownIndex:     http.StatusNotFound,
	fault.UnknownGen:       http.StatusNotFound,
	fault.NotFound:         http.StatusNotFound,
	fault.GenCollected:     http.StatusGone,
	fault.TooLarge:         http.StatusRequestEntityTooLarge,
	fault.InvalidParam:     http.StatusUnprocessableEntity,
	fault.ModelRateLimited: http.StatusTooManyRequests,
	fault.EmbedderDown:     http.StatusServiceUnavailable,
	fault.StoreDown:        http.StatusServiceUnavailable,
	fault.StoreDenied:      http.StatusServiceUnavailable,
	fault.StoreFull:        http.StatusServiceUnavailable,
	fault.SegmentDamage:    http.StatusServiceUnavailable,
	fault.FormatUnknown:    http.StatusServiceUnavailable,
	fault.GenBusy:          http.StatusServiceUnavailable,
	fault.ModelUnavailable: http.StatusServiceUnavailable,
	fault.ModelAuth:        http.StatusServiceUnavailable,
	fault.EndpointRefused:  http.StatusServiceUnavailable,
	fault.ModelQuota:       http.StatusServiceUnavailable,
	fault.ModelUnknown:     http.StatusServiceUnavailable,
	fault.ModelRejected:    http.StatusServiceUnavailable,
	fault.ModelRefused:     http.StatusServiceUnavailable,
	fault.DimensionChanged: http.StatusServiceUnavailable,
	fault.BadVector:        http.StatusServiceUnavailable,
	fault.BadEmbeddings:    http.StatusServiceUnavailable,
}

// fail writes an error.
func (s *Server) fail(w http.ResponseWriter, request *http.Request, err error) {
	code := fault.CodeOf(err)
	status := statuses[code]
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		status, code = http.StatusGatewayTimeout, "timeout"
	case errors.Is(err, context.Canceled): // the caller has gone, or this replica is going
		status, code = http.StatusServiceUnavailable, "cancelled"
	}
	if status == 0 {
		status = http.StatusInternalServerError
	}
	problem := Problem{
		Type:   problemBase + string(code),
		Title:  http.StatusText(status),
		Status: status,
		Detail: err.Error(),
		Code:   string(code),
	}
	if e := fault.As(err); e != nil {
		problem.Hint = e.Hint
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(fault.RetryAfter(err)/time.Second))))
	}
	if status >= 500 {
		s.log.Warn("request failed", "code", string(code), "status", status, "path", request.Pattern)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problem) // the caller may have gone
}

func invalid(op, object, why, hint string) error {
	return fault.InvalidParam.At(op, object).Because(why).Advise(hint)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the caller may have gone
}
