// Package engine connects to Temporal: a server of one's own, or Temporal Cloud with TLS and an API key.
package engine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
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
				Advise("set it, or unset engine.api_key_env")
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
			Advise("check engine.address, that Temporal runs, and engine.tls, tls_ca, tls_cert and tls_key where it needs them")
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
			Advise("give the files that the engine's owner made, as with: unweaver certs create")
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

// ToFault makes a fault of an error of Temporal.
func ToFault(err error, engine config.Engine) error {
	if err == nil || fault.As(err) != nil {
		return err
	}
	var nf *serviceerror.NotFound
	var ns *serviceerror.NamespaceNotFound
	var pd *serviceerror.PermissionDenied
	switch {
	case errors.As(err, &ns):
		return fault.EngineDown.At("use Temporal namespace", engine.Namespace).
			Because("it does not exist").
			Advise("create it, or set engine.namespace")
	case errors.As(err, &pd):
		return fault.EngineDown.At("use Temporal namespace", engine.Namespace).
			Because(err).
			Advise("check engine.api_key_env and engine.namespace")
	case errors.As(err, &nf):
		return fault.RunNotFound.At("find run", "").
			Because("Temporal knows no such run, or it has ended").
			Advise("see: unweaver status --index INDEX")
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
