// Package api serves queries over HTTP (docs/reference/formats.md, HTTP): JSON, errors as RFC 9457, OpenAPI 3.1. One
// query sees one generation; a replica switches when it has the new one open. The package reaches no engine.
//
//	server.go, routes.go     the server and its table of routes, from which mux and OpenAPI are made
//	address.go               what an address answers by method and by the end of its path
//	operate.go, operate_routes.go, upload.go  builds, schedules, generations, dead letters, documents of the corpus
//	query.go, stream.go      questions, which package answer answers; read_body.go reads their bodies
//	browse.go, documents.go, generations.go, runs.go  what an index holds; lists.go their bodies, cursor.go their pages
//	ready.go, metrics.go     for orchestrators and monitoring; usage.go what a key used of its quotas
//	etag.go, compress.go     what clients may keep, and packed answers
package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/openapi"
	"github.com/unweaver/unweaver/query-api/served"
)

// Config of a server. Stores stay the caller's to close.
type Config struct {
	served.Config // Timeout: of a query without an answer; 0 = 10 s. Runs, Telemetry: nil: they begin with this server
	Models        answer.Models
	Extra         map[string]http.Handler // further routes, by prefix
	Methods       *retrieve.Registry      // nil: this program's
	Policy        middleware.Policy       // who may ask; the handlers of Extra ask for a key by themselves
	// HintSecrets are those that sign hints of changed objects, by index. An index without one takes none.
	HintSecrets map[string]string
	Desk        *desk.Desk // builds, steers and uploads; nil: these routes say how to switch them on
}

// Server answers requests. Make it with New, serve it with Serve, end it with Shutdown.
type Server struct {
	Config
	log      *slog.Logger
	served   *served.Set
	answers  *answer.Service
	searcher retrieve.Searcher
	guard    *middleware.Guard
	openapi  []byte
	table    func() []route // of operations, made once: the tools of agents in it take a while
	http     *http.Server
	routes   *http.ServeMux // what http serves, once the guard and others have looked at it

	openapiTag string
}

// New makes a server and starts to watch for new generations.
func New(config Config) *Server {
	if config.Timeout == 0 {
		config.Timeout = 10 * time.Second
	}
	if config.Methods == nil {
		config.Methods = methods.Registry()
	}
	if config.Telemetry == nil {
		config.Telemetry = telemetry.New("unweaver-query-api")
	}
	searcher := retrieve.Searcher{
		Vectors: config.Vectors, Records: config.Records, Methods: config.Methods, Heavy: &retrieve.Heavy{},
	}
	server := &Server{
		Config:   config,
		log:      config.Log,
		served:   served.New(config.Config),
		searcher: searcher,
		answers:  answer.New(config.Models, searcher, config.Log),
	}
	server.answers.Observer = config.Telemetry
	server.openapi = OpenAPI(config.Methods)
	server.table = sync.OnceValue(server.listRoutes)
	server.openapiTag = newTag(string(server.openapi))
	server.guard = middleware.New(config.Policy, server.refuseRequest)
	server.http = &http.Server{
		Handler:           server.newHandler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(config.Log.Handler(), slog.LevelDebug), // what clients do wrong

		DisableGeneralOptionsHandler: true, // it would answer without a key
	}
	return server
}

// OpenAPI describes the API, with these methods.
func OpenAPI(methods *retrieve.Registry) []byte {
	return openapi.Describe((&Server{}).listRoutes(), methods)
}

// Serve answers on a listener until Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if policy := s.Policy; !policy.Required && !policy.Public && !middleware.IsLoopback(l.Addr()) {
		return fault.BadConfig.At("serve queries at", l.Addr().String()).
			Because("the address is reachable from other machines, and no API key is required")
	}
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown takes no new requests, lets running ones finish until ctx is done, and lets go of every generation.
func (s *Server) Shutdown(ctx context.Context) error {
	return errors.Join(s.http.Shutdown(ctx), s.served.Close(ctx))
}

// CheckReadiness returns what the internal /readyz says of stores and indexes, and whether the replica is ready.
func (s *Server) CheckReadiness(ctx context.Context) (checks map[string]string, ready bool) {
	return s.served.CheckReadiness(ctx)
}

// Handler returns the server's routes, behind its guard.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// newHandler makes what Handler returns.
func (s *Server) newHandler() http.Handler {
	s.routes = http.NewServeMux()
	for pattern, at := range s.listAddresses() {
		s.routes.Handle(pattern, at)
	}
	for prefix, handler := range s.Extra {
		s.routes.Handle(prefix, s.jsonOnly(handler))
	}
	return s.observeRequest(s.guard.Wrap(noteRoute(compressAnswers(s.routes)), s.isExtra))
}

// jsonOnly keeps bodies that are no JSON from a handler that is not of the table.
func (s *Server) jsonOnly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodPost || request.Method == http.MethodPut || request.Method == http.MethodPatch {
			if err := middleware.NeedJSON(request); err != nil {
				s.writeError(w, request, err)
				return
			}
		}
		handler.ServeHTTP(w, request)
	})
}

// isExtra reports whether a request is one for Extra, or of hints: their handlers find out who asks.
func (s *Server) isExtra(request *http.Request) bool {
	for prefix := range s.Extra {
		if strings.HasPrefix(request.URL.Path, prefix) {
			return true
		}
	}
	return isSigned(request)
}

// refuseRequest writes an error that a request met before its route.
func (s *Server) refuseRequest(w http.ResponseWriter, request *http.Request, err error) {
	s.Telemetry.Count(telemetry.Refused, 1, string(fault.CodeOf(err)))
	s.writeError(w, request, err)
}
