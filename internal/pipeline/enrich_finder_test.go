package pipeline_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
)

// finder finds triples alone, as a server of REBEL does.
type finder struct{ asked atomic.Int64 }

func (f *finder) Info() model.Info {
	return model.Info{Provider: "rebel", Model: "rebel-large", Domain: "http://rebel", Paid: true}
}

func (f *finder) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task != model.Triples {
		return model.Reply{}, fault.Internal.At("ask", call.Task)
	}
	f.asked.Add(1)
	return builtin.Chat{}.Complete(ctx, call)
}

// Where another model finds triples than the chat model, it alone is asked for them, its calls are in the account
// without money, and the facts are made anew when it comes.
func TestTriplesAreFoundByTheModelThatTheConfigurationNames(t *testing.T) {
	s, asked, embedder := factSite(t, 10)
	s.spec.Chat.Price = core.Price{Prompt: 1, Completion: 1}
	s.night(t)
	first, byChat := s.current(t), asked.Load()
	if byChat == 0 {
		t.Fatal("the chat model finds no triples")
	}
	rebel := &finder{}
	s.spec.Triples = core.TriplesModel{Provider: "rebel", BaseURL: "http://rebel", Model: "rebel-large"}
	s.Models = func(_ core.Spec, meter model.Meter) (model.Set, error) {
		return model.Set{
			Chat: paidRules{triples: asked}, Classes: embedder, Chunks: embedder, Triples: model.MeterChat(rebel, meter),
		}, nil
	}
	s.night(t)
	second := s.current(t)
	made := second.Enrichment("facts")
	if asked.Load() != byChat || rebel.asked.Load() != first.Counts.Chunks || made.Models != "rebel:rebel-large" ||
		made.Rules == first.Enrichment("facts").Rules || second.Hashes != first.Hashes {
		t.Errorf("%+v; the chat model was asked %d more times, the other one %d", made, asked.Load()-byChat, rebel.asked.Load())
	}
	report := s.report(t)
	if report.Calls.Extract != rebel.asked.Load() || report.Cost != 0 ||
		!strings.Contains(strings.Join(report.Reasons, " "), "facts is made by other rules or models") {
		t.Errorf("%+v, cost %v, %q", report.Calls, report.Cost, report.Reasons)
	}
	if planned := s.night(t).planned; !planned.Unchanged {
		t.Error("the same is made again")
	}
}
