package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// imageLine is one line of the answer to a transfer: how far it is, or how it ended.
type imageLine struct {
	core.Transfer
	Ended   bool     `json:"ended"`
	Problem *problem `json:"problem,omitempty"`
}

// handleImage serves MoveImage as lines of JSON. A caller that goes ends the transfer.
func handleImage(mux *http.ServeMux, c control.Control) {
	mux.HandleFunc("POST "+Prefix+"image", func(w http.ResponseWriter, request *http.Request) {
		var in control.ImageRequest
		err := readRequest("image", io.LimitReader(request.Body, longestBody), &in)
		if err == nil {
			err = checkNames(in)
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		out, flusher := json.NewEncoder(w), http.NewResponseController(w)
		last := imageLine{Ended: true}
		if err == nil {
			last.Transfer, err = c.MoveImage(request.Context(), in, func(now core.Transfer) {
				_ = errors.Join(out.Encode(imageLine{Transfer: now}), flusher.Flush()) // the caller may have gone
			})
		}
		if err != nil {
			sent := toProblem(err)
			last.Problem = &sent
		}
		_ = out.Encode(last) // the caller may have gone
	})
}

// MoveImage implements control.Control.
func (c *Client) MoveImage(
	ctx context.Context, r control.ImageRequest, report func(core.Transfer),
) (core.Transfer, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return core.Transfer{}, err
	}
	response, err := c.post(ctx, "image", bytes.NewReader(raw))
	if err != nil {
		return core.Transfer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	lines := json.NewDecoder(response.Body)
	for {
		var line imageLine
		if err := lines.Decode(&line); err != nil {
			if ctx.Err() != nil {
				return line.Transfer, ctx.Err()
			}
			return line.Transfer, fault.EngineDown.At("move an image by the embedded stack at", c.Base).
				Because(err).
				Advise("run the same command again: it continues")
		}
		switch {
		case line.Problem != nil:
			return line.Transfer, line.Problem.toFault()
		case line.Ended:
			return line.Transfer, nil
		}
		report(line.Transfer)
	}
}
