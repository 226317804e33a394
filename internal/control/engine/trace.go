package engine

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"

	"github.com/unweaver/unweaver/internal/telemetry/tracing"
)

// AddTracing has, in a process that exports traces, a client, and the workers made of it, carry spans from a command
// through its workflow to its activities. Spans name workflows, runs and activities, and errors by their codes.
func AddTracing(options *client.Options) error {
	if !tracing.IsActive() {
		return nil
	}
	traces, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{
		Tracer:            otel.Tracer("github.com/unweaver/unweaver/engine"),
		TextMapPropagator: propagation.TraceContext{},

		AllowInvalidParentSpans: true, // a header that cannot be read must not fail a workflow
	})
	if err != nil {
		return err
	}
	options.Interceptors = append(options.Interceptors, interceptor.ClientInterceptor(traces))
	return nil
}
