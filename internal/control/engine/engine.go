// Package engine connects to Temporal: a server of one's own, or Temporal Cloud with TLS and an API key.
package engine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/telemetry/tracing"
	"github.com/unweaver/unweaver/workflows"
)

// Dial connects and proves that the namespace is there.
func Dial(ctx context.Context, engine config.Engine, log *slog.Logger) (client.Client, error) {
	options := client.Options{HostPort: engine.Address, Namespace: engine.Namespace, Logger: Logger(log)}
	if err := AddTracing(&options); err != nil {
		return nil, err
	}
	secured, err := newTLSConfig(engine)
	if err != nil {
		return nil, err
	}
	options.ConnectionOptions.TLS = secured
	if onLoopback(engine.Address) {
		options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{} // it costs more than it spares
	}
	if engine.APIKeyEnv != "" {
		k := os.Getenv(engine.APIKeyEnv)
		if k == "" {
			return nil, fault.BadConfig.At("connect to Temporal at", engine.Address).
				Because("variable " + engine.APIKeyEnv + " is empty").
				Advise("set the variable, or remove engine.api_key_env")
		}
		redact.Register(k)
		options.Credentials = client.NewAPIKeyStaticCredentials(k)
	}
	if engine.CodecKey != "" {
		key, err := codec.Load(engine.CodecKey)
		if err != nil {
			return nil, err
		}
		codec.Apply(&options, key, log)
	}
	t, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fault.EngineDown.At("connect to Temporal at", engine.Address).
			Because(err).
			Advise("check that Temporal runs at engine.address, and check engine.tls, tls_ca, tls_cert and tls_key")
	}
	request := &workflowservice.DescribeNamespaceRequest{Namespace: engine.Namespace}
	if _, err = t.WorkflowService().DescribeNamespace(ctx, request); err != nil {
		t.Close()
		return nil, ToFault(err, engine)
	}
	return t, nil
}

// onLoopback reports whether an address is of this machine alone.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && net.ParseIP(host).IsLoopback()
}

// newTLSConfig returns how the connection is secured; nil: not at all.
func newTLSConfig(engine config.Engine) (*tls.Config, error) {
	if !engine.TLS && engine.APIKeyEnv == "" && engine.TLSCA == "" && engine.TLSCert == "" && engine.TLSServer == "" {
		return nil, nil //nolint:nilnil // it is not, and that is no error
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: engine.TLSServer}
	bad := func(setting, file string, err error) error {
		return fault.BadConfig.At("read "+setting, file).
			Because(err).
			Advise("use the files from the owner of the Temporal server; to create them: unweaver certs create")
	}
	if engine.TLSCA != "" {
		raw, err := os.ReadFile(engine.TLSCA)
		if err != nil {
			return nil, bad("engine.tls_ca", engine.TLSCA, err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(raw) {
			return nil, bad("engine.tls_ca", engine.TLSCA, errors.New("it holds no certificate"))
		}
	}
	if engine.TLSCert == "" {
		return out, nil
	}
	if _, err := tls.LoadX509KeyPair(engine.TLSCert, engine.TLSKey); err != nil {
		return nil, bad("engine.tls_cert and engine.tls_key", engine.TLSCert, err)
	}
	// They are read again at every connection: certificates that are renewed need no restart.
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(engine.TLSCert, engine.TLSKey)
		return &pair, err
	}
	return out, nil
}

// Is reports whether an error is of a type of Temporal's.
func Is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// ToFault makes a fault of an error of Temporal.
func ToFault(err error, engine config.Engine) error {
	if err == nil || fault.As(err) != nil {
		return err
	}
	switch {
	case Is[*serviceerror.NamespaceNotFound](err):
		return fault.EngineDown.At("use Temporal namespace", engine.Namespace).
			Because("the namespace does not exist").
			Advise("create it in Temporal, or set engine.namespace")
	case Is[*serviceerror.PermissionDenied](err):
		return fault.EngineDown.At("use Temporal namespace", engine.Namespace).
			Because(err).
			Advise("check engine.api_key_env and engine.namespace")
	case Is[*serviceerror.NotFound](err):
		return fault.RunNotFound.At("find run", "").
			Because("Temporal knows no such run, or it has ended").
			Advise("to see the last run: unweaver status INDEX")
	}
	return fault.EngineDown.At("call Temporal at", engine.Address).Because(err).Advise("check engine.address")
}

// Logger gives Temporal our logger. What its library says of its own workings (pollers, attempts that failed,
// heartbeats that came late) is kept for those who debug: the run's own state and our own lines tell what came of it,
// with its object and the way out. Its warnings that are about more than one attempt stay.
func Logger(l *slog.Logger) sdklog.Logger {
	return sdklog.NewStructuredLogger(slog.New(quiet{l.Handler()}))
}

// noise are messages of the library above info that a healthy system has too.
var noise = map[string]bool{
	"Activity error.":                                    true,
	"RecordActivityHeartbeat with error":                 true,
	"Failed to send heartbeat":                           true,
	"Failed to poll for task.":                           true,
	"Failed to process workflow task.":                   true,
	"Workflow task preprocess error: ":                   true,
	"Workflow task postprocess error: ":                  true,
	"Stopping heartbeat worker":                          true,
	"ShutdownWorker rpc errored during worker shutdown.": true,
	"LocalActivity completed after activity deadline.":   true,
}

type quiet struct{ slog.Handler }

// Handle demotes what is noise, and all that is no warning.
func (q quiet) Handle(ctx context.Context, record slog.Record) error {
	if record.Level < slog.LevelWarn || noise[record.Message] {
		if !q.Enabled(ctx, slog.LevelDebug) {
			return nil
		}
		record.Level = slog.LevelDebug
	}
	return q.Handler.Handle(ctx, record)
}

// WithAttrs keeps the demotion.
func (q quiet) WithAttrs(a []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(a)} }

