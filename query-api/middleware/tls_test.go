package middleware

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestACertificateThatIsAwayOrBrokenIsToldOncePerChange(t *testing.T) {
	var logged bytes.Buffer
	folder := t.TempDir()
	files := &certificate{
		cert: filepath.Join(folder, "cert"), key: filepath.Join(folder, "key"), pair: &tls.Certificate{},
		tried: [2]time.Time{time.Unix(1, 0)},
		log:   slog.New(slog.NewTextHandler(&logged, nil)),
	}
	at := time.Now().Truncate(time.Second)
	write := func() {
		at = at.Add(time.Second)
		for _, path := range []string{files.cert, files.key} {
			require.NoError(t, os.WriteFile(path, []byte("no certificate"), 0o600))
			require.NoError(t, os.Chtimes(path, at, at))
		}
	}
	remove := func() { require.NoError(t, os.Remove(files.key)) }
	for i, change := range []func(){func() {}, write, write, remove, write} {
		change()
		logged.Reset()
		for range 3 {
			files.looked = time.Time{} // a second has passed
			pair, err := files.get(nil)
			assert.True(t, pair == files.pair && pair != nil && err == nil, "change %d: %v, %v", i, pair, err)
		}
		assert.Equal(t, 1, strings.Count(logged.String(), "cannot be read"), "change %d is logged", i)
	}
}

// Who speaks no newer version than TLS 1.1 is not answered.
// Promises: 140.
func TestNothingBelowTLS12IsSpoken(t *testing.T) {
	folder := t.TempDir()
	authority := musttest.Get(pki.New("test", time.Hour))(t)
	pair := musttest.Get(authority.IssueServer([]string{"localhost"}, time.Hour))(t)
	files := []pki.File{{Name: pki.ServerFile, Content: pair.Cert}, {Name: pki.ServerKeyFile, Content: pair.Key}}
	require.NoError(t, pki.Write(folder, files, false))
	var ofFiles, ofAuthority config.QueryTLS
	ofFiles.Cert, ofFiles.Key = filepath.Join(folder, pki.ServerFile), filepath.Join(folder, pki.ServerKeyFile)
	ofAuthority.ACME.Domains, ofAuthority.ACME.Cache = []string{"docs.example.org"}, folder
	for name, settings := range map[string]config.QueryTLS{"files": ofFiles, "an authority": ofAuthority} {
		serving, err := TLS(settings, slog.New(slog.DiscardHandler))
		assert.True(t,
			err == nil && serving.MinVersion >= tls.VersionTLS12 && NewProbeTLS(settings).MinVersion >= tls.VersionTLS12,
			"certificates of %s: %+v, %v", name, serving, err)
	}
	serving := musttest.Get(TLS(ofFiles, slog.New(slog.DiscardHandler)))(t)
	for most, spoken := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		here, there := net.Pipe()
		go func() { _ = errors.Join(tls.Server(there, serving).Handshake(), there.Close()) }()
		asking := tls.Client(here, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: most, InsecureSkipVerify: true})
		err := asking.Handshake()
		assert.True(t, (err == nil) == spoken, "a program that speaks at most %s: %v", tls.VersionName(most), err)
		_ = here.Close()
	}
}
