package tembed_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/unweaver/unweaver/infra/embedded/tembed"
	"github.com/unweaver/unweaver/internal/access/pki"
)

func start(t *testing.T, options tembed.Options) *tembed.Server {
	t.Helper()
	server, err := tembed.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// asks lists namespaces and starts a workflow, and gives the error of each.
func asks(t *testing.T, port int, secured credentials.TransportCredentials) (list, begin error) {
	t.Helper()
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port), grpc.WithTransportCredentials(secured))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	service := workflowservice.NewWorkflowServiceClient(conn)
	_, list = service.ListNamespaces(ctx, &workflowservice.ListNamespacesRequest{})
	_, begin = service.StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{
		Namespace: tembed.Namespace, WorkflowId: fmt.Sprint("w", port), RequestId: "r",
		WorkflowType: &common.WorkflowType{Name: "BuildIndex"}, TaskQueue: &taskqueue.TaskQueue{Name: "unweaver"},
	})
	return list, begin
}

func TestNobodyWithoutTheOwnersCertificateGetsAnythingFromAnyPort(t *testing.T) {
	dir := t.TempDir()
	server := start(t, tembed.Options{Dir: dir})
	if len(server.Ports()) != 4 {
		t.Fatalf("it listens on %v", server.Ports())
	}
	other, err := pki.New("attacker", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := other.Client("attacker", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	for i, port := range server.Ports() {
		for name, secured := range map[string]credentials.TransportCredentials{
			"plain": insecure.NewCredentials(),
			"TLS without a certificate": credentials.NewTLS(
				&tls.Config{InsecureSkipVerify: true}), //nolint:gosec // an attacker does not care
			"TLS with a certificate of another authority": credentials.NewTLS(&tls.Config{
				InsecureSkipVerify: true, Certificates: []tls.Certificate{forged}, //nolint:gosec // as above
			}),
		} {
			if list, begin := asks(t, port, secured); list == nil || begin == nil {
				t.Errorf("service %d, %s: namespaces %v, start %v", i, name, list, begin)
			}
		}
	}
	owner := server.Client.Clone()
	owner.InsecureSkipVerify = true //nolint:gosec // what it shows is looked at, not what it is shown
	for i, port := range server.Ports() {
		list, begin := asks(t, port, credentials.NewTLS(owner))
		if frontend := i == 0; (list == nil) != frontend || (begin == nil) != frontend {
			t.Errorf("service %d, with the owner's certificate: namespaces %v, start %v", i, list, begin)
		}
	}
	for _, name := range []string{"", pki.AuthorityFile, pki.ClientFile, pki.ClientKeyFile} {
		info, err := os.Stat(filepath.Join(dir, tembed.CertsFolder, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%q: %v, %v", name, info, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, tembed.CertsFolder, pki.AuthorityKeyFile)); err == nil {
		t.Error("the key of the authority is on disk")
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	if _, _, _, err := tembed.Certificates(dir); err == nil {
		t.Error("the certificates are still there")
	}
}

func TestCertificatesThatAreKeptServeClientsThroughARestart(t *testing.T) {
	dir := t.TempDir()
	server := start(t, tembed.Options{Dir: dir, Keep: true})
	client, port := server.Client, server.Ports()[0]
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	server = start(t, tembed.Options{Dir: dir, Keep: true, Port: port})
	if list, _ := asks(t, port, credentials.NewTLS(client)); list != nil {
		t.Errorf("a client of before: %v", list)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	_, _, key, err := tembed.Certificates(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	server = start(t, tembed.Options{Dir: dir, Keep: true, Port: port})
	if list, _ := asks(t, port, credentials.NewTLS(server.Client)); list != nil {
		t.Errorf("certificates made anew: %v", list)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}
