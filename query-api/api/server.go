// Package api serves queries over HTTP (DESIGN §9): JSON, errors as RFC 9457, OpenAPI 3.1. One query sees one
// generation; a replica switches when it has the new one open. The package reaches no engine.
package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/localfile"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Models makes the models that queries need.
type Models interface {
	Chat(spec corpus.Spec) (model.Chat, error)
	Embedder(spec corpus.Spec, provider string, dimension int) (model.Embedder, error)
}

// Config of a server. Stores stay the caller's to close.
type Config struct {
	Artifacts    blob.Store
	Records      records.Store
	Coordination coordination.Store
	Vectors      vectors.Store
	Models       Models
	Cache        *localfile.Cache
	Log          *slog.Logger
	Timeout      time.Duration           // of a query without an answer; 0 = 10 s
	Extra        map[string]http.Handler // further routes, by prefix
	Warm         []string                // indexes to open at start; nil: all that are published
}

// Server answers requests. Make it with New, serve it with Serve, end it with Shutdown.
type Server struct {
	Config
	log     *slog.Logger
	id      string
	mu      sync.Mutex
	indexes map[string]*index
	readAt  map[string]time.Time
	embeds  *embedCache
	metrics metrics
	http    *http.Server
	wg      sync.WaitGroup
	stop    context.CancelFunc
}

// New makes a server and starts to watch for new generations.
func New(config Config) *Server {
	if config.Timeout == 0 {
		config.Timeout = 10 * time.Second
	}
	raw := make([]byte, 8)
	_, _ = rand.Read(raw) // never fails
	server := &Server{
		Config:  config,
		log:     config.Log,
		id:      hex.EncodeToString(raw),
		indexes: map[string]*index{},
		readAt:  map[string]time.Time{},
		embeds:  newEmbedCache(),
		metrics: newMetrics(),
	}
	server.http = &http.Server{
		Handler:           server.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	ctx, cancel := context.WithCancel(context.Background())
	server.stop = cancel
	server.wg.Go(func() {
		names, err := config.Warm, error(nil)
		if names == nil {
			names, err = server.names(ctx)
		}
		if err != nil {
			server.log.Warn("indexes not listed", "error", err.Error())
		}
		for _, n := range names {
			if p, err := server.pointer(ctx, n); err == nil && p.Manifest != "" {
				server.serving(n).refresh(server, n, p)
			}
		}
		server.watch(ctx)
	})
	return server
}

// Serve answers on a listener until Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown takes no new requests, lets running ones finish until ctx is done, and lets go of every generation.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	s.stop()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.indexes {
		x.mu.Lock()
		if x.cur != nil {
			x.cur.Close()
			x.cur = nil
		}
		for _, p := range x.pinned {
			p.Close()
		}
		x.pinned = nil
		x.mu.Unlock()
	}
	return err
}

// Handler is the server's routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/indexes/{index}/query", s.query)
	mux.HandleFunc("GET /v1/indexes", s.listIndexes)
	mux.HandleFunc("GET /v1/indexes/{index}/generations", s.listGenerations)
	mux.HandleFunc("GET /v1/indexes/{index}/entities", s.listEntities)
	mux.HandleFunc("GET /v1/indexes/{index}/entities/{id}", s.getEntity)
	mux.HandleFunc("GET /v1/indexes/{index}/entities/{id}/chunks", s.entityChunks)
	mux.HandleFunc("GET /v1/indexes/{index}/chunks/{id}", s.getChunk)
	mux.HandleFunc("GET /v1/indexes/{index}/documents/{rest...}", s.documentText)
	mux.HandleFunc(
		"GET /livez",
		func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, map[string]string{"status": "alive"}) },
	)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /openapi.json", s.openapi)
	mux.HandleFunc("GET /{$}", page)
	for p, h := range s.Extra {
		mux.Handle(p, h)
	}
	return s.metrics.measure(mux)
}

// ready really probes: every store answers, and every index that was asked for has a generation open.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	checks := map[string]string{}
	ok := true
	probe := func(name string, f func() error) {
		checks[name] = "ok"
		if err := f(); err != nil {
			checks[name], ok = err.Error(), false
		}
	}
	probe("artifacts", func() error { _, err := artifact.StoreID(ctx, s.Artifacts); return err })
	probe("classes", func() error { return s.Records.Ping(ctx) })
	probe("vectors", func() error { return s.Vectors.Ping(ctx) })
	s.mu.Lock()
	for n, x := range s.indexes {
		probe("index "+n, func() error {
			x.mu.Lock()
			defer x.mu.Unlock()
			if x.cur == nil {
				return x.failed
			}
			return nil
		})
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	status := "ready"
	if !ok {
		status = "not ready"
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	writeJSON(w, map[string]any{"status": status, "checks": checks})
}

// metrics of the server.
type metrics struct {
	registry   *prometheus.Registry
	seconds    *prometheus.HistogramVec
	queries    *prometheus.CounterVec
	generation *prometheus.GaugeVec
}

func newMetrics() metrics {
	m := metrics{
		registry: prometheus.NewRegistry(),
		seconds: prometheus.NewHistogramVec(
			prometheus.HistogramOpts{
				Name: "unweaver_http_request_seconds", Help: "Duration of HTTP requests.",
				Buckets: []float64{
					.001,
					.0025,
					.005,
					.01,
					.025,
					.05,
					.1,
					.25,
					.5,
					1,
					2.5,
					5,
					10,
					30,
					120,
				},
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
	}
	m.registry.MustRegister(m.seconds, m.queries, m.generation)
	return m
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(c int) { w.status = c; w.ResponseWriter.WriteHeader(c) }

// Flush lets streaming handlers work through the measurement.
func (w *statusWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

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
