package observe_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/telemetry/observe"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
	"github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/coordinationtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/recordstest"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// noted is an observer that remembers.
type noted struct {
	mu           sync.Mutex
	begun, ended []string
	waited       []time.Duration
}

func (n *noted) BeginStore(ctx context.Context, store, operation string) (context.Context, func(error)) {
	return n.begin(ctx, store+" "+operation)
}

func (n *noted) begin(ctx context.Context, what string) (context.Context, func(error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begun = append(n.begun, what)
	return ctx, func(err error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ended = append(n.ended, strings.TrimSpace(what+" "+string(fault.CodeOf(err))))
	}
}

func (n *noted) BeginModel(
	ctx context.Context, request observe.Request,
) (context.Context, func(model.Usage, string, error)) {
	ctx, end := n.begin(ctx, "model "+request.Model+" "+request.Task)
	return ctx, func(_ model.Usage, _ string, err error) { end(err) }
}

func (n *noted) NoteWait(_ observe.Request, waited time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waited = append(n.waited, waited)
}

// An observed store keeps the contract of its port.
func TestObservedStoresPassTheSuitesOfTheirPorts(t *testing.T) {
	n := &noted{}
	t.Run("blob", func(t *testing.T) {
		blobtest.Run(t, func(*testing.T) blob.Store { return observe.Blob(blobmemory.New(), observe.Artifacts, n) })
	})
	t.Run("coordination", func(t *testing.T) {
		coordinationtest.Run(t, func(*testing.T) coordination.Store {
			return observe.OfCoordination(coordinationmemory.New(), n)
		})
	})
	t.Run("records", func(t *testing.T) {
		recordstest.Run(t, func(*testing.T) records.Store { return observe.OfRecords(recordsmemory.New(), n) })
	})
	t.Run("vectors", func(t *testing.T) {
		vectorstest.Run(t, func(*testing.T) vectors.Store { return observe.OfVectors(vectorsmemory.New(), n) })
	})
	for _, what := range []string{"records put", "records get", "records delete", "vectors upsert", "vectors fetch"} {
		assert.True(t, slices.Contains(n.begun, what), "%s is not reported", what)
	}
	assert.True(t, len(n.begun) >= 50 && len(n.begun) == len(n.ended), "%d begun, %d ended", len(n.begun), len(n.ended))
}

func TestFailuresAreToldByTheirCode(t *testing.T) {
	n := &noted{}
	store := observe.Blob(blobmemory.New(), observe.Corpus, n)
	_, _, err := store.Get(t.Context(), "gone", blob.All)
	for range store.List(t.Context(), "", "") {
		t.Error("something is there")
	}
	want := []string{"corpus get not_found", "corpus list"}
	assert.True(t, fault.Is(err, fault.NotFound) && slices.Equal(n.ended, want), "%v, %v", err, n.ended)
}

type aliasing struct{ vectors.Store }

func (aliasing) Alias(context.Context, string, string) error { return nil }

// corpus is a store of versions that can follow its links.
type corpus struct{ blob.Store }

func (corpus) IsVersioned() bool         { return true }
func (c corpus) FollowLinks() blob.Store { return followed(c) }

// followed has what lies behind a link.
type followed struct{ blob.Store }

func (followed) Stat(context.Context, string) (blob.Info, error) { return blob.Info{}, nil }

func TestCapabilitiesAreFoundBelowAnObserver(t *testing.T) {
	_, ok := vectors.As[vectors.Aliaser](observe.OfVectors(aliasing{vectorsmemory.New()}, &noted{}))
	assert.True(t, ok, "an observer hides what its store can do")
	assert.True(t, !blob.IsVersioned(observe.Blob(blobmemory.New(), "x", &noted{})) &&
		blob.IsVersioned(observe.Blob(corpus{blobmemory.New()}, "x", &noted{})),
		"an observer hides whether its store gives bytes of one version under an ETag")
	followed := blob.FollowLinks(observe.Blob(corpus{blobmemory.New()}, "x", &noted{}))
	_, err := followed.Stat(t.Context(), "behind a link")
	assert.NoError(t, err, "an observer hides the links of its store")
	var none vectors.Store
	assert.True(t, observe.OfVectors(none, &noted{}) == nil && observe.Blob(nil, "x", &noted{}) == nil,
		"an observed nil is no nil")
}

type answering struct{ err error }

func (answering) Info() model.Info { return model.Info{Model: "m", Endpoint: "http://llm"} }

func (a answering) Complete(context.Context, model.Call) (model.Reply, error) {
	return model.Reply{Text: "yes"}, a.err
}

func TestWaitingForLimitsIsToldApartFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, gate := &noted{}, limits.NewGate()
		gate.SetLimit("docs", 1)
		musttest.Get(gate.Enter(t.Context()))(t)
		time.AfterFunc(30*time.Millisecond, func() { gate.Leave(nil) })
		below := observe.Chat(answering{fault.ModelRateLimited.At("call", "m")}, n)
		chat := limits.Chat{Chat: below, Limits: limits.Limits{Gate: gate}}
		musttest.Refuse(chat.Complete(t.Context(), model.Call{Task: model.Extract}))(t, fault.ModelRateLimited)
		assert.Equal(t, []time.Duration{30 * time.Millisecond}, n.waited)
		assert.Equal(t, []string{"model m extract model_rate_limited"}, n.ended)
		_, ok := model.As[answering](model.Chat(chat))
		assert.True(t, ok, "an observer hides its model")
	})
}
