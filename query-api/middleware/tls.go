package middleware

import (
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/netutil"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

// TLS gives the configuration of a listener: certificates from files or from an authority, TLS 1.2 or newer. nil: none
// is configured.
func TLS(settings config.QueryTLS, log *slog.Logger) (*tls.Config, error) {
	switch {
	case len(settings.ACME.Domains) > 0:
		manager := &autocert.Manager{
			Prompt:     autocert.AcceptTOS,
			HostPolicy: autocert.HostWhitelist(settings.ACME.Domains...),
			Email:      settings.ACME.Email,
			Cache:      autocert.DirCache(settings.ACME.Cache),
		}
		out := manager.TLSConfig()
		out.MinVersion = tls.VersionTLS12
		return out, nil
	case settings.Cert != "":
		files := &certificate{cert: settings.Cert, key: settings.Key, log: log}
		if err := files.loadPair(); err != nil {
			return nil, fault.BadConfig.At("read certificate", settings.Cert).
				Because(err).
				Advise("check query_api.tls.cert and query_api.tls.key")
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: files.get, NextProtos: []string{"h2", "http/1.1"},
		}, nil
	}
	return nil, nil
}

// lookEvery is how often files are asked whether they have changed.
const lookEvery = time.Second

// certificate of two files, read again when either changes. A pair that cannot be read leaves the one before.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	tried  [2]time.Time // modification times of what was read last, or could not be, which is reported once
	looked time.Time
}

// fileTimes returns when the files were changed; zero for one that cannot be looked at.
func (c *certificate) fileTimes() (out [2]time.Time) {
	for i, path := range []string{c.cert, c.key} {
		if info, err := os.Stat(path); err == nil {
			out[i] = info.ModTime()
		}
	}
	return out
}

func (c *certificate) loadPair() error {
	c.tried = c.fileTimes()
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err == nil {
		c.pair = &pair
	}
	return err
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < lookEvery {
		return c.pair, nil
	}
	c.looked = time.Now()
	if c.fileTimes() != c.tried && c.loadPair() != nil {
		c.log.Warn("the new certificate cannot be read; the previous one stays in use", "file", c.cert)
	}
	return c.pair, nil
}

// NewProbeTLS returns what a health check needs to reach the process it runs in: it sends no key, and does not ask who
// answers.
func NewProbeTLS(settings config.QueryTLS) *tls.Config {
	out := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // only /livez, by ourselves
	if names := settings.ACME.Domains; len(names) > 0 {
		out.ServerName = names[0]
	}
	return out
}

// WrapListener bounds the connections of a listener, 0 not, and speaks TLS where it is configured.
func WrapListener(plain net.Listener, encrypted *tls.Config, connections int) net.Listener {
	if connections > 0 {
		plain = netutil.LimitListener(plain, connections)
	}
	if encrypted != nil {
		return tls.NewListener(plain, encrypted)
	}
	return plain
}

// Warn logs once at start where keys and texts travel readable.
func Warn(log *slog.Logger, listens net.Addr, encrypted bool) {
	if !encrypted && !IsLoopback(listens) {
		log.Warn("the query API is reachable from other machines without TLS: set query_api.tls, or run it behind "+
			"a proxy with TLS", "address", listens.String())
	}
}
