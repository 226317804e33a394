// Package engine connects to Temporal: a server of one's own, or Temporal Cloud with TLS and an API key.
package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/redact"
)

// Dial connects and proves that the namespace is there.
func Dial(ctx context.Context, engine config.Engine, log *slog.Logger) (client.Client, error) {
	options := client.Options{HostPort: engine.Address, Namespace: engine.Namespace, Logger: Logger(log)}
	if engine.TLS || engine.APIKeyEnv != "" {
		options.ConnectionOptions.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
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
	t, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fault.EngineDown.At("connect to Temporal at", engine.Address).
			Because(err).
			Advise("check engine.address, engine.tls and that Temporal runs")
	}
	request := &workflowservice.DescribeNamespaceRequest{Namespace: engine.Namespace}
	if _, err = t.WorkflowService().DescribeNamespace(ctx, request); err != nil {
		t.Close()
		return nil, Fault(err, engine)
	}
	return t, nil
}

// Fault makes a fault of an error of Temporal.
func Fault(err error, engine config.Engine) error {
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

// Logger gives Temporal our logger. A failed attempt of an activity is told by the run's own state, with its object
// and the way out; the engine's line about it says less and is kept for those who debug.
func Logger(l *slog.Logger) sdklog.Logger {
	return sdklog.NewStructuredLogger(slog.New(quiet{l.Handler()}))
}

type quiet struct{ slog.Handler }

// Handle demotes the engine's reports of failed attempts.
func (q quiet) Handle(ctx context.Context, record slog.Record) error {
	if record.Message == "Activity error." && !q.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	return q.Handler.Handle(ctx, record)
}

// WithAttrs keeps the demotion.
func (q quiet) WithAttrs(a []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(a)} }

// WithGroup keeps the demotion.
func (q quiet) WithGroup(n string) slog.Handler { return quiet{q.Handler.WithGroup(n)} }
