// Package observe reports to an Observer every call that leaves the process for a store or a model server: decorators
// of the ports, put around the adapters by internal/app. What it reports are names, codes, counts and times, never text
// or keys of documents. It computes nothing and imports no library of metrics or traces.
package observe

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/model"
)

// Names of the stores, as metrics and traces have them.
const (
	Artifacts    = "artifacts"
	Corpus       = "corpus"
	Staging      = "staging"
	Records      = "records"
	Coordination = "coordination"
	Vectors      = "vectors"
)

// Observer receives calls. Its methods may be called concurrently; the functions that they return are called once,
// when the call is over.
type Observer interface {
	// BeginStore receives an operation of a store before it begins. The operation uses the context that it gives.
	BeginStore(ctx context.Context, store, operation string) (context.Context, func(err error))
	// BeginModel receives a request to a model server right before it is sent, after all that it waited for.
	// by is the model that the server says has answered; empty: unknown.
	BeginModel(ctx context.Context, request Request) (context.Context, func(usage model.Usage, by string, err error))
	// NoteWait receives how long a request waited for the limits of its endpoint and for admission by its run.
	NoteWait(request Request, waited time.Duration)
}

// Request is a request to a model server.
type Request struct {
	Endpoint string // URL of the server
	Model    string
	Task     string // of model.Call, or model.EmbedTask
}
