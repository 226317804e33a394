package middleware

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACertificateThatIsAwayOrBrokenIsToldOncePerChange(t *testing.T) {
	var logged bytes.Buffer
	folder := t.TempDir()
	files := &certificate{
		cert: filepath.Join(folder, "cert"), key: filepath.Join(folder, "key"), pair: &tls.Certificate{},
		log: slog.New(slog.NewTextHandler(&logged, nil)),
	}
	at := time.Now().Truncate(time.Second)
	write := func() {
		t.Helper()
		at = at.Add(time.Second)
		for _, path := range []string{files.cert, files.key} {
			require.NoError(t, os.WriteFile(path, []byte("no certificate"), 0o600))
			require.NoError(t, os.Chtimes(path, at, at))
		}
	}
	remove := func() {
		t.Helper()
		require.NoError(t, os.Remove(files.key))
	}
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
