// Package telemetry counts, times and traces what a process does. families.go lists every metric once: the registry
// and docs/reference/metrics.md are made from it. trace.go exports spans where that is asked for. Names, codes,
// counts and times are exported, never text or keys of documents.
package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/unweaver/unweaver/internal/core/version"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/telemetry/observe"
)

const (
	mostValues = 200     // of one label in one process: what is counted must not grow with what is asked
	other      = "other" // stands for further ones
)

// Process holds the metrics of one process. Its methods may be called concurrently, and on nil, where they do nothing.
type Process struct {
	Log *slog.Logger // of failures of model servers; nil: nowhere. Set it before use

	registry *prometheus.Registry
	counters map[string]*prometheus.CounterVec
	gauges   map[string]*prometheus.GaugeVec
	times    map[string]*prometheus.HistogramVec
	shown    map[string]map[string][]string // labels of what Replace set, by family
	families map[string]family

	replacing sync.Mutex

	mu     sync.RWMutex
	values map[string]map[string]bool // by label

	failed failures
}

var _ observe.Observer = (*Process)(nil)

// New makes the metrics of a program.
func New(program string) *Process {
	process := &Process{
		registry: prometheus.NewRegistry(), counters: map[string]*prometheus.CounterVec{},
		gauges: map[string]*prometheus.GaugeVec{}, times: map[string]*prometheus.HistogramVec{},
		shown: map[string]map[string][]string{}, families: map[string]family{}, values: map[string]map[string]bool{},
	}
	process.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	for _, section := range sections {
		for _, one := range section.families {
			process.addFamily(one)
		}
	}
	process.Set(BuildInfo, 1, program, version.String())
	return process
}

func (p *Process) addFamily(one family) {
	p.families[one.name] = one
	switch one.kind {
	case counter:
		p.counters[one.name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: one.name, Help: one.help}, one.labels)
		p.registry.MustRegister(p.counters[one.name])
	case gauge, snapshot:
		p.gauges[one.name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: one.name, Help: one.help}, one.labels)
		p.registry.MustRegister(p.gauges[one.name])
	case histogram:
		p.times[one.name] = prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Name: one.name, Help: one.help, Buckets: one.buckets}, one.labels,
		)
		p.registry.MustRegister(p.times[one.name])
	}
}

// Handler serves the metrics.
func (p *Process) Handler() http.Handler {
	return promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{})
}

// Registry returns what Handler serves, for tests.
func (p *Process) Registry() *prometheus.Registry { return p.registry }

// boundValues gives the values of a family's labels, with other in place of what is one too many.
func (p *Process) boundValues(name string, values []string) []string {
	labels := p.families[name].labels
	out := make([]string, len(values))
	for i, value := range values {
		out[i] = p.boundValue(labels[i], value)
	}
	return out
}

