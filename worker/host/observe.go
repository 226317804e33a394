package host

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/telemetry"
)

// counting is an interceptor that counts and times attempts of activities.
type counting struct {
	interceptor.WorkerInterceptorBase
	telemetry *telemetry.Process
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (c *counting) InterceptActivity(
	ctx context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	counted := &countedActivity{telemetry: c.telemetry}
	counted.Next = next
	return counted
}

type countedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	telemetry *telemetry.Process
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (c *countedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info, began := activity.GetInfo(ctx), time.Now()
	name := info.ActivityType.Name
	if info.Attempt > 1 {
		c.telemetry.Count(telemetry.ActivityRetries, 1, name)
	}
	c.telemetry.Add(telemetry.ActivityRunning, 1)
	defer c.telemetry.Add(telemetry.ActivityRunning, -1)
	result, err := c.Next.ExecuteActivity(ctx, in)
	c.telemetry.Time(telemetry.ActivitySeconds, time.Since(began), name)
	if err != nil {
		c.telemetry.Count(telemetry.ActivityFailures, 1, name, activityCode(err))
	}
	return result, err
}

// activityCode returns the code of an activity's error: the type that activities give it.
func activityCode(err error) string {
	var known *temporal.ApplicationError
	if errors.As(err, &known) && known.Type() != "" {
		return known.Type()
	}
	return telemetry.Code(err)
}

// Server answers what keeps a worker running asks: /livez, /readyz and /metrics.
type Server struct {
	http     *http.Server
	listener net.Listener
	draining atomic.Bool
}

// readyPatience is how long the engine may take to say that it answers.
const readyPatience = 3 * time.Second

// Serve begins to answer at an address: host:port. It is ready while the engine answers, until Drain.
func Serve(address string, engine client.Client, process *telemetry.Process, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fault.PortTaken.At("listen on", address).Because(err).
			Advise("set worker.address; empty: the worker listens nowhere")
	}
	server := &Server{listener: listener}
	tcp, _ := listener.Addr().(*net.TCPAddr)
	local := tcp != nil && tcp.IP.IsLoopback()
	if !local {
		log.Warn("worker.address is reached from other machines: its metrics name every index", "address", address)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, request *http.Request) {
		if server.draining.Load() {
			writeStatus(w, http.StatusServiceUnavailable, "stopping")
			return
		}
		ctx, cancel := context.WithTimeout(request.Context(), readyPatience)
		defer cancel()
		if _, err := engine.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
			writeStatus(w, http.StatusServiceUnavailable, string(fault.EngineDown))
			return
		}
		writeStatus(w, http.StatusOK, "ok")
	})
	mux.Handle("GET /metrics", process.Handler())
	server.http = &http.Server{
		Handler: guardHost(mux, local), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { _ = server.http.Serve(listener) }() // it ends by Close
	return server, nil
}

// guardHost answers, on loopback, for names of loopback alone: no page may read metrics through a name that it points
// here.
func guardHost(next http.Handler, local bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		name, _, err := net.SplitHostPort(request.Host)
		if err != nil {
			name = request.Host
		}
		if ip := net.ParseIP(strings.Trim(name, "[]")); local && name != "localhost" && (ip == nil || !ip.IsLoopback()) {
			writeStatus(w, http.StatusMisdirectedRequest, string(fault.Misdirected))
			return
		}
		next.ServeHTTP(w, request)
	})
}

// Address returns the address where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Drain has it say that it is not ready any more.
func (s *Server) Drain() { s.draining.Store(true) }

// Close ends it.
func (s *Server) Close() error { return s.http.Close() }

func writeStatus(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"status":"` + text + `"}` + "\n")) // the caller may have gone
}
