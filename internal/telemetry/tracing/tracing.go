// Package tracing exports spans by OTLP over HTTP, for programs that configure it: by telemetry.otlp_endpoint, or
// by the standard variables OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_TRACES_ENDPOINT. The other standard
// variables (headers, sampler, timeouts) count too. Without any of these nothing is begun and nothing is sent.
package tracing

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/unweaver/unweaver/internal/core/version"
	"github.com/unweaver/unweaver/internal/fault"
)

// flushPatience is how long the end of a program may wait for its last spans to be taken.
const flushPatience = 3 * time.Second

var active atomic.Bool

// IsActive reports whether Start began to export: what only traces need is left out elsewhere.
func IsActive() bool { return active.Load() }

// IsWanted reports whether spans go anywhere.
func IsWanted(endpoint string) bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return endpoint != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Start begins to export the spans of a program, where that is wanted. Call stop at its end: it sends what is left.
func Start(ctx context.Context, program, endpoint string) (stop func(), err error) {
	if !IsWanted(endpoint) {
		return func() {}, nil
	}
	var options []otlptracehttp.Option
	if endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(endpoint))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fault.BadConfig.At("send traces to", "telemetry.otlp_endpoint").Because(err)
	}
	about := resource.NewSchemaless(
		attribute.String("service.name", program), attribute.String("service.version", version.String()),
	)
	if merged, err := resource.Merge(about, resource.Environment()); err == nil { // OTEL_SERVICE_NAME wins
		about = merged
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	active.Store(true)
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) // a collector that is down is no news to a build
	return func() {
		active.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), flushPatience)
		defer cancel()
		_ = provider.Shutdown(ctx) // what cannot be sent is lost
	}, nil
}
