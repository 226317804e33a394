package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/telemetry"
)

// HeaderRequestID carries the id of a request: taken from who asks where it is one, else made here. The answer, the
// access log and errors have it.
const HeaderRequestID = "X-Request-Id"

// saneID is what is taken from who asks: it ends up in logs.
var saneID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}$`)

type requestID struct{}

// idOf returns the id of the request of this context, or empty.
func idOf(ctx context.Context) string {
	id, _ := ctx.Value(requestID{}).(string)
	return id
}

// status of an answer, as far as it is out.
type statusWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Flush lets streaming handlers work through the measurement.
func (w *statusWriter) Flush() {
	if flusher, ok := w.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// matched is the route that a request took, filled in where the router knows it, and who took it to which index.
type matched struct {
	pattern, operation, index, key, labels string
	control                                bool
}

type matchedKey struct{}

// matchedOf returns what is known of the route of a request; nil outside of one.
func matchedOf(ctx context.Context) *matched {
	route, _ := ctx.Value(matchedKey{}).(*matched)
	return route
}

// noteRoute notes the route for what surrounds the guard: the request that it hands on is another one.
func noteRoute(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		next.ServeHTTP(w, request)
		if route := matchedOf(request.Context()); route != nil {
			route.pattern = request.Pattern
		}
	})
}

// observeRequest gives every request an id, a span, its place in the metrics and one line in the log, also those that
// are refused before their route. The log has routes, never paths: these hold keys of documents.
func (s *Server) observeRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(plain http.ResponseWriter, request *http.Request) {
		began := time.Now()
		id := request.Header.Get(HeaderRequestID)
		if !saneID.MatchString(id) {
			id = rand.Text()
		}
		plain.Header().Set(HeaderRequestID, id)
		route := &matched{}
		ctx := context.WithValue(context.WithValue(request.Context(), requestID{}, id), matchedKey{}, route)
		ctx, end := telemetry.BeginRequest(ctx, request.Header)
		w := &statusWriter{ResponseWriter: plain}
		defer func() {
			if w.status == 0 {
				w.status = http.StatusOK // nothing was written
			}
			pattern := cmp.Or(route.pattern, "none")
			if s.servesSignOn(request) { // before any route
				pattern = request.URL.Path
			}
			took := time.Since(began)
			end(pattern, w.status)
			s.Telemetry.Time(telemetry.HTTPSeconds, took, pattern, http.StatusText(w.status))
			line := []any{
				"request_id", id, "route", pattern, "status", w.status, "seconds", took.Seconds(), "bytes", w.bytes,
			}
			for _, known := range [][2]string{
				{"operation", route.operation}, {"index", route.index}, {"key", route.key},
				{"labels", route.labels},
			} {
				if known[1] != "" {
					line = append(line, known[0], known[1])
				}
			}
			s.log.Log(ctx, accessLevel(pattern, w.status), "request", line...)
		}()
		request = request.WithContext(ctx)
		if err := serveWhole(next, w, request); err != nil {
			s.log.ErrorContext(ctx, "request broke off", "request_id", id, "error", err)
			if w.status != 0 { // part of an answer was written
				panic(http.ErrAbortHandler)
			}
			s.writeError(w, request, err)
		}
	})
}

// serveWhole serves a request. A panic, as of a file that is damaged, is an error of this request alone.
func serveWhole(next http.Handler, w http.ResponseWriter, request *http.Request) (err error) {
	defer parallel.CatchPanic(&err)
	next.ServeHTTP(w, request)
	return nil
}

// accessLevel keeps what machines ask every few seconds out of the log, as long as it is answered well.
func accessLevel(pattern string, status int) slog.Level {
	for _, probe := range []string{"/livez", "/readyz", "/metrics", "/admin/v1/"} {
		if strings.HasSuffix(pattern, probe) && status < 400 {
			return slog.LevelDebug
		}
	}
	return slog.LevelInfo
}
