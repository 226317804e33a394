package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/pkitest"
)

var at = config.Engine{Address: "127.0.0.1:1", Namespace: "builds"}

func TestErrorsOfTemporalBecomeFaults(t *testing.T) {
	own := fault.StoreDown.At("read", "redis")
	for name, c := range map[string]struct {
		err  error
		code fault.Code
		says string
	}{
		"a run that it does not know": {serviceerror.NewNotFound("no"), fault.RunNotFound, "or it has ended"},
		"a namespace that is not": {
			serviceerror.NewNamespaceNotFound("builds"), fault.EngineDown, "namespace builds: the namespace does not exist",
		},
		"no permission":   {serviceerror.NewPermissionDenied("no", ""), fault.EngineDown, "engine.api_key_env"},
		"anything else":   {errors.New("reset"), fault.EngineDown, "127.0.0.1:1: reset"},
		"wrapped":         {fmt.Errorf("start: %w", serviceerror.NewNotFound("no")), fault.RunNotFound, ""},
		"a fault of ours": {own, fault.StoreDown, "redis"},
	} {
		t.Run(name, func(t *testing.T) {
			got := engine.ToFault(c.err, at)
			assert.True(t, fault.Is(got, c.code) && strings.Contains(got.Error(), c.says), "got %v (%s), want %s", got,
				fault.CodeOf(got), c.code)
		})
	}
	assert.NoError(t, engine.ToFault(nil, at), "nil became an error")
}

func TestATemporalThatCannotBeReached(t *testing.T) {
	keyed := at
	keyed.APIKeyEnv = "ENGINE_TEST_UNSET"
	for name, c := range map[string]struct {
		engine config.Engine
		code   fault.Code
		says   string
	}{
		"nothing listens":    {at, fault.EngineDown, "engine.address"},
		"its key is not set": {keyed, fault.BadConfig, "ENGINE_TEST_UNSET is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			musttest.Refuse(engine.Dial(t.Context(), c.engine, slog.New(slog.DiscardHandler)))(t, c.code, c.says, "127.0.0.1:1")
		})
	}
}

// A failed attempt is reported by the run's own state; the engine's line about it may hold what must not be logged.
func TestFailedAttemptsAreLoggedForThoseWhoDebug(t *testing.T) {
	for name, c := range map[string]struct {
		level   slog.Level
		message string
		shown   bool
	}{
		"a failed attempt":                   {slog.LevelInfo, "Activity error.", false},
		"a failed attempt, in debugging":     {slog.LevelDebug, "Activity error.", true},
		"a late heartbeat":                   {slog.LevelInfo, "RecordActivityHeartbeat with error", false},
		"anything else that the engine says": {slog.LevelInfo, "Workflow panic", true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger := engine.Logger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: c.level})))
			logger.Error(c.message, "ActivityType", "ExtractChunks")
			assert.Equal(t, c.shown, strings.Contains(out.String(), c.message), "logged %q", out.String())
		})
	}
	var out bytes.Buffer
	base := engine.Logger(slog.New(slog.NewTextHandler(&out, nil).WithGroup("g").WithAttrs([]slog.Attr{slog.Int("n", 1)})))
	base.Warn("kept")
	base.Info("Started Worker")
	base.Error("Activity error.")
	assert.True(t, strings.Contains(out.String(), "kept") && !strings.Contains(out.String(), "Activity error.") &&
		!strings.Contains(out.String(), "Started Worker"), "logged %q", out.String())
}

func TestAProgramWithAnotherCodecKeyIsRefused(t *testing.T) {
	keyed := func() (config.Engine, string) {
		path := filepath.Join(t.TempDir(), "codec.key")
		key := musttest.Get(codec.Create(path, "none"))(t)
		return config.Engine{CodecKey: path}, key.ID
	}
	first, id := keyed()
	other, otherID := keyed()
	store := blobmemory.New()
	for name, check := range map[string]func(config.Engine) error{
		"an installation without a key": func(e config.Engine) error { return engine.KeepKey(t.Context(), store, e) },
		"its control service":           func(e config.Engine) error { return engine.CheckKey(t.Context(), store, e) },
	} {
		assert.NoError(t, check(config.Engine{}), "%s", name)
	}
	if err := engine.CheckKey(t.Context(), store, other); err != nil { // it keeps nothing
		t.Error(err)
	}
	for range 2 {
		require.NoError(t, engine.KeepKey(t.Context(), store, first))
	}
	assert.NoError(t, engine.CheckKey(t.Context(), store, first))
	for name, test := range map[string]struct {
		engine config.Engine
		says   string
	}{
		"another key": {other, "this program has key " + otherID},
		"no key":      {config.Engine{}, "this program has none"},
	} {
		for _, err := range []error{
			engine.KeepKey(t.Context(), store, test.engine), engine.CheckKey(t.Context(), store, test.engine),
		} {
			assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), test.says) &&
				strings.Contains(err.Error(), "encrypted with key "+id) && strings.Contains(err.Error(), engine.KeyObject),
				"%s: %v", name, err)
		}
	}
	err := engine.KeepKey(t.Context(), store, config.Engine{CodecKey: filepath.Join(t.TempDir(), "none")})
	assert.True(t, fault.Is(err, fault.BadConfig), "a key that is not there: %v", err)
}

