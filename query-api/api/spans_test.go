package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/internal/telemetry/observe"
	"github.com/unweaver/unweaver/query-api/api"
)

// described returns the attributes of a span as texts.
func described(span tracetest.SpanStub) map[string]string {
	out := map[string]string{}
	for _, one := range span.Attributes {
		out[string(one.Key)] = one.Value.String()
	}
	return out
}

// Whoever may see traces need not be one who may read documents and questions.
func TestSpansHaveTheNamesOfTheConventionAndNoText(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(exporter)))
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	by := "served-1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"model":"`+by+`","choices":[{"finish_reason":"stop","message":{"content":"Oslo [1]"}}],`+
			`"usage":{"prompt_tokens":40,"completion_tokens":5}}`)
	}))
	t.Cleanup(server.Close)
	process := telemetry.New("query-api")
	chat := observe.Chat(openai.New(openai.Config{BaseURL: server.URL, APIKey: "the-key", Model: "asked-1"}), process)
	f := serve(t, func(_ *fixture, c *api.Config) { c.Telemetry, c.Models = process, models{chat: chat} })
	f.ask(object{"query": "Which city is the capital of Norway?", "answer": true, "top_chunks": 3})
	ctx, end := telemetry.BeginRequest(t.Context(), http.Header{})
	text := "Oslo is the capital of Norway."
	by = "Oslo,Norway" // no name of a model
	must(chat.Complete(ctx, model.Call{Task: model.Extract, User: text, Input: text}))(t)
	_, _, err := observe.Embedder(builtin.Embedder{}, process).Embed(ctx, []string{text})
	require.NoError(t, err)
	_, endRerank := process.BeginModel(ctx, observe.Request{Endpoint: server.URL, Task: rerank.Task})
	endRerank(model.Usage{}, "", nil)
	end("extract", 200)

	seen := map[string]map[string]string{}
	for _, span := range exporter.GetSpans() {
		about := described(span)
		seen[about["gen_ai.operation.name"]+" "+about["unweaver.task"]] = about
		for _, text := range []string{"Norway", "Oslo", "capital", "the-key"} {
			assert.NotContains(t, fmt.Sprintf("%+v", span), text)
		}
	}
	asked := map[string]string{
		"gen_ai.provider.name": "openai", "gen_ai.request.model": "asked-1", "gen_ai.response.model": "",
		"gen_ai.usage.output_tokens": "5", "server.address": "127.0.0.1",
	}
	for operation, want := range map[string]map[string]string{
		"retrieval ": {
			"gen_ai.provider.name": "unweaver", "gen_ai.data_source.id": "sample", "gen_ai.retrieval.top_k": "3",
		},
		"embeddings embed": {"gen_ai.provider.name": "openai"}, "chat extract": asked,
		"chat answer": {"gen_ai.response.model": "served-1"}, "rerank " + rerank.Task: {"gen_ai.provider.name": "http"},
	} {
		for name, value := range want {
			assert.Equal(t, value, seen[operation][name], "%s of %s: %v", name, operation, seen[operation])
		}
	}
	metrics := f.send("GET", "/metrics", "").Body.String()
	for _, line := range []string{
		`gen_ai_client_token_usage_sum{gen_ai_operation_name="chat",gen_ai_provider_name="openai",` +
			`gen_ai_request_model="asked-1",gen_ai_token_type="output"} 10`,
		`gen_ai_client_operation_duration_seconds_count{error_type="",gen_ai_operation_name="retrieval",` +
			`gen_ai_provider_name="unweaver",gen_ai_request_model=""} 1`,
	} {
		assert.Contains(t, metrics, line+"\n")
	}
}
