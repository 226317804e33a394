// Package problem is an error of query-api as its callers see it (RFC 9457), and the statuses of errors.
package problem

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/fault"
)

// Base is what types of problems begin with; their codes follow.
const Base = "https://unweaver.dev/problems/"

// Problem is an error in the form of RFC 9457; Type is stable, Code is its last part.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code"`
	Hint   string `json:"hint,omitempty"`
	Param  string `json:"param,omitempty" doc:"the field or parameter at fault"`

	Run       string `json:"run,omitempty" doc:"of a conflict: the run in the way, index/generation"`
	RequestID string `json:"request_id,omitempty" doc:"id of the request, as in X-Request-Id and the log"`
	Reference string `json:"reference,omitempty" doc:"search the log for it to find the hidden cause"`

	RetryAfter time.Duration `json:"-"` // in the header; 0: no waiting helps
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// As finds the problem in an error, or gives nil.
func As(err error) *Problem {
	var problem *Problem
	if errors.As(err, &problem) {
		return problem
	}
	return nil
}

// statuses of the codes that a query can meet (docs/reference/formats.md, HTTP).
var statuses = map[fault.Code]int{
	fault.Usage:            http.StatusBadRequest,
	fault.Unauthorized:     http.StatusUnauthorized,
	fault.Forbidden:        http.StatusForbidden,
	fault.NoSuchMethod:     http.StatusMethodNotAllowed,
	fault.BodyTimeout:      http.StatusRequestTimeout,
	fault.Timeout:          http.StatusGatewayTimeout,
	fault.Cancelled:        http.StatusServiceUnavailable,
	fault.MediaType:        http.StatusUnsupportedMediaType,
	fault.Misdirected:      http.StatusMisdirectedRequest,
	fault.RateLimited:      http.StatusTooManyRequests,
	fault.BudgetSpent:      http.StatusTooManyRequests,
	fault.KeysUnknown:      http.StatusServiceUnavailable,
	fault.QuotaUnknown:     http.StatusServiceUnavailable,
	fault.UnknownIndex:     http.StatusNotFound,
	fault.UnknownGen:       http.StatusNotFound,
	fault.NotFound:         http.StatusNotFound,
	fault.RunNotFound:      http.StatusNotFound,
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
	fault.ModelAuth:        http.StatusBadGateway,
	fault.EndpointRefused:  http.StatusServiceUnavailable,
	fault.ModelQuota:       http.StatusBadGateway,
	fault.ModelUnknown:     http.StatusBadGateway,
	fault.ModelRejected:    http.StatusBadGateway,
	fault.ModelRefused:     http.StatusBadGateway,
	fault.ModelUnreadable:  http.StatusBadGateway,
	fault.DimensionChanged: http.StatusServiceUnavailable,
	fault.BadVector:        http.StatusServiceUnavailable,
	fault.BadEmbeddings:    http.StatusServiceUnavailable,
}

// controlStatuses are those of codes that builds, steering and uploads meet, and no query.
var controlStatuses = map[fault.Code]int{
	fault.NoControl:         http.StatusNotImplemented,
	fault.LeaseHeld:         http.StatusConflict,
	fault.RunEnded:          http.StatusConflict,
	fault.Precondition:      http.StatusConflict,
	fault.PointerMoved:      http.StatusConflict,
	fault.CorpusChanged:     http.StatusConflict,
	fault.BadConfig:         http.StatusServiceUnavailable,
	fault.CorpusMissing:     http.StatusServiceUnavailable,
	fault.CorpusRefused:     http.StatusServiceUnavailable,
	fault.EngineDown:        http.StatusServiceUnavailable,
	fault.ControlUnreadable: http.StatusServiceUnavailable,
}

// WriteJSON answers with a status and a value.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // the caller may have gone
}

// StatusOf returns the status of an error, of queries or of control.
func StatusOf(err error, control bool) int {
	var conflict *desk.Conflict
	if control && errors.As(err, &conflict) {
		return http.StatusConflict
	}
	return cmp.Or(statusOf(fault.CodeOf(err), control), http.StatusInternalServerError)
}

// statusOf returns the status of a code; 0: that of a fault of this program.
func statusOf(code fault.Code, control bool) int {
	if own, known := controlStatuses[code]; control && known {
		return own
	}
	return statuses[code]
}

// CodesOf returns the codes that have a status, of queries or of control.
func CodesOf(status int, control bool) (out []fault.Code) {
	for _, code := range fault.Codes() {
		if statusOf(code, control) == status || statuses[code] == status {
			out = append(out, code)
		}
	}
	return out
}
