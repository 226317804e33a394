// Package stall ends exchanges by HTTP that move no byte.
package stall

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// errStalled ends an exchange that moves nothing; the store calls it transient.
var errStalled = errors.New("no byte moved for too long")

// Guard ends exchanges that stall: a connection that is open and silent would hold its caller for ever, and a deadline
// for the whole would punish large objects on slow lines. A time begins again with every byte that moves. It runs while
// the request is on its way, and in every Read of an answer's body, but not while the reader of a body does something
// else. Between the last byte of a request and the first of its answer the store may think twice as long.
type Guard struct {
	Send  func(*http.Request) (*http.Response, error)
	Limit time.Duration
}

// RoundTrip implements http.RoundTripper.
func (g Guard) RoundTrip(request *http.Request) (*http.Response, error) { return g.Do(request) }

// Do implements aws.HTTPClient.
func (g Guard) Do(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	watch := &watch{ctx: ctx, cancel: cancel, limit: g.Limit}
	watch.timer = time.AfterFunc(2*g.Limit, func() { cancel(errStalled) })
	request = request.WithContext(ctx)
	if request.Body != nil && request.Body != http.NoBody {
		watch.restartTimer(g.Limit)
		request.Body = &sending{request.Body, watch}
	}
	response, err := g.Send(request)
	watch.markAnswered()
	if err != nil {
		err = watch.causeOf(err)
		cancel(nil)
		return response, err
	}
	response.Body = &receiving{response.Body, watch}
	return response, nil
}

type watch struct {
	ctx    context.Context //nolint:containedctx // of the exchange that is watched
	cancel context.CancelCauseFunc
	limit  time.Duration

	mu       sync.Mutex
	timer    *time.Timer
	answered bool
}

// restartTimer begins the time of a request again, unless the answer is there already: a store may answer early, while
// the rest of the body is still asked for.
func (w *watch) restartTimer(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.answered {
		w.timer.Reset(limit)
	}
}

// markAnswered ends the time of the request.
func (w *watch) markAnswered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = true
	w.timer.Stop()
}

// causeOf distinguishes a stall from other ends of the exchange.
func (w *watch) causeOf(err error) error {
	if errors.Is(context.Cause(w.ctx), errStalled) {
		return errStalled
	}
	return err
}

// sending is the body of a request: each part that is asked for shows that the one before it left.
type sending struct {
	io.ReadCloser
	watch *watch
}

func (s *sending) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	limit := s.watch.limit
	if err != nil {
		limit *= 2 // the last part is on its way, and then it is the store's turn
	}
	s.watch.restartTimer(limit)
	return n, err
}

// receiving is the body of an answer.
type receiving struct {
	io.ReadCloser
	watch *watch
}

func (r *receiving) Read(p []byte) (int, error) {
	r.watch.timer.Reset(r.watch.limit)
	n, err := r.ReadCloser.Read(p)
	r.watch.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.watch.causeOf(err)
	}
	return n, err
}

func (r *receiving) Close() error {
	defer r.watch.cancel(nil)
	return r.ReadCloser.Close()
}