// WithGroup keeps the demotion.
func (q quiet) WithGroup(n string) slog.Handler { return quiet{q.Handler.WithGroup(n)} }

// Describer is a client of Temporal, as far as Standing needs one.
type Describer interface {
	DescribeWorkflowExecution(
		ctx context.Context, workflow, run string,
	) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

// DescribeRun returns what an engine knows about a run of a workflow; an empty run is the last one.
func DescribeRun(ctx context.Context, client Describer, of config.Engine, holder run.Holder) (run.Standing, error) {
	response, err := client.DescribeWorkflowExecution(ctx, holder.Workflow, holder.Run)
	if Is[*serviceerror.NotFound](err) {
		return run.StandingUnknown, nil
	}
	if err != nil {
		return run.StandingUnknown, ToFault(err, of)
	}
	if response.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return run.StandingOpen, nil
	}
	return run.StandingClosed, nil
}

// Identity names an engine by the id of its cluster: hosts reach one server by several addresses. A server that does
// not tell its id, as Temporal Cloud, is named by its address.
func Identity(
	ctx context.Context, service workflowservice.WorkflowServiceClient, configured config.Engine,
) (core.Engine, error) {
	out := core.Engine{
		Cluster: "address:" + configured.Address, Address: configured.Address, Namespace: configured.Namespace,
	}
	response, err := service.GetClusterInfo(ctx, &workflowservice.GetClusterInfoRequest{})
	switch {
	case Is[*serviceerror.PermissionDenied](err) || Is[*serviceerror.Unimplemented](err):
		return out, nil
	case err != nil:
		return out, ToFault(err, configured)
	case response.GetClusterId() != "":
		out.Cluster = response.GetClusterId()
	}
	return out, nil
}

// Starter is a client of Temporal, as far as StartBuild needs one.
type Starter interface {
	ExecuteWorkflow(
		ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any,
	) (client.WorkflowRun, error)
}

// NewPriority returns the part of the workers that a run has: its index is what fairness goes by. Stages, shards and
// activities have it from the run. Keys of fairness have at most 64 bytes, names of indexes 63.
func NewPriority(index string, level int, weight float64) temporal.Priority {
	return temporal.Priority{PriorityKey: level, FairnessKey: index, FairnessWeight: float32(weight)}
}

// StartBuild starts the run of a build on a task queue, or finds the one that already runs under its name.
func StartBuild(
	ctx context.Context, engine Starter, queue string, priority temporal.Priority,
	reuse enums.WorkflowIdReusePolicy, build workflows.Build,
) (client.WorkflowRun, error) {
	return engine.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       workflows.BuildID(build.Index, build.Generation),
		TaskQueue:                queue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    reuse,
		Priority:                 priority,
	}, workflows.BuildIndexName, build)
}

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

// KeyObject is where the artifact store keeps which codec key an installation has. No index can have that name.
const KeyObject = "_engine/codec-key.json"

type keyRecord struct {
	Key string `json:"key"` // its id, which says nothing of the key
}

// KeepKey writes down which codec key the installation has, where nothing is yet, and checks it as CheckKey does. A
// worker calls it before it takes work.
func KeepKey(ctx context.Context, artifacts blob.Store, configured config.Engine) error {
	if configured.CodecKey != "" {
		key, err := codec.Load(configured.CodecKey)
		if err != nil {
			return err
		}
		_, err = blob.WriteJSON(ctx, artifacts, KeyObject, keyRecord{Key: key.ID}, blob.Cond{Absent: true})
		if err != nil && !fault.Is(err, fault.Precondition) {
			return err
		}
	}
	return CheckKey(ctx, artifacts, configured)
}

// CheckKey returns an error where a program has another codec key than the workers of its installation, or none: a
// worker with another key ends every run whose task it takes, and a run that is started with another key ends at once.
func CheckKey(ctx context.Context, artifacts blob.Store, configured config.Engine) error {
	var kept keyRecord
	_, err := blob.ReadJSON(ctx, artifacts, KeyObject, &kept)
	if fault.Is(err, fault.NotFound) { // no worker with a key was started yet
		return nil
	}
	if err != nil {
		return err
	}
	mine, why := "", errors.New("this program has none")
	if configured.CodecKey != "" {
		key, err := codec.Load(configured.CodecKey)
		if err != nil {
			return err
		}
		mine, why = key.ID, fmt.Errorf("this program has key %s", key.ID)
	}
	if mine == kept.Key {
		return nil
	}
	where := artifacts.Location(KeyObject)
	return fault.BadConfig.At("use the codec key", configured.CodecKey).
		Because(fmt.Errorf("%w, but the runs of this installation are encrypted with key %s (%s)", why, kept.Key, where)).
		Advise("give engine.codec_key_file the file that the installation's other programs have; to change the key, " +
			"stop every worker while no run is in flight, remove " + where + " and start them with the new one")
}
