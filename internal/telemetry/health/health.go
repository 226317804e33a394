// Package health answers what keeps a process running asks, without a key: /livez, /readyz and /metrics. It says names
// and codes, never texts.
package health

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/core/hostinfo"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/telemetry"
)

// Ready returns the state of each part of a process, "ok" or what is wrong, and whether it can do its work.
type Ready func(ctx context.Context) (checks map[string]string, ready bool)

// readyPatience is how long the parts may take to say that they answer.
const readyPatience = 3 * time.Second

// startPatience is how long a part may take to open before the log names it.
const startPatience = 5 * time.Second

// status is the answer of /livez and /readyz.
type status struct {
	Status string            `json:"status"` // ok, starting, not ready, stopping
	Checks map[string]string `json:"checks,omitempty"`
}

// Paths are what a Server answers.
var Paths = []string{"/livez", "/readyz", "/metrics"}

// Server answers at one address.
type Server struct {
	http     *http.Server
	listener net.Listener
	ready    atomic.Pointer[Ready]
	draining atomic.Bool
	opening  atomic.Pointer[string] // the part that is being opened; nil: none
}

// Serve begins to answer at an address, host:port, that a key of the configuration gives; empty: nowhere, which is nil.
// It is not ready before SetReady.
func Serve(key, address string, process *telemetry.Process, log *slog.Logger) (*Server, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // none is wanted
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fault.PortTaken.At("listen on", address).Because(err).
			Advise("set " + key + " to an address that is free; empty: it listens nowhere")
	}
	server := &Server{listener: listener}
	tcp, _ := listener.Addr().(*net.TCPAddr)
	local := tcp != nil && tcp.IP.IsLoopback()
	if !local {
		log.Warn("other machines can reach "+key+", and its metrics name every index", "address", address)
	}
	mux := http.NewServeMux()
	for i, handler := range []http.Handler{
		http.HandlerFunc(serveLive), http.HandlerFunc(server.serveReady), process.Handler(),
	} {
		mux.Handle("GET "+Paths[i], handler)
	}
	server.http = &http.Server{
		Handler: guardHost(mux, local), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { _ = server.http.Serve(listener) }() // it ends by Close
	log.Info("answering /livez, /readyz and /metrics", "address", server.Address())
	return server, nil
}

func serveLive(w http.ResponseWriter, _ *http.Request) { writeStatus(w, true, status{Status: "ok"}) }

func (s *Server) serveReady(w http.ResponseWriter, request *http.Request) {
	ready := s.ready.Load()
	switch {
	case s.draining.Load():
		writeStatus(w, false, status{Status: "stopping"})
	case ready == nil:
		out := status{Status: "starting"}
		if part := s.opening.Load(); part != nil {
			out.Checks = map[string]string{*part: "opening"}
		}
		writeStatus(w, false, out)
	default:
		ctx, cancel := context.WithTimeout(request.Context(), readyPatience)
		defer cancel()
		checks, ok := (*ready)(ctx)
		out := status{"ok", checks}
		if !ok {
			out.Status = "not ready"
		}
		writeStatus(w, ok, out)
	}
}

// guardHost answers, on loopback, for names of loopback alone: no page may read metrics through a name that it points
// here.
func guardHost(next http.Handler, local bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		name, _, err := net.SplitHostPort(request.Host)
		if err != nil {
			name = request.Host
		}
		if local && !hostinfo.IsLoopback(name) {
			http.Error(w, string(fault.Misdirected), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, request)
	})
}

// Address returns the address where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// WatchStart returns what a start calls before it opens a part of the process; what that returns ends the opening.
// Until then /readyz names the part, and so does the log after a while.
func (s *Server) WatchStart(log *slog.Logger) func(part string) (opened func()) {
	return func(part string) func() {
		if s != nil {
			s.opening.Store(&part)
		}
		slow := time.AfterFunc(startPatience, func() { log.Warn("still waiting for a part to open", "part", part) })
		return func() {
			slow.Stop()
			if s != nil {
				s.opening.Store(nil)
			}
		}
	}
}

// SetReady sets what /readyz asks from now on.
func (s *Server) SetReady(ready Ready) {
	if s != nil {
		s.ready.Store(&ready)
	}
}

// Drain has it say that it is not ready any more.
func (s *Server) Drain() {
	if s != nil {
		s.draining.Store(true)
	}
}

// Close ends it.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	return s.http.Close()
}

func writeStatus(w http.ResponseWriter, ok bool, out status) {
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(out) // the caller may have gone
}

// Local returns the address under which this machine reaches what listens at an address.
func Local(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), err
}

// Probe asks the /readyz of the process that answers at the address of a key of the configuration. The error has what
// it says.
func Probe(ctx context.Context, key, address string) error {
	local, err := Local(address)
	request, failed := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+local+"/readyz", nil)
	if err = errors.Join(err, failed); err != nil {
		return fault.BadConfig.At("parse", key).Because(err)
	}
	direct := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy reaches this process
	response, err := direct.Do(request)
	if err != nil {
		return fault.StoreDown.At("probe", request.URL.String()).Because(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(response.Body, 4096)) // one line; what came of it is of use
	return fault.StoreDown.At("probe", request.URL.String()).Because(strings.TrimSpace(string(said)))
}
