package document_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/unweaver/unweaver/internal/document"
)

// What lies in the folder of compiled code is run: code that others may have put there never is.
func TestAFolderThatOthersMayWriteToKeepsNoCompiledCode(t *testing.T) {
	for _, open := range []string{"unweaver", "unweaver/wasm"} {
		base, temporary := t.TempDir(), t.TempDir()
		t.Setenv("XDG_CACHE_HOME", base)
		t.Setenv("TMPDIR", temporary)
		if err := os.MkdirAll(filepath.Join(base, open), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(base, open), 0o777); err != nil { //nolint:gosec // as an attacker finds it
			t.Fatal(err)
		}
		second := document.PDFCache()
		if filepath.Dir(second) != temporary {
			t.Errorf("%s is open, the cache is %q", open, second)
		}
		if err := os.Chmod(second, 0o777); err != nil { //nolint:gosec // the same
			t.Fatal(err)
		}
		if got := document.PDFCache(); got != "" {
			t.Errorf("both are open, the cache is %q", got)
		}
	}
}
