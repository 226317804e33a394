package pdf_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/pdf"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

func TestReadingAPDFEndsByTheClock(t *testing.T) {
	limits := document.DefaultLimits()
	limits.Time = time.Nanosecond
	_, _, err := documenttest.ReadWhole(documenttest.SmallPDF("text"), document.PDF, "dir/x", limits)
	assert.True(t, fault.Is(err, fault.TooLarge) && strings.Contains(err.Error(), "limits.document.seconds"), "%v", err)
}

// What lies in the folder of compiled code is run: code that others may have put there never is.
func TestAFolderThatOthersMayWriteToKeepsNoCompiledCode(t *testing.T) {
	for _, open := range []string{"unweaver", "unweaver/wasm"} {
		base, temporary := t.TempDir(), t.TempDir()
		t.Setenv("XDG_CACHE_HOME", base)
		t.Setenv("TMPDIR", temporary)
		require.NoError(t, os.MkdirAll(filepath.Join(base, open), 0o700))
		if err := os.Chmod(filepath.Join(base, open), 0o777); err != nil { //nolint:gosec // as an attacker finds it
			t.Fatal(err)
		}
		second := pdf.CacheFolder()
		assert.True(t, filepath.Dir(second) == temporary, "%s is open, the cache is %q", open, second)
		if err := os.Chmod(second, 0o777); err != nil { //nolint:gosec // the same
			t.Fatal(err)
		}
		got := pdf.CacheFolder()
		assert.True(t, got == "", "both are open, the cache is %q", got)
	}
}
