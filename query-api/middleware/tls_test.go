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
)

func TestACertificateThatIsAwayOrBrokenIsToldOncePerChange(t *testing.T) {
	var told bytes.Buffer
	folder := t.TempDir()
	files := &certificate{
		cert: filepath.Join(folder, "cert"), key: filepath.Join(folder, "key"), pair: &tls.Certificate{},
		log: slog.New(slog.NewTextHandler(&told, nil)),
	}
	at := time.Now().Truncate(time.Second)
	write := func() {
		t.Helper()
		at = at.Add(time.Second)
		for _, path := range []string{files.cert, files.key} {
			if err := os.WriteFile(path, []byte("no certificate"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func() {
		t.Helper()
		if err := os.Remove(files.key); err != nil {
			t.Fatal(err)
		}
	}
	for i, change := range []func(){func() {}, write, write, remove, write} {
		change()
		told.Reset()
		for range 3 {
			files.looked = time.Time{} // a second has passed
			if pair, err := files.get(nil); pair != files.pair || pair == nil || err != nil {
				t.Errorf("change %d: %v, %v", i, pair, err)
			}
		}
		if n := strings.Count(told.String(), "cannot be read"); n != 1 {
			t.Errorf("change %d is told %d times", i, n)
		}
	}
}
