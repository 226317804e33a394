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
)

// Dial connects and proves that the namespace is there.
func Dial(ctx context.Context, c config.Engine, log *slog.Logger) (client.Client, error) {
	o := client.Options{HostPort: c.Address, Namespace: c.Namespace, Logger: Logger(log)}
	if c.TLS || c.APIKeyEnv != "" {
		o.ConnectionOptions.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.APIKeyEnv != "" {
		k := os.Getenv(c.APIKeyEnv)
		if k == "" {
			return nil, fault.New(fault.BadConfig, fault.Bad, "connect to Temporal at", c.Address, "variable "+c.APIKeyEnv+" is empty", "set it, or unset engine.api_key_env")
		}
		o.Credentials = client.NewAPIKeyStaticCredentials(k)
	}
	t, err := client.DialContext(ctx, o)
	if err != nil {
		return nil, fault.New(fault.EngineDown, fault.Fatal, "connect to Temporal at", c.Address, err, "check engine.address, engine.tls and that Temporal runs")
	}
	if _, err = t.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: c.Namespace}); err != nil {
		t.Close()
		return nil, Fault(err, c)
	}
	return t, nil
}

// Fault makes a fault of an error of Temporal.
func Fault(err error, c config.Engine) error {
	if err == nil || fault.As(err) != nil {
		return err
	}
	var nf *serviceerror.NotFound
	var ns *serviceerror.NamespaceNotFound
	var pd *serviceerror.PermissionDenied
	switch {
	case errors.As(err, &ns):
		return fault.New(fault.EngineDown, fault.Fatal, "use Temporal namespace", c.Namespace, "it does not exist", "create it, or set engine.namespace")
	case errors.As(err, &pd):
		return fault.New(fault.EngineDown, fault.Fatal, "use Temporal namespace", c.Namespace, err, "check engine.api_key_env and engine.namespace")
	case errors.As(err, &nf):
		return fault.New(fault.RunNotFound, fault.Bad, "find run", "", "Temporal knows no such run, or it has ended", "see: unweaver status --index INDEX")
	}
	return fault.New(fault.EngineDown, fault.Transient, "call Temporal at", c.Address, err, "check engine.address")
}

// Logger gives Temporal our logger. A failed attempt of an activity is told by the run's own state, with its object and the
// way out; the engine's line about it says less and is kept for those who debug.
func Logger(l *slog.Logger) sdklog.Logger {
	return sdklog.NewStructuredLogger(slog.New(quiet{l.Handler()}))
}

type quiet struct{ slog.Handler }

// Handle demotes the engine's reports of failed attempts.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "Activity error." && !q.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

// WithAttrs keeps the demotion.
func (q quiet) WithAttrs(a []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(a)} }

// WithGroup keeps the demotion.
func (q quiet) WithGroup(n string) slog.Handler { return quiet{q.Handler.WithGroup(n)} }
