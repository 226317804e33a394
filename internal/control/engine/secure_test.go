package engine_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/pkitest"
)

// namespaces is a server that knows every namespace.
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
	authority, err := pki.New("test", time.Hour)
	require.NoError(t, err)
	pair, err := authority.IssueServer([]string{name}, time.Hour)
	require.NoError(t, err)
	client, err := authority.IssueClient("c", time.Hour)
	require.NoError(t, err)
	folder := t.TempDir()
	if err := pki.Write(folder, []pki.File{
		{Name: pki.AuthorityFile, Content: authority.Pair().Cert},
		{Name: pki.ClientFile, Content: client.Cert}, {Name: pki.ClientKeyFile, Content: client.Key},
	}, false); err != nil {
		t.Fatal(err)
	}
	serving, _, err := pkitest.Mutual(authority.Pair().Cert, pair, "")
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
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
	client, err := engine.Dial(t.Context(), whole, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
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
