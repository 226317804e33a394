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
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
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

type named struct {
	Name string `json:"name"`
}

type list struct {
	Index string `json:"index"` // empty: all
	Limit int    `json:"limit"`
}

type resumed struct {
	Name   string       `json:"name"`
	Budget *core.Budget `json:"budget,omitempty"`
}

// Access says who may use the routes: who has the token, and who has a key of a scope that suffices.
type Access struct {
	Token string
	Check func(text string) (*access.Key, error) // nil: no key is accepted
	Keys  access.Keeper                          // nil: keys cannot be made here
}

// Handler serves a Control.
func Handler(controller control.Control, allowed Access) http.Handler {
	mux := http.NewServeMux()
	if allowed.Keys != nil {
		keys(mux, allowed.Keys)
	}
	handle(mux, "index", controller.Index)
	handle(mux, "estimate", controller.Estimate)
	handle(mux, "status", func(ctx context.Context, run named) (control.Status, error) {
		return controller.Status(ctx, run.Name)
	})
	handle(mux, "pause", func(ctx context.Context, run named) (control.Stopped, error) {
		return controller.Pause(ctx, run.Name)
	})
	handle(mux, "resume", func(ctx context.Context, run resumed) (struct{}, error) {
		return struct{}{}, controller.Resume(ctx, run.Name, run.Budget)
	})
	handle(mux, "cancel", func(ctx context.Context, run named) (control.Stopped, error) {
		return controller.Cancel(ctx, run.Name)
	})
	handle(mux, "limit", func(ctx context.Context, request control.LimitRequest) (struct{}, error) {
		return struct{}{}, controller.Limit(ctx, request)
	})
	handle(mux, "lost", func(ctx context.Context, run named) (struct{}, error) {
		return struct{}{}, controller.Lost(ctx, run.Name)
	})
	handle(mux, "generations", func(ctx context.Context, index named) ([]artifact.Generation, error) {
		return controller.Generations(ctx, index.Name)
	})
	handle(mux, "move", controller.Move)
	branches(mux, controller)
	handle(mux, "diff", controller.Difference)
	handle(mux, "aliases", controller.Aliases)
	handle(mux, "operations", func(ctx context.Context, asked list) ([]core.Operation, error) {
		return controller.Operations(ctx, asked.Index, asked.Limit)
	})
	handle(mux, "indexes", func(ctx context.Context, _ struct{}) ([]runlog.Card, error) { return controller.Indexes(ctx) })
	handle(mux, "runs", func(ctx context.Context, asked list) ([]runlog.Summary, error) {
		return controller.Runs(ctx, asked.Index, asked.Limit)
	})
	handle(mux, "trends", func(ctx context.Context, asked list) ([]runlog.Trends, error) {
		return controller.Trends(ctx, asked.Index, asked.Limit)
	})
	handle(mux, "log", func(ctx context.Context, run named) (runlog.Log, error) { return controller.Log(ctx, run.Name) })
	handle(mux, "restore", func(ctx context.Context, index named) (control.Run, error) {
		return controller.Restore(ctx, index.Name)
	})
	handle(mux, "audit", func(ctx context.Context, request control.AuditRequest) (control.Run, error) {
		return controller.Audit(ctx, request)
	})
	handle(mux, "doctor", controller.Doctor)
	letters(mux, controller)
	backfills(mux, controller)
	purges(mux, controller)
	schedules(mux, controller)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodGet && request.URL.Path == proofPath {
			allowed.prove(w, request)
			return
		}
		status, owner, via := allowed.status(request)
		if status != http.StatusOK {
			refuse(w, status)
			return
		}
		ctx := control.WithOperator(request.Context(), operatorOf(request, via))
		if !owner {
			ctx = control.ForAnother(ctx)
		}
		mux.ServeHTTP(w, request.WithContext(ctx))
	})
}