type namespaces struct {
	workflowservice.UnimplementedWorkflowServiceServer
}

func (namespaces) GetSystemInfo(
	context.Context, *workflowservice.GetSystemInfoRequest,
) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{}, nil
}

func (namespaces) DescribeNamespace(
	context.Context, *workflowservice.DescribeNamespaceRequest,
) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{}, nil
}

// secured serves with mutual TLS under a name, and gives its address and the files of a client.
func secured(t *testing.T, name string) config.Engine {
	t.Helper()
	authority := musttest.Get(pki.New("test", time.Hour))(t)
	pair := musttest.Get(authority.IssueServer([]string{name}, time.Hour))(t)
	client := musttest.Get(authority.IssueClient("c", time.Hour))(t)
	folder := t.TempDir()
	if err := pki.Write(folder, []pki.File{
		{Name: pki.AuthorityFile, Content: authority.Pair().Cert},
		{Name: pki.ClientFile, Content: client.Cert}, {Name: pki.ClientKeyFile, Content: client.Key},
	}, false); err != nil {
		t.Fatal(err)
	}
	serving, _ := musttest.Get2(pkitest.Mutual(authority.Pair().Cert, pair, ""))(t)
	listener := musttest.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(serving)))
	workflowservice.RegisterWorkflowServiceServer(server, namespaces{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return config.Engine{
		Address: listener.Addr().String(), Namespace: "builds", TLSServer: name,
		TLSCA: filepath.Join(folder, pki.AuthorityFile), TLSCert: filepath.Join(folder, pki.ClientFile),
		TLSKey: filepath.Join(folder, pki.ClientKeyFile),
	}
}

func TestAnEngineThatAsksForCertificatesIsReachedWithThem(t *testing.T) {
	whole := secured(t, "temporal")
	client := musttest.Get(engine.Dial(t.Context(), whole, slog.New(slog.DiscardHandler)))(t)
	client.Close()
	for name, change := range map[string]func(*config.Engine){
		"no certificate":                func(e *config.Engine) { e.TLSCert, e.TLSKey = "", "" },
		"another name":                  func(e *config.Engine) { e.TLSServer = "elsewhere" },
		"another authority's":           func(e *config.Engine) { e.TLSCA = secured(t, "temporal").TLSCA },
		"no TLS at all":                 func(e *config.Engine) { e.TLSCA, e.TLSCert, e.TLSKey, e.TLSServer = "", "", "", "" },
		"the authority of the system's": func(e *config.Engine) { e.TLSCA = "" },
	} {
		changed := whole
		change(&changed)
		_, err := engine.Dial(t.Context(), changed, slog.New(slog.DiscardHandler))
		assert.True(t, fault.Is(err, fault.EngineDown), "%s: %v", name, err)
	}
}

func TestFilesThatHoldNoCertificatesAreNamed(t *testing.T) {
	whole := secured(t, "temporal")
	junk := filepath.Join(t.TempDir(), "junk.pem")
	require.NoError(t, os.WriteFile(junk, []byte("junk"), 0o600))
	for name, change := range map[string]func(*config.Engine){
		"engine.tls_ca":         func(e *config.Engine) { e.TLSCA = junk },
		"engine.codec_key_file": func(e *config.Engine) { e.CodecKey = junk },

		"engine.tls_cert": func(e *config.Engine) { e.TLSCert = junk },
		"engine.tls_key":  func(e *config.Engine) { e.TLSKey = filepath.Join(t.TempDir(), "none.pem") },
	} {
		changed := whole
		change(&changed)
		_, err := engine.Dial(t.Context(), changed, slog.New(slog.DiscardHandler))
		assert.True(t, fault.Is(err, fault.BadConfig), "%s: %v", name, err)
	}
}
