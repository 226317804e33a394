package telemetry

import (
	"errors"
	"log/slog"
	"net"
	"regexp"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/telemetry/observe"
)

// quietFor is how long failures of one kind are counted before they are logged again: a server that is down fails
// thousands of requests the same way.
const quietFor = 10 * time.Second

// failures reports requests to model servers that failed.
type failures struct {
	mu    sync.Mutex
	kinds map[string]*silence
}

// silence is since when a kind of failure was not reported, and how many there were.
type silence struct {
	since time.Time
	more  int
}

// logFailure writes one line for a failure and those like it. What a server says may repeat the text that it was sent:
// above debug there is the code, and what the network or the status line says.
func (f *failures) logFailure(log *slog.Logger, request observe.Request, err error) {
	if log == nil || err == nil {
		return
	}
	code, server := Code(err), hostOf(request.Endpoint)
	if code == "cancelled" || code == string(fault.Paused) || code == string(fault.BudgetSpent) {
		return // a person's or the budget's doing, shown with the run
	}
	log.Debug("model request failed", "endpoint", server, "model", request.Model, "task", request.Task, "code", code,
		"error", err.Error())
	f.mu.Lock()
	if f.kinds == nil {
		f.kinds = map[string]*silence{}
	}
	id := server + " " + request.Task + " " + code
	known := f.kinds[id]
	if known != nil && time.Since(known.since) < quietFor {
		known.more++
		f.mu.Unlock()
		return
	}
	more := 0
	if known != nil {
		more = known.more
	}
	if len(f.kinds) < mostValues || known != nil {
		f.kinds[id] = &silence{since: time.Now()}
	}
	f.mu.Unlock()
	log.Warn("model request failed", "endpoint", server, "model", request.Model, "task", request.Task, "code", code,
		"cause", causeOf(err), "more_since_last", more)
}

var statusLine = regexp.MustCompile(`^[1-5][0-9][0-9]\b`)

// causeOf returns why a request failed as far as it can hold no text of documents: the status of the answer, or what
// the network said.
func causeOf(err error) string {
	if network, ok := errors.AsType[*net.OpError](err); ok {
		return network.Error()
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return name.Error()
	}
	if known := fault.As(err); known != nil && known.Err != nil {
		return statusLine.FindString(known.Err.Error())
	}
	return ""
}
