// Package problem is an error of query-api as its callers see it (RFC 9457), and the statuses of errors.
package problem

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
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

// queryCodes are the codes that a query can meet, by status (docs/reference/formats.md, HTTP).
var queryCodes = map[int][]fault.Code{
	http.StatusBadRequest:       {fault.Usage},
	http.StatusUnauthorized:     {fault.Unauthorized},
	http.StatusForbidden:        {fault.Forbidden},
	http.StatusMethodNotAllowed: {fault.NoSuchMethod},
	http.StatusRequestTimeout:   {fault.BodyTimeout},
	http.StatusGatewayTimeout:   {fault.Timeout},
	http.StatusServiceUnavailable: {
		fault.Cancelled, fault.KeysUnknown, fault.QuotaUnknown, fault.EmbedderDown, fault.StoreDown, fault.StoreDenied,
		fault.StoreFull, fault.SegmentDamage, fault.FormatUnknown, fault.GenBusy, fault.ModelUnavailable,
		fault.EndpointRefused, fault.DimensionChanged, fault.BadVector, fault.BadEmbeddings,
	},
	http.StatusUnsupportedMediaType:  {fault.MediaType},
	http.StatusMisdirectedRequest:    {fault.Misdirected},
	http.StatusTooManyRequests:       {fault.RateLimited, fault.BudgetSpent, fault.ModelRateLimited},
	http.StatusNotFound:              {fault.UnknownIndex, fault.UnknownGen, fault.NotFound, fault.RunNotFound},
	http.StatusGone:                  {fault.GenCollected},
	http.StatusRequestEntityTooLarge: {fault.TooLarge},
	http.StatusUnprocessableEntity:   {fault.InvalidParam},
	http.StatusBadGateway: {
		fault.ModelAuth, fault.ModelQuota, fault.ModelUnknown, fault.ModelRejected, fault.ModelRefused,
		fault.ModelUnreadable,
	},
}

// controlCodes are those that builds, steering and uploads meet, and no query.
var controlCodes = map[int][]fault.Code{
	http.StatusNotImplemented: {fault.NoControl},
	http.StatusConflict: {
		fault.LeaseHeld, fault.RunEnded, fault.Precondition, fault.PointerMoved, fault.CorpusChanged, fault.IndexPulled,
	},
	http.StatusServiceUnavailable: {
		fault.BadConfig, fault.CorpusMissing, fault.CorpusRefused, fault.EngineDown, fault.ControlUnreadable,
	},
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
	status := findStatus(queryCodes, fault.CodeOf(err))
	if status == 0 && control {
		status = findStatus(controlCodes, fault.CodeOf(err))
	}
	return cmp.Or(status, http.StatusInternalServerError)
}

func findStatus(in map[int][]fault.Code, code fault.Code) int {
	for status, codes := range in {
		if slices.Contains(codes, code) {
			return status
		}
	}
	return 0
}

// CodesOf returns the codes that have a status, of queries or of control.
func CodesOf(status int, control bool) (out []fault.Code) {
	for _, code := range fault.Codes() {
		if slices.Contains(queryCodes[status], code) || control && slices.Contains(controlCodes[status], code) {
			out = append(out, code)
		}
	}
	return out
}
