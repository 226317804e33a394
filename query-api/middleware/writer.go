package middleware

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// piece of an answer that has a deadline of its own: who reads slowly gets all, who does not read is let go.
const piece = 32 << 10

// writer sets headers and deadlines, and makes problems of what the router and others say in plain text or HTML.
type writer struct {
	http.ResponseWriter
	guard   *Guard
	request *http.Request
	control *http.ResponseController
	began   bool // headers are out
	swallow bool // the body is that of an error which was written in another form
}

func (g *Guard) newWriter(plain http.ResponseWriter, request *http.Request) *writer {
	w := &writer{
		ResponseWriter: plain, guard: g, request: request, control: http.NewResponseController(plain),
	}
	header := plain.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Cache-Control", "no-store")
	if request.TLS != nil {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
	_ = w.control.SetWriteDeadline(time.Time{}) // a deadline of the request before; recorders have none
	if request.Body != nil && request.Body != http.NoBody {
		_ = w.control.SetReadDeadline(time.Now().Add(g.policy.BodyTimeout))
		request.Body = &body{ReadCloser: request.Body, control: w.control, timeout: g.policy.BodyTimeout}
	}
	return w
}

// body ends its deadline when it has been read: what is computed then may take longer.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	timeout time.Duration

	large  bool          // it is an upload
	read   int64         // bytes of an upload
	waited time.Duration // for an upload
}

// An upload may be large. The whole of it has the time of other bodies, and more for what has come: it comes at this
// rate on average, and the server waits no longer for it than this. What it waits for the store does not count.
const (
	slowestUpload = 16 << 10 // bytes a second
	longestUpload = time.Hour
)

// ExtendBody gives a body the time of an upload.
func ExtendBody(request *http.Request) {
	if guarded, ok := request.Body.(*body); ok {
		guarded.large = true
	}
}

// Read implements io.Reader. A body that did not come in time is fault.BodyTimeout.
func (b *body) Read(p []byte) (int, error) {
	began := time.Now()
	if b.large {
		due := min(b.timeout+time.Duration(b.read/slowestUpload)*time.Second, longestUpload) - b.waited
		_ = b.control.SetReadDeadline(began.Add(min(due, b.timeout))) // recorders have none
	}
	n, err := b.ReadCloser.Read(p)
	b.read, b.waited = b.read+int64(n), b.waited+time.Since(began)
	switch late := errors.Is(err, os.ErrDeadlineExceeded); {
	case late && b.large:
		return n, fault.BodyTimeout.At("read body", "").
			Because(fmt.Sprintf("%d bytes of it arrived in %s", b.read, b.waited.Round(time.Second))).
			Advise("send an upload within an hour, at 16 KiB a second or more")
	case late:
		return n, fault.BodyTimeout.At("read body", "").Because("it did not arrive in time")
	}
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.began || w.swallow {
		return
	}
	kind := w.Header().Get("Content-Type")
	if status >= 300 && !strings.HasPrefix(kind, "application/") && status != http.StatusNotModified {
		w.swallow = true
		w.Header().Del("Location")
		w.Header().Del("Content-Length")
		plain := *w
		plain.swallow = false
		w.guard.fail(&plain, w.request, plainFault(w.request.Method, w.Header().Get("Allow"), status))
		w.began = true
		return
	}
	w.began = true
	w.ResponseWriter.WriteHeader(status)
}

// plainFault returns the fault of an error of the router or the library, which writes a status and no cause.
func plainFault(method, allow string, status int) error {
	switch {
	case status == http.StatusMethodNotAllowed:
		return fault.NoSuchMethod.At("find", "this address").
			Because("it does not support the method " + fault.QuoteName(method)).
			Advise("use " + allow)
	case status == http.StatusUnauthorized:
		return errNoKey
	case status < 500:
		return fault.NotFound.At("find", "this address").
			Because("the API has no such address").
			Advise("see the list of addresses at /openapi.json")
	}
	return fault.Internal.At("answer", "").Because("status " + strconv.Itoa(status))
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if w.swallow {
		return len(p), nil
	}
	w.began = true
	written := 0
	for {
		part := p[written:min(len(p), written+piece)]
		_ = w.control.SetWriteDeadline(time.Now().Add(w.guard.policy.WriteTimeout)) // recorders have none
		n, err := w.ResponseWriter.Write(part)
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// limitWrites gives what is still in buffers a deadline.
func (w *writer) limitWrites() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.guard.policy.WriteTimeout))
}

// Flush implements http.Flusher, for what stands between the guard and a handler that streams.
func (w *writer) Flush() { _ = w.control.Flush() } // recorders may not know how

// Unwrap lets http.ResponseController reach the connection.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
