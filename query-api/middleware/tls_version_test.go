package middleware

import (
	"crypto/tls"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/config"
)

// Who speaks no newer version than TLS 1.1 is not answered.
// Promises: 140.
func TestNothingBelowTLS12IsSpoken(t *testing.T) {
	folder := t.TempDir()
	authority, err := pki.New("test", time.Hour)
	require.NoError(t, err)
	pair, err := authority.IssueServer([]string{"localhost"}, time.Hour)
	require.NoError(t, err)
	files := []pki.File{{Name: pki.ServerFile, Content: pair.Cert}, {Name: pki.ServerKeyFile, Content: pair.Key}}
	require.NoError(t, pki.Write(folder, files, false))
	var ofFiles, ofAuthority config.QueryTLS
	ofFiles.Cert, ofFiles.Key = filepath.Join(folder, pki.ServerFile), filepath.Join(folder, pki.ServerKeyFile)
	ofAuthority.ACME.Domains, ofAuthority.ACME.Cache = "docs.example.org", folder
	for name, settings := range map[string]config.QueryTLS{"files": ofFiles, "an authority": ofAuthority} {
		serving, err := TLS(settings, slog.New(slog.DiscardHandler))
		assert.True(
			t, err == nil && serving.MinVersion >= tls.VersionTLS12 && NewProbeTLS(settings).MinVersion >= tls.VersionTLS12,
			"certificates of %s: %+v, %v", name, serving, err,
		)
	}
	serving, err := TLS(ofFiles, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for most, spoken := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		here, there := net.Pipe()
		go func() {
			_ = tls.Server(there, serving).Handshake()
			_ = there.Close()
		}()
		asking := tls.Client(here, &tls.Config{
			MinVersion: tls.VersionTLS10, MaxVersion: most, InsecureSkipVerify: true,
		})
		if err := asking.Handshake(); (err == nil) != spoken {
			t.Errorf("a program that speaks at most %s: %v", tls.VersionName(most), err)
		}
		_ = here.Close()
	}
}