func (p *Process) boundValue(label, value string) string {
	p.mu.RLock()
	known := p.values[label][value]
	p.mu.RUnlock()
	if known {
		return value
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.values[label] == nil {
		p.values[label] = map[string]bool{}
	}
	if !p.values[label][value] && len(p.values[label]) >= mostValues {
		return other
	}
	p.values[label][value] = true
	return value
}

// Count adds to a counter. values are those of its labels, in the order of the table.
func (p *Process) Count(name string, n float64, values ...string) {
	if p != nil {
		p.counters[name].WithLabelValues(p.boundValues(name, values)...).Add(n)
	}
}

// Set sets a gauge.
func (p *Process) Set(name string, value float64, values ...string) {
	if p != nil {
		p.gauges[name].WithLabelValues(p.boundValues(name, values)...).Set(value)
	}
}

// Add adds to a gauge.
func (p *Process) Add(name string, n float64, values ...string) {
	if p != nil {
		p.gauges[name].WithLabelValues(p.boundValues(name, values)...).Add(n)
	}
}

// Time adds a duration to a histogram.
func (p *Process) Time(name string, took time.Duration, values ...string) {
	p.Observe(name, took.Seconds(), values...)
}

// Observe adds a value to a histogram.
func (p *Process) Observe(name string, value float64, values ...string) {
	if p != nil {
		p.times[name].WithLabelValues(p.boundValues(name, values)...).Observe(value)
	}
}

// Sample is a value of a family that is looked up.
type Sample struct {
	Value  float64
	Labels []string
}

// Replace makes samples all that a looked-up family shows.
func (p *Process) Replace(name string, samples []Sample) {
	if p == nil {
		return
	}
	p.replacing.Lock()
	defer p.replacing.Unlock()
	gauges, shown := p.gauges[name], map[string][]string{}
	for _, sample := range samples {
		labels := p.boundValues(name, sample.Labels)
		id := strings.Join(labels, "\x00")
		if shown[id] == nil { // of what is counted as other the first
			shown[id] = labels
			gauges.WithLabelValues(labels...).Set(sample.Value)
		}
	}
	for id, labels := range p.shown[name] {
		if shown[id] == nil {
			gauges.DeleteLabelValues(labels...)
		}
	}
	p.shown[name] = shown
}

// Code returns how an error is counted: its code, ok for none, cancelled where its caller gave up.
func Code(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return string(fault.CodeOf(err))
}

// BeginStore implements observe.Observer.
func (p *Process) BeginStore(ctx context.Context, store, operation string) (context.Context, func(error)) {
	began := time.Now()
	ctx, span := beginSpan(ctx, store+" "+operation)
	return ctx, func(err error) {
		p.Time(StoreSeconds, time.Since(began), store, operation)
		if err != nil {
			p.Count(StoreErrors, 1, store, operation, Code(err))
		}
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Precondition) {
			err = nil // an answer
		}
		endSpan(span, err)
	}
}

// BeginModel implements observe.Observer.
func (p *Process) BeginModel(
	ctx context.Context, request observe.Request,
) (context.Context, func(usage model.Usage, by string, err error)) {
	server := hostOf(request.Endpoint)
	ctx, call := beginModelCall(ctx, request)
	p.Add(ModelInFlight, 1, server)
	return ctx, func(usage model.Usage, by string, err error) {
		p.Add(ModelInFlight, -1, server)
		p.Time(ModelSeconds, time.Since(call.began), server, request.Task)
		p.failed.logFailure(p.Log, request, err)
		code := Code(err)
		p.Count(ModelRequests, 1, server, request.Model, request.Task, code)
		if code == string(fault.ModelRateLimited) {
			p.Count(ModelRateLimited, 1, server)
		}
		prompt := "prompt"
		if request.Task == model.EmbedTask {
			prompt = "embedding"
		}
		p.Count(ModelTokens, float64(max(0, usage.Prompt)), server, request.Model, prompt)
		if request.Task != model.EmbedTask {
			p.Count(ModelTokens, float64(max(0, usage.Completion)), server, request.Model, "completion")
		}
		p.endModelCall(call, usage, by, err)
	}
}

// NoteWait implements observe.Observer.
func (p *Process) NoteWait(request observe.Request, waited time.Duration) {
	p.Time(ModelWait, waited, hostOf(request.Endpoint), request.Task)
}

// CountPaid counts what a run of an index paid for.
func (p *Process) CountPaid(index, task string, usage model.Usage, cost float64) {
	p.Count(IndexCalls, 1, index, task)
	p.Count(IndexCost, max(0, cost), index, task)
	if task == model.EmbedTask {
		p.Count(IndexTokens, float64(max(0, usage.Prompt)), index, "embedding")
		return
	}
	p.Count(IndexTokens, float64(max(0, usage.Prompt)), index, "prompt")
	p.Count(IndexTokens, float64(max(0, usage.Completion)), index, "completion")
}

// hostOf returns the host of an endpoint, without what else its URL may hold.
func hostOf(endpoint string) string {
	if parsed, err := url.Parse(endpoint); err == nil && parsed.Host != "" {
		return parsed.Host
	}
	return "unnamed"
}
