package telemetry

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/telemetry/observe"
)

// Names of OpenTelemetry's conventions for generative AI (semantic-conventions-genai 0.1). Those for texts of prompts,
// answers and documents are never set.
const (
	genOperation     = "gen_ai.operation.name"
	genProvider      = "gen_ai.provider.name"
	genRequestModel  = "gen_ai.request.model"
	genResponseModel = "gen_ai.response.model"
	genInput         = "gen_ai.usage.input_tokens"
	genOutput        = "gen_ai.usage.output_tokens"
	genSource        = "gen_ai.data_source.id"
	genTopK          = "gen_ai.retrieval.top_k"

	retrieval   = "retrieval" // an operation
	ownProvider = "unweaver"
)

// providers are the names that the conventions have for owners of hosts, by the end of a host's name.
var providers = map[string]string{
	"openai.azure.com": "azure.ai.openai", "anthropic.com": "anthropic", "cohere.com": "cohere",
	"deepseek.com": "deepseek", "generativelanguage.googleapis.com": "gcp.gemini", "groq.com": "groq",
	"mistral.ai": "mistral_ai", "perplexity.ai": "perplexity", "x.ai": "x_ai",
}

// nameProvider returns the provider of a host. For one that has no name it is the protocol that is spoken: openai, or
// http for rerankers, as models.rerank.provider has it.
func nameProvider(host, task string) string {
	for end, name := range providers {
		if host == end || strings.HasSuffix(host, "."+end) {
			return name
		}
	}
	if task == rerank.Task {
		return "http"
	}
	return "openai"
}

// nameOperation returns the convention's name of a task. It has none for reranking.
func nameOperation(task string) string {
	switch task {
	case model.EmbedTask:
		return "embeddings"
	case rerank.Task:
		return "rerank"
	}
	return "chat"
}

// modelCall is a request to a model server, as the conventions name it.
type modelCall struct {
	operation, provider, model string
	span                       trace.Span
	began                      time.Time
}

// beginModelCall begins the span of a request to a model server.
func beginModelCall(ctx context.Context, request observe.Request) (context.Context, modelCall) {
	host := ""
	if parsed, err := url.Parse(request.Endpoint); err == nil {
		host = parsed.Hostname()
	}
	out := modelCall{nameOperation(request.Task), nameProvider(host, request.Task), request.Model, nil, time.Now()}
	ctx, out.span = beginSpan(ctx, strings.TrimSpace(out.operation+" "+out.model),
		attribute.String(genOperation, out.operation), attribute.String(genProvider, out.provider),
		attribute.String(genRequestModel, out.model), attribute.String("unweaver.task", request.Task))
	if out.span != nil {
		out.span.SetAttributes(describeServer(hostOf(request.Endpoint))...)
	}
	return ctx, out
}

// describeServer returns the attributes of host:port.
func describeServer(server string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(server)
	number, wrong := strconv.Atoi(port)
	if err != nil || wrong != nil {
		return []attribute.KeyValue{attribute.String("server.address", server)}
	}
	return []attribute.KeyValue{attribute.String("server.address", host), attribute.Int("server.port", number)}
}

// endModelCall ends the span with what was used and who answered, and counts both by the names of the conventions.
func (p *Process) endModelCall(one modelCall, usage model.Usage, by string, err error) {
	outputs := one.operation == "chat"
	kinds := map[string]int64{"input": max(0, usage.Prompt)}
	if outputs {
		kinds["output"] = max(0, usage.Completion)
	}
	p.Time(GenAISeconds, time.Since(one.began), one.operation, one.provider, one.model, errorType(err))
	for kind, n := range kinds {
		if n > 0 {
			p.Observe(GenAITokens, float64(n), one.operation, one.provider, one.model, kind)
		}
	}
	if one.span != nil && usage != (model.Usage{}) {
		one.span.SetAttributes(attribute.Int64(genInput, kinds["input"]))
		if outputs {
			one.span.SetAttributes(attribute.Int64(genOutput, kinds["output"]))
		}
	}
	if one.span != nil && by != "" {
		one.span.SetAttributes(attribute.String(genResponseModel, by))
	}
	endSpan(one.span, err)
}

// errorType returns the code of an error; empty for none.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	return Code(err)
}

// BeginRetrieval implements answer.Observer: it begins the span of a search in an index.
func (p *Process) BeginRetrieval(ctx context.Context, index, method string, chunks int) (context.Context, func(error)) {
	began := time.Now()
	var span trace.Span
	if trace.SpanContextFromContext(ctx).IsValid() {
		ctx, span = otel.Tracer(scope).Start(ctx, retrieval+" "+index, trace.WithAttributes(
			attribute.String(genOperation, retrieval), attribute.String(genProvider, ownProvider),
			attribute.String(genSource, index), attribute.Int(genTopK, chunks), attribute.String("unweaver.method", method)))
	}
	return ctx, func(err error) {
		p.Time(GenAISeconds, time.Since(began), retrieval, ownProvider, "", errorType(err))
		endSpan(span, err)
	}
}
