package devserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/unweaver/unweaver/internal/fault"
)

const (
	localhost = "127.0.0.1"
	// Namespace is made at the first start.
	Namespace = "default"

	answersWithin = time.Minute      // after a start
	endsWithin    = 10 * time.Second // after SIGTERM
	pulseEvery    = 10 * time.Second // is it asked whether it serves, and has as long to answer
	mostSilent    = 6                // such questions without an answer, in a row: it hangs
	calm          = time.Minute      // an engine that lived so long did not die of its start
	mostDeaths    = 6                // in a row, without calm between them
	firstDelay    = 100 * time.Millisecond
)

// Options of a server.
type Options struct {
	Program string // path of temporal (Finder)
	Dir     string // of the data base and the log; no other process may use it
	Port    int    // on 127.0.0.1; 0 = any free
	Log     *slog.Logger

	within, pulse time.Duration // of tests; 0 = answersWithin, pulseEvery
}

// Server is an engine that runs as a child process. It is started again when it dies, on the same port, and dies with
// this process.
type Server struct {
	Address string

	options Options
	port    int
	files   files
	stop    chan struct{} // closed by Stop
	stopped sync.Once
	ended   chan struct{} // closed when the child is gone for good
	failed  chan error
}

// Start starts the engine over a data directory and returns when it answers. SQLite syncs its log at every commit:
// neither a killed process nor a loss of power takes back what the engine acknowledged.
func Start(ctx context.Context, options Options) (*Server, error) {
	if options.within == 0 {
		options.within = answersWithin
	}
	if options.pulse == 0 {
		options.pulse = pulseEvery
	}
	prepared, err := prepareFolder(ctx, options.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{options: options, files: prepared, failed: make(chan error, 1), port: options.Port}
	for range 3 { // a free port may be another program's by the time that the engine has it
		if options.Port == 0 {
			if s.port, err = freePort(); err != nil {
				break
			}
		}
		s.Address = fmt.Sprintf("%s:%d", localhost, s.port)
		if err = s.beginChild(ctx); options.Port != 0 || !fault.Is(err, fault.PortTaken) {
			break
		}
	}
	if err == nil {
		if err = s.files.markComplete(); err != nil {
			close(s.stop)
			<-s.ended
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.files.lock.Close())
	}
	return s, nil
}

// beginChild starts the child and what watches it, and returns when it answers.
func (s *Server) beginChild(ctx context.Context) error {
	s.stop, s.ended = make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go s.superviseChild(first)
	select {
	case err := <-first:
		if err != nil {
			<-s.ended
		}
		return err
	case <-ctx.Done():
		close(s.stop)
		<-s.ended
		return ctx.Err()
	}
}

// WatchFailure gives an error when the engine died again and again and is not started any more. It is closed by Stop.
func (s *Server) WatchFailure() <-chan error { return s.failed }

// Stop ends the engine. A second call does nothing.
func (s *Server) Stop() error {
	var err error
	s.stopped.Do(func() {
		close(s.stop)
		<-s.ended
		close(s.failed)
		err = s.files.lock.Close()
	})
	return err
}

// errStopped is what run returns after Stop.
var errStopped = errors.New("stopped")

// superviseChild runs the child until Stop, or until it has died too often. What became of the first start goes to
// first.
func (s *Server) superviseChild(first chan<- error) {
	defer close(s.ended)
	runtime.LockOSThread() // the system ends the child with the thread that started it
	deaths := 0
	for {
		began := time.Now()
		answered := false
		err := s.runChild(func() {
			answered = true
			if first != nil {
				first <- nil
				first = nil
			}
		})
		if errors.Is(err, errStopped) {
			return
		}
		if first != nil {
			first <- err
			return
		}
		if answered && time.Since(began) > calm {
			deaths = 0
		}
		if errors.Is(err, errDamaged) { // starting it again mends nothing
			s.failed <- err
			return
		}
		if deaths++; deaths > mostDeaths {
			s.failed <- fault.EngineDown.At("run the engine at", s.Address).
				Because(fmt.Errorf("the engine ended %d times in a row: %w", deaths, err)).
				Advise("see " + s.files.pathOf(logFile) + ", fix the error that it names, and start again: nothing is lost")
			return
		}
		s.options.Log.Warn("Temporal ended unexpectedly and is restarted", "cause", err.Error())
		select {
		case <-s.stop:
			return
		case <-time.After(firstDelay << (deaths - 1)):
		}
	}
}

// runChild starts the child once, calls answers when it does, and returns why it ended.
func (s *Server) runChild(answers func()) error {
	child, log, err := s.launchChild()
	if err != nil {
		return err
	}
	var cause error // why it ended, set before exited is closed
	exited := make(chan struct{})
	go func() {
		cause = child.Wait()
		s.files.notePID(0) // another process may get its number
		_ = log.file.Close()
		close(exited)
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready, silent := make(chan error, 1), make(chan error, 1)
	go func() {
		starting, done := context.WithTimeout(ctx, s.options.within)
		defer done()
		err := awaitHealth(starting, s.Address)
		if ready <- err; err == nil {
			silent <- awaitSilence(ctx, s.Address, s.options.pulse)
		}
	}()
	for {
		select {
		case <-exited:
			return s.explainExit(cause)
		case err := <-ready:
			if err == nil {
				answers()
				continue // nothing more comes from there
			}
			_ = child.Process.Kill()
			<-exited
			return fault.EngineDown.At("start the engine at", s.Address).
				Because(fmt.Errorf("the engine did not answer within %s: %w", s.options.within, err)).
				Advise("see " + s.files.pathOf(logFile) + "; try again when the machine is less busy")
		case err := <-silent:
			_ = child.Process.Kill()
			<-exited
			return fault.EngineDown.At("run the engine at", s.Address).
				Because(fmt.Errorf("the engine hangs: %d health checks in a row failed: %w", mostSilent, err)).
				Advise("see " + s.files.pathOf(logFile))
		case <-log.damage: // its health does not show it, and nothing mends it
			_ = child.Process.Kill()
			<-exited
			return newDamagedError(s.files.pathOf(databaseFile), errors.New(s.files.readTail()))
		case <-s.stop:
			_ = child.Process.Signal(syscall.SIGTERM)
			select {
			case <-exited:
			case <-time.After(endsWithin): // its data base is whole at any time
				_ = child.Process.Kill()
				<-exited
			}
			return errStopped
		}
	}
}

// launchChild starts the process in a group of its own, so that Ctrl-C reaches this one alone, which then drains its
// worker.
func (s *Server) launchChild() (*exec.Cmd, *childLog, error) {
	if err := s.checkPort(); err != nil {
		return nil, nil, err
	}
	log, err := s.files.openLog()
	if err != nil {
		return nil, nil, err
	}
	command := exec.Command(s.options.Program, Arguments(databaseFile, s.port)...)
	command.Dir = s.options.Dir
	command.Env = childEnv()
	command.Stdout, command.Stderr = log, log
	command.WaitDelay = time.Second               // for what a process of its own still writes
	command.ExtraFiles = []*os.File{s.files.lock} // held for as long as it lives
	command.SysProcAttr = ChildAttributes()
	s.files.notePID(0) // what stands there may be another process's by now
	if err := command.Start(); err != nil {
		_ = log.file.Close()
		return nil, nil, fault.EngineDown.At("start the engine,", s.options.Program).
			Because(err).
			Advise("check that it is executable; without " + Variable + " unweaver finds or downloads it")
	}
	s.files.notePID(command.Process.Pid)
	return command, log, nil
}

// Arguments returns the arguments of temporal for a server on 127.0.0.1: nothing of the user's own configuration of it
// counts. The server reads the name of the data base as a URI: one with another character than letters, digits, / and .
// is escaped or, better, relative.
func Arguments(database string, port int) []string {
	out := []string{
		"server", "start-dev", "--headless", "--ip", localhost, "--port", fmt.Sprint(port), "--namespace", Namespace,
		"--db-filename", database, "--log-level", "warn", "--disable-config-file", "--disable-config-env",
	}
	for _, pragma := range pragmas {
		out = append(out, "--sqlite-pragma", pragma)
	}
	for _, setting := range []string{
		"matching.numTaskqueueReadPartitions=1",
		"matching.numTaskqueueWritePartitions=1",
		"system.forceSearchAttributesCacheRefreshOnRead=true",
		"matching.enableFairness=true", // by priority.weight of an index
		"frontend.rps=20000",
		"frontend.namespaceRPS=20000",
		"frontend.namespaceRPS.visibility=1000",
		"history.rps=20000",
		"matching.rps=20000",
	} {
		out = append(out, "--dynamic-config-value", setting)
	}
	return out
}

// pragmas have SQLite keep a log that is synced at every commit (docs/decisions/README.md).
var pragmas = []string{"journal_mode=wal", "synchronous=2", "busy_timeout=10000"}

// childEnv returns the environment of the child. It leaves out the keys of models and stores, which the child does not
// need, and switches off Temporal's daily request for newer versions, which would send version and platform.
func childEnv() []string {
	out := []string{"TEMPORAL_VERSION_CHECK_DISABLED=1"}
	for _, name := range []string{"HOME", "PATH", "TMPDIR", "TZ", "USER", "GOGC", "GOMAXPROCS", "GOMEMLIMIT"} {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", localhost+":0")
	if err != nil {
		return 0, fault.PortTaken.At("listen on", localhost).Because(err).Advise("check the loopback interface")
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

func (s *Server) checkPort() error {
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		return s.portTaken(err)
	}
	return listener.Close()
}

func (s *Server) portTaken(why error) error {
	return fault.PortTaken.At("listen on", s.Address).
		Because(why).
		Advise("another program uses the port: choose another with --temporal-port (0 = any free port)")
}

// awaitHealth waits until the frontend says that it serves.
func awaitHealth(ctx context.Context, address string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	asking := &grpc_health_v1.HealthCheckRequest{Service: "temporal.api.workflowservice.v1.WorkflowService"}
	var last error
	for ctx.Err() == nil {
		response, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, asking)
		if err == nil && response.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		conn.ResetConnectBackoff()
		time.Sleep(20 * time.Millisecond)
	}
	if last == nil {
		last = errors.New("no answer")
	}
	return last
}

// awaitSilence returns when the engine, which did answer, has not done so for several questions in a row: it was
// stopped, or it hangs. A question counts and not the time, so that a machine that slept does not end an engine.
func awaitSilence(ctx context.Context, address string, pulse time.Duration) error {
	var last error
	for missed := 0; missed < mostSilent && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(pulse):
		}
		asking, done := context.WithTimeout(ctx, pulse)
		if last = awaitHealth(asking, address); last == nil {
			missed = 0
		} else {
			missed++
		}
		done()
	}
	return last
}

// malformed is what a running engine logs of a data base that it can no longer read.
const malformed = "database disk image is malformed"

// damages are what SQLite and the engine say of a data base that cannot be used.
var damages = []string{
	malformed, "file is not a database", "no such table", "unable to open database file",
	"disk I/O error", "file is encrypted",
}

// explainExit makes an error of what the child said last.
func (s *Server) explainExit(exit error) error {
	said := s.files.readTail()
	if exit == nil {
		exit = errors.New("exit status 0")
	}
	why := exit
	if said != "" {
		why = fmt.Errorf("%w: %s", exit, said)
	}
	if strings.Contains(said, "address already in use") {
		return s.portTaken(why)
	}
	if slices.ContainsFunc(damages, func(sign string) bool { return strings.Contains(said, sign) }) {
		return newDamagedError(s.files.pathOf(databaseFile), why)
	}
	return fault.EngineDown.At("run the engine,", filepath.Base(s.options.Program)).
		Because(why).
		Advise("see " + s.files.pathOf(logFile))
}
