package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/page"
)

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
}

const problemBase = "https://unweaver.dev/problems/"

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

// statusOf returns the status of an error; 0: that of a fault of this program.
func statusOf(ctx context.Context, err error) int {
	code := fault.CodeOf(err)
	if route := matchedOf(ctx); route == nil || !route.control {
		return statuses[code]
	}
	var conflict *desk.Conflict
	if errors.As(err, &conflict) {
		return http.StatusConflict
	}
	return cmp.Or(controlStatuses[code], statuses[code])
}

// writeError writes an error.
func (s *Server) writeError(w http.ResponseWriter, request *http.Request, err error) {
	err = s.explainAbsence(request.Context(), err)
	problem, status := s.toProblem(request.Context(), request.Pattern, err)
	if writeAgentProblem(w, request, problem, err) {
		return
	}
	if wait := retryAfter(status, err); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)))
	}
	if s.servesSignOn(request) && request.Method == http.MethodGet &&
		strings.Contains(request.Header.Get("Accept"), "text/html") { // a person sees it
		_, why, _ := strings.Cut(problem.Detail, ": ") // what was attempted is plain
		page.WriteFailure(w, status, why, problem.Hint)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problem) // the caller may have gone
}

// servesSignOn reports whether sign-on itself answers a request.
func (s *Server) servesSignOn(request *http.Request) bool {
	return s.Policy.SignOn != nil && s.Policy.SignOn.Serves(request.URL.Path)
}

// retryAfter returns when to ask again; zero where no waiting helps, as a person has to act first.
func retryAfter(status int, err error) time.Duration {
	wish := fault.RetryAfter(err)
	if fault.Is(err, fault.BudgetSpent) { // ours: it renews at midnight
		wish = fault.As(err).RetryAfter
	}
	passes := wish > 0 || fault.KindOf(err) == fault.Transient || errors.Is(err, context.Canceled)
	if !passes || status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
		return 0
	}
	return max(time.Second, wish)
}

// explainAbsence returns fault.StoreDown in place of an error that says that something does not exist, where the store
// itself is missing: clients take a 404 for final.
func (s *Server) explainAbsence(ctx context.Context, err error) error {
	switch fault.CodeOf(err) {
	case fault.UnknownIndex, fault.UnknownGen, fault.GenCollected, fault.RunNotFound:
		if _, missing := artifact.StoreID(ctx, s.Artifacts); fault.Is(missing, fault.StoreDown) {
			return missing
		}
	}
	return err
}

// toProblem returns an error as the caller sees it; the log has the rest.
func (s *Server) toProblem(ctx context.Context, route string, err error) (problem Problem, status int) {
	cause := err
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fault.Timeout.At("answer", "the request").Because("it took longer than it may").
			Advise("ask once more, without answer or for fewer passages")
	case errors.Is(err, context.Canceled):
		err = fault.Cancelled.At("answer", "the request").Because("its client has gone, or this server stops").
			Advise("ask again")
	}
	code := fault.CodeOf(err)
	status = cmp.Or(statusOf(ctx, err), http.StatusInternalServerError)
	problem = Problem{
		Type:   problemBase + string(code),
		Title:  http.StatusText(status),
		Status: status,
		Detail: redact.Text(err.Error()),
		Code:   string(code),

		RequestID: idOf(ctx),
	}
	if e := fault.As(err); e != nil {
		problem.Hint = redact.Text(e.Hint)
		problem.Detail = strings.TrimSuffix(problem.Detail, " ("+problem.Hint+")")
	}
	if fault.Is(err, fault.InvalidParam) {
		problem.Param = fault.As(err).Object
	} else if fault.Is(err, fault.UnknownGen) {
		problem.Param = "generation"
	}
	var conflict *desk.Conflict
	if errors.As(err, &conflict) {
		problem.Run = conflict.Run
	}
	logged := []any{
		"request_id", problem.RequestID, "code", string(code), "status", status, "route", route,
	}
	if !isCallerFault(err) && !middleware.CallerOf(ctx).Includes(access.Operate) {
		problem.Reference = newReference()
		problem.Hint = ""
		problem.Detail = "the cause is in the server's log under the reference"
		logged = append(logged, "reference", problem.Reference, "error", err.Error())
		if status < 500 {
			s.log.Warn("request failed", logged...)
		}
	}
	if status >= 500 {
		if !errors.Is(err, cause) { // which says in which step
			logged = append(logged, "error", redact.Text(cause.Error()))
		}
		s.log.Warn("request failed", logged...)
	}
	return problem, status
}

// isCallerFault says whether an error is about what the caller sent, and so may be asked to all. Others may name
// stores, paths and hosts.
func isCallerFault(err error) bool {
	e := fault.As(err)
	if e == nil {
		return false
	}
	switch e.Code {
	case fault.Usage, fault.InvalidParam, fault.TooLarge, fault.UnknownIndex, fault.UnknownGen, fault.GenCollected,
		fault.RunNotFound, fault.Timeout, fault.Cancelled,
		fault.GenBusy, fault.Unauthorized, fault.Forbidden, fault.NoSuchMethod, fault.BodyTimeout, fault.MediaType,
		fault.Misdirected, fault.RateLimited, fault.BudgetSpent, fault.KeysUnknown,
		fault.QuotaUnknown:
		return true
	case fault.NotFound:
		return strings.HasPrefix(e.Op, "find") // ours; those of stores read and stat
	}
	return false
}

// newReference returns a random reference, which names an error in the log.
func newReference() string {
	raw := make([]byte, 6)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}

func newFault(op, object, why, hint string) error {
	return fault.InvalidParam.At(op, object).Because(why).Advise(hint)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the caller may have gone
}
