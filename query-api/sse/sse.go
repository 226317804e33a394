// Package sse writes streams of server-sent events, each of which reaches the client at once.
package sse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// quiet is how long nothing comes before a comment keeps the connection alive: proxies end it after half a minute.
const quiet = 10 * time.Second

var errClosed = errors.New("the stream is closed")

// Writer writes one stream. The answer begins with the first event; until then it can be any other. Close must be
// called.
type Writer struct {
	plain   http.ResponseWriter
	control *http.ResponseController
	mu      sync.Mutex
	began   bool
	timer   *time.Timer
	err     error // the first of a write: the client has gone
}

// New makes a writer over an answer that has not begun.
func New(plain http.ResponseWriter) *Writer {
	return &Writer{plain: plain, control: http.NewResponseController(plain)}
}

// HasBegun reports whether an event was sent, so that the answer can be no other any more.
func (w *Writer) HasBegun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.began
}

// JSON sends a value as an event of a name; empty: without one.
func (w *Writer) JSON(name string, value any) error {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	return w.SendText(name, string(bytes.TrimSpace(data.Bytes())))
}

// SendText sends a line as an event of a name; empty: without one.
func (w *Writer) SendText(name, line string) error {
	event := "data: " + line + "\n\n"
	if name != "" {
		event = "event: " + name + "\n" + event
	}
	return w.sendEvent(event)
}

func (w *Writer) sendEvent(event string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if !w.began {
		w.began = true
		header := w.plain.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-store, no-transform") // compressing would hold events back
		header.Set("X-Accel-Buffering", "no")
		w.timer = time.AfterFunc(quiet, func() { _ = w.sendEvent(": waiting\n\n") })
	}
	if _, w.err = w.plain.Write([]byte(event)); w.err == nil {
		w.err = w.control.Flush()
	}
	if w.err != nil { // as where the request's context ends it
		w.err = fmt.Errorf("%w: %w", context.Canceled, w.err)
	}
	// The deadline of a write must not end a stream of HTTP/2 that waits for its next event. Recorders have none.
	_ = w.control.SetWriteDeadline(time.Time{})
	w.timer.Reset(quiet)
	return w.err
}

// Close ends the stream; the answer is complete.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.err = errClosed // a comment that is on its way must not be written behind the answer
}