// status is 200 where a request may pass. owner: it comes from who has the token, and so owns the data directory, or
// from who may make keys. via is what was shown, for the audit trail.
func (a Access) status(request *http.Request) (status int, owner bool, via string) {
	got := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	if a.Token != "" && subtle.ConstantTimeCompare([]byte(got), []byte(a.Token)) == 1 {
		return http.StatusOK, true, "token"
	}
	if a.Check == nil || got == "" {
		return http.StatusUnauthorized, false, ""
	}
	key, err := a.Check(got)
	need := access.Operate
	if strings.HasPrefix(request.URL.Path, Prefix+keysPrefix) {
		need = access.Admin
	}
	switch {
	case err != nil:
		return http.StatusUnauthorized, false, ""
	case !key.Scope.Includes(need) || key.Index != "*": // a run is of one index, control is of all
		return http.StatusForbidden, false, ""
	}
	return http.StatusOK, key.Scope.Includes(access.Admin), "key " + key.ID
}

// refuse writes a problem (RFC 9457).
func refuse(w http.ResponseWriter, status int) {
	code, why := fault.Unauthorized, "this address needs the token of the data directory's dev.json, or a key of its scope"
	if status == http.StatusForbidden {
		code, why = fault.Forbidden, "the key's scope or its indexes are too narrow"
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

// handle serves one method: the input as JSON, the result with 200, a fault with 409.
func handle[In, Out any](mux *http.ServeMux, name string, method func(context.Context, In) (Out, error)) {
	mux.HandleFunc("POST "+Prefix+name, func(w http.ResponseWriter, request *http.Request) {
		var in In
		var out Out
		err := json.NewDecoder(io.LimitReader(request.Body, longestBody)).Decode(&in)
		switch {
		case err == nil:
			err = checked(in)
		case fault.As(err) == nil:
			err = fault.Usage.At("read the request", name).Because(err)
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(request.Body, longestBody)) // its end ends the body's deadline
			out, err = method(request.Context(), in)
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(wire(err)) // the caller may have gone
			return
		}
		_ = json.NewEncoder(w).Encode(out)
	})
}

// wire is what is sent of an error: the parts of its fault, or its text.
func wire(err error) problem {
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

// fault is the error that was sent.
func (p problem) fault() error {
	out := p.Code.At(p.Op, p.Object).Advise(p.Hint)
	if p.Cause != "" {
		out = out.Because(p.Cause)
	}
	return out
}

// Client implements control.Control over HTTP.
type Client struct {
	Base  string // http://host:port
	Token string
}

var _ control.Control = (*Client)(nil)

var (
	quick   = &http.Client{Timeout: 2 * time.Minute}
	patient = &http.Client{} // these read corpora or generations: the caller ends them
)

func clientOf(method string) *http.Client {
	if method == "estimate" || method == "diff" || method == "aliases" {
		return patient
	}
	return quick
}

func call[Out any](ctx context.Context, client *Client, name string, in any) (Out, error) {
	var out Out
	raw, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, client.Base+Prefix+name, bytes.NewReader(raw))
	if err != nil {
		return out, err
	}
	req.Header.Set("Authorization", "Bearer "+client.Token)
	req.Header.Set("Content-Type", "application/json")
	asks := control.OperatorOf(ctx)
	for name, text := range map[string]string{byHeader: asks.By, reasonHeader: asks.Reason} {
		if text != "" {
			req.Header.Set(name, url.QueryEscape(text))
		}
	}
	response, err := clientOf(name).Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		return out, fault.EngineDown.At("call the embedded stack at", client.Base).
			Because(err).
			Advise("start it with: unweaver dev")
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
		if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
			return out, client.broken(name, err)
		}
		return out, nil
	case http.StatusConflict:
		var sent problem
		if err := json.NewDecoder(response.Body).Decode(&sent); err != nil {
			return out, client.broken(name, err)
		}
		return out, sent.fault()
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // what can be read is enough
	return out, fault.EngineDown.At("call the embedded stack at", client.Base).
		Because(fmt.Sprintf("%s: %s", response.Status, bytes.TrimSpace(text))).
		Advise("stop it and start it again with this version: unweaver dev")
}

