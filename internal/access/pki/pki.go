// Package pki makes the certificates that the parts of one installation know each other by: one authority,
// servers that it names, clients that it lets in. Keys are ECDSA P-256, everything is PEM.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// early is how long before its making a certificate is valid already: clocks of two machines differ.
const early = time.Hour

// Pair is a certificate with its private key, both as PEM.
type Pair struct{ Cert, Key []byte }

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pair Pair
}

// New makes an authority with a new key. Its certificates can be valid for as long as it is.
func New(name string, valid time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	template, err := newTemplate(name, valid)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority: %w", err)
	}
	authority := &Authority{key: key}
	if authority.cert, err = x509.ParseCertificate(raw); err != nil {
		return nil, err
	}
	authority.pair, err = encodePair(raw, key)
	return authority, err
}

// Pair returns the authority itself. Its key is enough to make certificates.
func (a *Authority) Pair() Pair { return a.pair }

// IssueServer makes the certificate of a server that is reached by names or IP addresses. It is a client's, too: the
// parts of one server call each other.
func (a *Authority) IssueServer(hosts []string, valid time.Duration) (Pair, error) {
	if len(hosts) == 0 {
		return Pair{}, errors.New("a server needs a name or an address")
	}
	return a.issuePair(hosts[0], valid, func(cert *x509.Certificate) {
		cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		for _, host := range hosts {
			if ip := net.ParseIP(host); ip != nil {
				cert.IPAddresses = append(cert.IPAddresses, ip)
			} else {
				cert.DNSNames = append(cert.DNSNames, host)
			}
		}
	})
}

// IssueClient makes the certificate of a client. No server can be had with it.
func (a *Authority) IssueClient(name string, valid time.Duration) (Pair, error) {
	return a.issuePair(name, valid, func(cert *x509.Certificate) {
		cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
}

func (a *Authority) issuePair(name string, valid time.Duration, purpose func(*x509.Certificate)) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	template, err := newTemplate(name, valid)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	purpose(template)
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	return encodePair(raw, key)
}

func newTemplate(name string, valid time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"UnWeaver"}},
		NotBefore: now.Add(-early), NotAfter: now.Add(valid),
	}, nil
}

func encodePair(cert []byte, key *ecdsa.PrivateKey) (Pair, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode a key: %w", err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}),
	}, nil
}
