package api

import (
	"context"
	"crypto/rand"
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
	"github.com/unweaver/unweaver/query-api/chat"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/page"
	"github.com/unweaver/unweaver/query-api/problem"
)

// writeError writes an error.
func (s *Server) writeError(w http.ResponseWriter, request *http.Request, err error) {
	err = s.explainAbsence(request.Context(), err)
	shown := s.toProblem(request.Context(), request.Pattern, err)
	if chat.IsChatPath(request.URL.Path) {
		chat.WriteProblem(w, shown)
		return
	}
	if wait := shown.RetryAfter; wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)))
	}
	if s.servesSignOn(request) && request.Method == http.MethodGet &&
		strings.Contains(request.Header.Get("Accept"), "text/html") { // a person sees it
		_, why, _ := strings.Cut(shown.Detail, ": ") // what was attempted is plain
		page.WriteFailure(w, shown.Status, why, shown.Hint)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(shown.Status)
	_ = json.NewEncoder(w).Encode(shown) // the caller may have gone
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
func (s *Server) toProblem(ctx context.Context, pattern string, err error) *problem.Problem {
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
	route := matchedOf(ctx)
	status := problem.StatusOf(err, route != nil && route.control)
	shown := &problem.Problem{
		Type:   problem.Base + string(code),
		Title:  http.StatusText(status),
		Status: status,
		Detail: redact.Text(err.Error()),
		Code:   string(code),

		RequestID:  idOf(ctx),
		RetryAfter: retryAfter(status, cause),
	}
	if e := fault.As(err); e != nil {
		shown.Hint = redact.Text(e.Hint)
		shown.Detail = strings.TrimSuffix(shown.Detail, " ("+shown.Hint+")")
	}
	if fault.Is(err, fault.InvalidParam) {
		shown.Param = fault.As(err).Object
	} else if fault.Is(err, fault.UnknownGen) {
		shown.Param = "generation"
	}
	var conflict *desk.Conflict
	if errors.As(err, &conflict) {
		shown.Run = conflict.Run
	}
	logged := []any{
		"request_id", shown.RequestID, "code", string(code), "status", status, "route", pattern,
	}
	if !isCallerFault(err) && !middleware.CallerOf(ctx).Includes(access.Operate) {
		shown.Reference = rand.Text()
		shown.Hint = ""
		shown.Detail = "the cause is in the server's log under the reference"
		logged = append(logged, "reference", shown.Reference, "error", err.Error())
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
	return shown
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

func newFault(op, object, why, hint string) error {
	return fault.InvalidParam.At(op, object).Because(why).Advise(hint)
}

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, v any) { problem.WriteJSON(w, http.StatusOK, v) }
