// Package httpapi carries control over HTTP under /admin/v1, protected by a token, so that the files of the embedded
// stack have one owner: the process that serves it.
package httpapi

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
)

// Prefix of the routes.
const Prefix = "/admin/v1/"

// problem is an error on the wire.
type problem struct {
	Code   fault.Code `json:"code"`
	Op     string     `json:"op"`
	Object string     `json:"object"`
	Cause  string     `json:"cause"`
	Hint   string     `json:"hint"`
}

// Access says who may use the routes: who has the token, and who has a key of a scope that suffices.
type Access struct {
	Token string
	Check func(ctx context.Context, text string) (*access.Key, error) // nil: no key is accepted
	Keys  access.Keeper                                               // nil: keys cannot be made here
}

// Handler serves a Control.
func Handler(controller control.Control, allowed Access) http.Handler {
	mux := http.NewServeMux()
	if allowed.Keys != nil {
		addRoutes(mux, allowed.Keys)
	}
	addRoutes(mux, guardRights(controller))
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodGet && request.URL.Path == proofPath {
			allowed.answerChallenge(w, request)
			return
		}
		status, owner, readers, via := allowed.checkRequest(request)
		if status != http.StatusOK {
			refuseRequest(w, status)
			return
		}
		ctx := control.WithOperator(request.Context(), operatorOf(request, via))
		if !owner {
			ctx = control.ForAnother(ctx)
		}
		ctx = context.WithValue(ctx, readersKey{}, readers)
		mux.ServeHTTP(w, request.WithContext(ctx))
	})
}

// checkRequest returns 200 where a request may pass. owner: it comes from who has the token, and so owns the data
// directory, or from who may make keys. via is what was shown, for the audit trail.
func (a Access) checkRequest(request *http.Request) (status int, owner bool, readers core.Readers, via string) {
	got := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	if a.Token != "" && subtle.ConstantTimeCompare([]byte(got), []byte(a.Token)) == 1 {
		return http.StatusOK, true, core.Readers{All: true}, "token"
	}
	if a.Check == nil || got == "" {
		return http.StatusUnauthorized, false, readers, ""
	}
	key, err := a.Check(request.Context(), got)
	need := access.Operate
	if strings.HasPrefix(request.URL.Path, Prefix+keysPrefix) {
		need = access.Admin
	}
	switch {
	case err != nil:
		return http.StatusUnauthorized, false, readers, ""
	case !key.Scope.Includes(need) || key.Index != "*": // a run is of one index, control is of all
		return http.StatusForbidden, false, readers, ""
	}
	return http.StatusOK, key.Scope.Includes(access.Admin), core.ReadersOf(key.Labels), "key " + key.ID
}

// readersKey is the key under which a context says what who asks may read.
type readersKey struct{}

func readersOf(ctx context.Context) core.Readers {
	readers, _ := ctx.Value(readersKey{}).(core.Readers)
	return readers
}

// refuseRequest writes a problem (RFC 9457).
func refuseRequest(w http.ResponseWriter, status int) {
	code, why := fault.Unauthorized, "this address needs the token of the data directory's dev.json, or a key of its scope"
	if status == http.StatusForbidden {
		code, why = fault.Forbidden, "the scope or the indexes of the API key do not allow this"
	}
	w.Header().Set("Content-Type", "application/problem+json")
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="unweaver"`)
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // the caller may have gone
		"type": "https://unweaver.dev/problems/" + string(code), "title": http.StatusText(status), "status": status,
		"code": code, "detail": why,
	})
}

// longestBody of a request, in bytes.
const longestBody = 4 << 20

func writeAnswer(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the caller may have gone
}

// toProblem returns what is sent of an error: the parts of its fault, or its text.
func toProblem(err error) problem {
	e := fault.As(err)
	if e == nil {
		return problem{Code: fault.CodeOf(err), Cause: redact.Text(err.Error())}
	}
	out := problem{Code: e.Code, Op: e.Op, Object: redact.Text(e.Object), Hint: redact.Text(e.Hint)}
	if e.Err != nil {
		out.Cause = redact.Text(e.Err.Error())
	}
	return out
}

// toFault returns the error that was sent.
func (p problem) toFault() error {
	out := p.Code.At(p.Op, p.Object).Advise(p.Hint)
	if p.Cause != "" {
		out = out.Because(p.Cause)
	}
	return out
}

// Client asks a server for what its control does, and for its keys.
type Client struct {
	control.Control
	Keys access.Keeper

	base, token string
}

// keysPrefix of the routes that make and end keys.
const keysPrefix = "keys/"

var (
	quick   = &http.Client{Timeout: 2 * time.Minute}
	patient = &http.Client{} // these read corpora or whole indexes: the caller ends them
)

func clientOf(method string) *http.Client {
	if slices.Contains([]string{"delete", "estimate", "diff", "aliases", "image"}, method) {
		return patient
	}
	return quick
}

// ask sends a request to a method and reads its answer.
func (c *Client) ask(ctx context.Context, name string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	response, err := c.post(ctx, name, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var refused problem
	switch response.StatusCode {
	case http.StatusOK:
		err = json.NewDecoder(response.Body).Decode(out)
	case http.StatusConflict:
		if err = json.NewDecoder(response.Body).Decode(&refused); err == nil {
			return refused.toFault()
		}
	default:
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // what can be read is enough
		return fault.EngineDown.At("call the embedded stack at", c.base).
			Because(fmt.Sprintf("%s: %s", response.Status, bytes.TrimSpace(text))).
			Advise("stop it, then start it with this version: unweaver dev")
	}
	if err != nil { // it breaks off or is none of ours
		err = fault.EngineDown.At("read the answer of "+name+" from the embedded stack at", c.base).
			Because(err).
			Advise("check its log; to restart it: unweaver dev")
	}
	return err
}

// post sends a request to a method.
func (c *Client) post(ctx context.Context, name string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+Prefix+name, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	asks := control.OperatorOf(ctx)
	for name, text := range map[string]string{byHeader: asks.By, reasonHeader: asks.Reason} {
		if text != "" {
			req.Header.Set(name, url.QueryEscape(text))
		}
	}
	response, err := clientOf(name).Do(req)
	if err != nil && ctx.Err() == nil {
		err = fault.EngineDown.At("call the embedded stack at", c.base).
			Because(err).
			Advise("to start it: unweaver dev")
	} else if err != nil {
		err = ctx.Err()
	}
	return response, err
}

// Headers that say who asks, and why, for the audit trail; percent-encoded, as both are of any language.
const (
	byHeader     = "X-Unweaver-By"
	reasonHeader = "X-Unweaver-Reason"
)

// operatorOf returns who asks. What they say of themselves is recorded beside what they have shown.
func operatorOf(request *http.Request, via string) core.Operator {
	said := func(header string) string {
		text, err := url.QueryUnescape(request.Header.Get(header))
		if err != nil {
			return ""
		}
		return text
	}
	return core.Operator{By: said(byHeader), Reason: said(reasonHeader), Via: via}
}
