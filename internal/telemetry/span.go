package telemetry

import (
	"context"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// scope names who makes the spans.
const scope = "github.com/unweaver/unweaver"

// beginSpan begins a span below that of the context. Where nothing is exported, and where no trace was begun, it costs
// next to nothing.
func beginSpan(
	ctx context.Context, name string, attributes ...attribute.KeyValue,
) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() { // what belongs to no command is no trace of its own
		return ctx, nil
	}
	return otel.Tracer(scope).Start(ctx, name,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

// endSpan ends a span with the code of an error: its text may hold what is no business of a trace.
func endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, Code(err))
		span.SetAttributes(attribute.String("error.type", Code(err)))
	}
	span.End()
}

// BeginRequest begins the span of an HTTP request that this process answers, below that of who asks. It is named when
// its route is known: paths hold keys of documents.
func BeginRequest(ctx context.Context, header http.Header) (context.Context, func(route string, status int)) {
	ctx = otel.GetTextMapPropagator().Extract(ctx, propagation.HeaderCarrier(header))
	ctx, span := otel.Tracer(scope).Start(ctx, "HTTP", trace.WithSpanKind(trace.SpanKindServer))
	return ctx, func(route string, status int) {
		span.SetName(route)
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= 500 {
			span.SetStatus(codes.Error, strconv.Itoa(status))
		}
		span.End()
	}
}
