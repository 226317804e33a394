// Package pkitest makes configurations of TLS of certificates that package pki made.
package pkitest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/unweaver/unweaver/internal/access/pki"
)

// Mutual returns the configuration of a server, and that of a client, which know each other by certificates of one
// authority, given as PEM: a server lets no client in that has none, and a client talks to no other server than name.
// An empty name is the host that is dialled.
func Mutual(authority []byte, pair pki.Pair, name string) (server, client *tls.Config, err error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, nil, errors.New("the authority's file holds no certificate")
	}
	own, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate and key: %w", err)
	}
	server = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	}
	client = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, RootCAs: pool, ServerName: name,
	}
	return server, client, nil
}