// broken is the fault of an answer that breaks off or is none of ours.
func (c *Client) broken(method string, err error) error {
	return fault.EngineDown.At("read the answer of "+method+" from the embedded stack at", c.Base).
		Because(err).
		Advise("see its log; start it again with: unweaver dev")
}

// Estimate implements control.Control.
func (c *Client) Estimate(ctx context.Context, r control.IndexRequest) (core.Estimated, error) {
	return call[core.Estimated](ctx, c, "estimate", r)
}

// Index implements control.Control.
func (c *Client) Index(ctx context.Context, r control.IndexRequest) (control.Run, error) {
	return call[control.Run](ctx, c, "index", r)
}

// Status implements control.Control.
func (c *Client) Status(ctx context.Context, run string) (control.Status, error) {
	return call[control.Status](ctx, c, "status", named{run})
}

// Pause implements control.Control.
func (c *Client) Pause(ctx context.Context, run string) (control.Stopped, error) {
	return call[control.Stopped](ctx, c, "pause", named{run})
}

// Resume implements control.Control.
func (c *Client) Resume(ctx context.Context, run string, budget *core.Budget) error {
	_, err := call[struct{}](ctx, c, "resume", resumed{run, budget})
	return err
}

// Cancel implements control.Control.
func (c *Client) Cancel(ctx context.Context, run string) (control.Stopped, error) {
	return call[control.Stopped](ctx, c, "cancel", named{run})
}

// Limit implements control.Control.
func (c *Client) Limit(ctx context.Context, r control.LimitRequest) error {
	_, err := call[struct{}](ctx, c, "limit", r)
	return err
}

// Lost implements control.Control.
func (c *Client) Lost(ctx context.Context, run string) error {
	_, err := call[struct{}](ctx, c, "lost", named{run})
	return err
}

// Generations implements control.Control.
func (c *Client) Generations(ctx context.Context, index string) ([]artifact.Generation, error) {
	return call[[]artifact.Generation](ctx, c, "generations", named{index})
}

// Indexes implements control.Control.
func (c *Client) Indexes(ctx context.Context) ([]runlog.Card, error) {
	return call[[]runlog.Card](ctx, c, "indexes", struct{}{})
}

// Runs implements control.Control.
func (c *Client) Runs(ctx context.Context, index string, limit int) ([]runlog.Summary, error) {
	return call[[]runlog.Summary](ctx, c, "runs", list{index, limit})
}

// Trends implements control.Control.
func (c *Client) Trends(ctx context.Context, index string, nights int) ([]runlog.Trends, error) {
	return call[[]runlog.Trends](ctx, c, "trends", list{index, nights})
}

// Log implements control.Control.
func (c *Client) Log(ctx context.Context, run string) (runlog.Log, error) {
	return call[runlog.Log](ctx, c, "log", named{run})
}

// Audit implements control.Control.
func (c *Client) Audit(ctx context.Context, request control.AuditRequest) (control.Run, error) {
	return call[control.Run](ctx, c, "audit", request)
}

// Move implements control.Control.
func (c *Client) Move(ctx context.Context, r control.MoveRequest) (core.Move, error) {
	return call[core.Move](ctx, c, "move", r)
}

// Difference implements control.Control.
func (c *Client) Difference(ctx context.Context, r control.DifferenceRequest) (core.Difference, error) {
	return call[core.Difference](ctx, c, "diff", r)
}

// Aliases implements control.Control.
func (c *Client) Aliases(ctx context.Context, r control.AliasesRequest) (core.AliasList, error) {
	return call[core.AliasList](ctx, c, "aliases", r)
}

// Operations implements control.Control.
func (c *Client) Operations(ctx context.Context, index string, limit int) ([]core.Operation, error) {
	return call[[]core.Operation](ctx, c, "operations", list{index, limit})
}

// Restore implements control.Control.
func (c *Client) Restore(ctx context.Context, index string) (control.Run, error) {
	return call[control.Run](ctx, c, "restore", named{index})
}

// Doctor implements control.Control.
func (c *Client) Doctor(ctx context.Context, spec core.Spec) ([]control.Check, error) {
	return call[[]control.Check](ctx, c, "doctor", spec)
}
