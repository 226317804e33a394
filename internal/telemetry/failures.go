package telemetry

import (
	"errors"
	"log/slog"
	"net"
	"regexp"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/telemetry/observe"
)

// quietFor is how long failures of one kind are only counted before one is logged again: a server that is down fails
// thousands of requests the same way.
const quietFor = 10 * time.Second

// failures reports requests to model servers that failed.
type failures struct{ kinds sync.Map } // of *rate.Sometimes, by server, task and code

// logFailure writes a line for a failure, and none for those like it that follow soon. What a server says may repeat
// the text that it was sent: above debug there is the code, and what the network or the status line says.
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
	kind, _ := f.kinds.LoadOrStore(server+" "+request.Task+" "+code, &rate.Sometimes{Interval: quietFor})
	kind.(*rate.Sometimes).Do(func() { //nolint:forcetypeassert // nothing else is stored
		log.Warn("model request failed", "endpoint", server, "model", request.Model, "task", request.Task, "code", code,
			"cause", causeOf(err))
	})
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
