// Package admin carries control over HTTP under /admin/v1, protected by a token, so that the files of the embedded stack
// have one owner: the process that serves it.
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

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/control"
)

// Prefix of the routes.
const Prefix = "/admin/v1/"

// problem is an error on the wire.
type problem struct {
	Code   fault.Code `json:"code"`
	Kind   fault.Kind `json:"kind"`
	Op     string     `json:"op"`
	Object string     `json:"object"`
	Cause  string     `json:"cause"`
	Hint   string     `json:"hint"`
}

type named struct {
	Name string `json:"name"`
}

// Handler serves a Control.
func Handler(c control.Control, token string) http.Handler {
	m := http.NewServeMux()
	handle(m, "index", c.Index)
	handle(m, "status", func(ctx context.Context, n named) (control.Status, error) { return c.Status(ctx, n.Name) })
	handle(m, "pause", func(ctx context.Context, n named) (struct{}, error) { return struct{}{}, c.Pause(ctx, n.Name) })
	handle(m, "resume", func(ctx context.Context, n named) (struct{}, error) { return struct{}{}, c.Resume(ctx, n.Name) })
	handle(m, "cancel", func(ctx context.Context, n named) (struct{}, error) { return struct{}{}, c.Cancel(ctx, n.Name) })
	handle(m, "generations", func(ctx context.Context, n named) ([]artifact.Generation, error) { return c.Generations(ctx, n.Name) })
	handle(m, "restore", func(ctx context.Context, n named) (control.Run, error) { return c.Restore(ctx, n.Name) })
	handle(m, "doctor", c.Doctor)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(got), []byte(token)) != 1 {
			http.Error(w, "this address needs the token of the data directory's dev.json", http.StatusUnauthorized)
			return
		}
		m.ServeHTTP(w, r)
	})
}

func handle[A, B any](m *http.ServeMux, name string, f func(context.Context, A) (B, error)) {
	m.HandleFunc("POST "+Prefix+name, func(w http.ResponseWriter, r *http.Request) {
		var a A
		err := json.NewDecoder(io.LimitReader(r.Body, 4<<20)).Decode(&a)
		if err != nil {
			err = fault.New(fault.Usage, fault.Bad, "read body", "", err, "")
		}
		var b B
		if err == nil {
			b, err = f(r.Context(), a)
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			p := problem{Code: fault.CodeOf(err), Kind: fault.KindOf(err), Cause: err.Error()}
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

// Client implements control.Control over HTTP.
type Client struct {
	Base  string // http://host:port
	Token string
}

var _ control.Control = (*Client)(nil)

var httpClient = &http.Client{Timeout: 2 * time.Minute}

func call[B any](ctx context.Context, c *Client, name string, a any) (B, error) {
	var out B
	b, err := json.Marshal(a)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+Prefix+name, bytes.NewReader(b))
	if err != nil {
		return out, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("Content-Type", "application/json")
	r, err := httpClient.Do(req)
	if err != nil {
		return out, fault.New(fault.EngineDown, fault.Transient, "call the embedded stack at", c.Base, err, "start it with: unweaver dev")
	}
	defer func() { _ = r.Body.Close() }()
	switch r.StatusCode {
	case http.StatusOK:
		return out, json.NewDecoder(r.Body).Decode(&out)
	case http.StatusConflict:
		var p problem
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			return out, err
		}
		var cause any
		if p.Cause != "" {
			cause = p.Cause
		}
		return out, fault.New(p.Code, p.Kind, p.Op, p.Object, cause, p.Hint)
	}
	t, _ := io.ReadAll(io.LimitReader(r.Body, 1000))
	return out, fault.New(fault.EngineDown, fault.Fatal, "call the embedded stack at", c.Base, fmt.Sprintf("%s: %s", r.Status, t), "")
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
func (c *Client) Pause(ctx context.Context, run string) error {
	_, err := call[struct{}](ctx, c, "pause", named{run})
	return err
}

// Resume implements control.Control.
func (c *Client) Resume(ctx context.Context, run string) error {
	_, err := call[struct{}](ctx, c, "resume", named{run})
	return err
}

// Cancel implements control.Control.
func (c *Client) Cancel(ctx context.Context, run string) error {
	_, err := call[struct{}](ctx, c, "cancel", named{run})
	return err
}

// Generations implements control.Control.
func (c *Client) Generations(ctx context.Context, index string) ([]artifact.Generation, error) {
	return call[[]artifact.Generation](ctx, c, "generations", named{index})
}

// Restore implements control.Control.
func (c *Client) Restore(ctx context.Context, index string) (control.Run, error) {
	return call[control.Run](ctx, c, "restore", named{index})
}

// Doctor implements control.Control.
func (c *Client) Doctor(ctx context.Context, spec corpus.Spec) ([]control.Check, error) {
	return call[[]control.Check](ctx, c, "doctor", spec)
}
