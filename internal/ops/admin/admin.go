// Package admin carries control over HTTP under /admin/v1, protected by a token, so that the files of the embedded
// stack have one owner: the process that serves it.
package admin

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops"
	"github.com/unweaver/unweaver/internal/store/artifact"
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

// resumed is a run with its new budget, if it gets one.
type resumed struct {
	Name   string         `json:"name"`
	Budget *corpus.Budget `json:"budget,omitempty"`
}

// Handler serves a Control.
func Handler(control ops.Control, token string) http.Handler {
	mux := http.NewServeMux()
	handle(mux, "index", control.Index)
	handle(
		mux,
		"status",
		func(ctx context.Context, n named) (ops.Status, error) { return control.Status(ctx, n.Name) },
	)
	handle(
		mux,
		"pause",
		func(ctx context.Context, n named) (struct{}, error) { return struct{}{}, control.Pause(ctx, n.Name) },
	)
	handle(
		mux,
		"resume",
		func(ctx context.Context, r resumed) (struct{}, error) {
			return struct{}{}, control.Resume(ctx, r.Name, r.Budget)
		},
	)
	handle(
		mux,
		"cancel",
		func(ctx context.Context, n named) (struct{}, error) { return struct{}{}, control.Cancel(ctx, n.Name) },
	)
	handle(mux, "generations", func(ctx context.Context, n named) ([]artifact.Generation, error) {
		return control.Generations(ctx, n.Name)
	})
	handle(
		mux,
		"restore",
		func(ctx context.Context, n named) (ops.Run, error) { return control.Restore(ctx, n.Name) },
	)
	handle(mux, "doctor", control.Doctor)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		got := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(got), []byte(token)) != 1 {
			http.Error(w, "this address needs the token of the data directory's dev.json", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, request)
	})
}

func handle[A, B any](m *http.ServeMux, name string, f func(context.Context, A) (B, error)) {
	m.HandleFunc("POST "+Prefix+name, func(w http.ResponseWriter, request *http.Request) {
		var a A
		err := json.NewDecoder(io.LimitReader(request.Body, 4<<20)).Decode(&a)
		if err != nil {
			err = fault.Usage.At("read body", "").Because(err)
		}
		var b B
		if err == nil {
			b, err = f(request.Context(), a)
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			p := problem{Code: fault.CodeOf(err), Cause: err.Error()}
			if e := fault.As(err); e != nil {
				p.Op, p.Object, p.Hint, p.Cause = e.Op, e.Object, e.Hint, ""
				if e.Err != nil {
					p.Cause = e.Err.Error()
				}
			}
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(p) // the caller may have gone
			return
		}
		_ = json.NewEncoder(w).Encode(b)
	})
}

// Client implements ops.Control over HTTP.
type Client struct {
	Base  string // http://host:port
	Token string
}

var _ ops.Control = (*Client)(nil)

var httpClient = &http.Client{Timeout: 2 * time.Minute}

func call[B any](ctx context.Context, client *Client, name string, a any) (B, error) {
	var out B
	raw, err := json.Marshal(a)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, client.Base+Prefix+name, bytes.NewReader(raw))
	if err != nil {
		return out, err
	}
	req.Header.Set("Authorization", "Bearer "+client.Token)
	req.Header.Set("Content-Type", "application/json")
	response, err := httpClient.Do(req)
	if err != nil {
		return out, fault.EngineDown.At("call the embedded stack at", client.Base).
			Because(err).
			Advise("start it with: unweaver dev")
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
		return out, json.NewDecoder(response.Body).Decode(&out)
	case http.StatusConflict:
		var p problem
		if err := json.NewDecoder(response.Body).Decode(&p); err != nil {
			return out, err
		}
		var cause any
		if p.Cause != "" {
			cause = p.Cause
		}
		return out, p.Code.At(p.Op, p.Object).Because(cause).Advise(p.Hint)
	}
	t, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
	return out, fault.EngineDown.At("call the embedded stack at", client.Base).
		Because(fmt.Sprintf("%s: %s", response.Status, t))
}

// Index implements ops.Control.
func (c *Client) Index(ctx context.Context, r ops.IndexRequest) (ops.Run, error) {
	return call[ops.Run](ctx, c, "index", r)
}

// Status implements ops.Control.
func (c *Client) Status(ctx context.Context, run string) (ops.Status, error) {
	return call[ops.Status](ctx, c, "status", named{run})
}

// Pause implements ops.Control.
func (c *Client) Pause(ctx context.Context, run string) error {
	_, err := call[struct{}](ctx, c, "pause", named{run})
	return err
}

// Resume implements ops.Control.
func (c *Client) Resume(ctx context.Context, run string, budget *corpus.Budget) error {
	_, err := call[struct{}](ctx, c, "resume", resumed{run, budget})
	return err
}

// Cancel implements ops.Control.
func (c *Client) Cancel(ctx context.Context, run string) error {
	_, err := call[struct{}](ctx, c, "cancel", named{run})
	return err
}

// Generations implements ops.Control.
func (c *Client) Generations(ctx context.Context, index string) ([]artifact.Generation, error) {
	return call[[]artifact.Generation](ctx, c, "generations", named{index})
}

// Restore implements ops.Control.
func (c *Client) Restore(ctx context.Context, index string) (ops.Run, error) {
	return call[ops.Run](ctx, c, "restore", named{index})
}

// Doctor implements ops.Control.
func (c *Client) Doctor(ctx context.Context, spec corpus.Spec) ([]ops.Check, error) {
	return call[[]ops.Check](ctx, c, "doctor", spec)
}
