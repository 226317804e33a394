package chat

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/query-api/problem"
)

// Failure is an error in the form of OpenAI.
type Failure struct {
	Error FailureBody `json:"error"`
}

// FailureBody says what is wrong. Code is that of the problem (query-api's other routes), but model_not_found and
// unsupported_parameter.
type FailureBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Param   *string `json:"param"`
}

// spoken are the addresses below which clients of this form ask.
var spoken = []string{"/v1/chat", "/v1/completions", "/v1/embeddings", "/v1/models", "/v1/responses"}

// IsChatPath reports whether a path is one of this form, so that its errors are too.
func IsChatPath(path string) bool {
	return slices.ContainsFunc(spoken, func(known string) bool { return strings.HasPrefix(path+"/", known+"/") })
}

// WriteProblem writes a problem in the form of OpenAI.
func WriteProblem(w http.ResponseWriter, wrong *problem.Problem) {
	if wrong.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wrong.RetryAfter/time.Second)))
	}
	problem.WriteJSON(w, wrong.Status, FailureOf(wrong))
}

func (s Service) writeError(w http.ResponseWriter, request *http.Request, err error) {
	WriteProblem(w, s.problemOf(request.Context(), err))
}

// problemOf returns an error of this package, or one of what it asked.
func (s Service) problemOf(ctx context.Context, err error) *problem.Problem {
	if wrong := problem.As(err); wrong != nil {
		return wrong
	}
	return s.Problem(ctx, err)
}

// FailureOf returns a problem in the form of OpenAI.
func FailureOf(problem *problem.Problem) Failure {
	body := FailureBody{Message: problem.Detail, Type: typeOf(problem.Status), Code: problem.Code}
	if problem.Hint != "" && !strings.Contains(body.Message, problem.Hint) {
		body.Message += " (" + problem.Hint + ")"
	}
	if problem.Reference != "" {
		body.Message += " (reference " + problem.Reference + ")"
	}
	if problem.Param != "" {
		body.Param = &problem.Param
	}
	switch problem.Code {
	case "unknown_index":
		param := "model"
		body.Code, body.Param = "model_not_found", &param
	case "not_found":
		body.Message = problem.Detail + " (use /v1/chat/completions or /v1/responses; see /openapi.json)"
	}
	return Failure{body}
}

// typeOf returns the type that clients of this form know for a status.
func typeOf(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}
