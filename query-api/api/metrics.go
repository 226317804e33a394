package api

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/unweaver/unweaver/query-api/guard"
)

// metrics of the server.
type metrics struct {
	registry   *prometheus.Registry
	seconds    *prometheus.HistogramVec
	queries    *prometheus.CounterVec
	generation *prometheus.GaugeVec
	refused    *prometheus.CounterVec
}

func newMetrics() metrics {
	m := metrics{
		registry: prometheus.NewRegistry(),
		seconds: prometheus.NewHistogramVec(
			prometheus.HistogramOpts{
				Name: "unweaver_http_request_seconds", Help: "Duration of HTTP requests.",
				Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120},
			},
			[]string{"route", "status"},
		),
		queries: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "unweaver_queries_total", Help: "Queries by index, method and outcome."},
			[]string{"index", "method", "outcome"},
		),
		generation: prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: "unweaver_generation_epoch", Help: "Epoch of the served generation."},
			[]string{"index"},
		),
		refused: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "unweaver_refused_total", Help: "Requests refused before their route, by code."},
			[]string{"code"},
		),
	}
	m.registry.MustRegister(m.seconds, m.queries, m.generation, m.refused)
	return m
}

// metered gives the metrics, whose labels name every index.
func (s *Server) metered(w http.ResponseWriter, request *http.Request) {
	if err := guard.Of(request.Context()).NeedAll(); err != nil {
		s.fail(w, request, err)
		return
	}
	promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP(w, request)
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController flush, and reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (m metrics) measure(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		start := time.Now()
		sw := &statusWriter{w, http.StatusOK}
		handler.ServeHTTP(sw, request)
		route := request.Pattern
		if route == "" {
			route = "none"
		}
		m.seconds.WithLabelValues(route, http.StatusText(sw.status)).Observe(time.Since(start).Seconds())
	})
}
