package stack_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// The first stack's address is how the command line finds it: a second one that is refused leaves it alone.
func TestARefusedStackLeavesTheAddressOfTheFirst(t *testing.T) {
	dir := t.TempDir()
	held := musttest.Get(os.Create(filepath.Join(dir, "lock")))(t)
	defer func() { _ = held.Close() }()
	require.NoError(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	address := filepath.Join(dir, "dev.json")
	require.NoError(t, os.WriteFile(address, []byte(`{"http":"http://127.0.0.1:1","pid":1}`), 0o600))
	_, err := stack.Start(t.Context(),
		stack.Options{DataDir: dir, Config: config.Default(), Log: slog.New(slog.DiscardHandler)})
	require.True(t, fault.Is(err, fault.DataDirInUse) && strings.Contains(err.Error(), dir), "%v", err)
	assert.NoError(t, musttest.Err(os.Stat(address)), "the first stack is cut off")
}

// What was paid for lies in a directory of the former layout: it is left as it is, and the error says how it is kept.
func TestADirectoryOfTheFormerLayoutIsLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "temporal.db"), []byte("x"), 0o600))
	_, err := stack.Start(t.Context(),
		stack.Options{DataDir: dir, Config: config.Default(), Log: slog.New(slog.DiscardHandler)})
	musttest.Fail(t, err, fault.FormatUnknown, "unweaver index FOLDER", filepath.Join(dir, "artifacts", "ledger"))
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 { // and the lock
		t.Errorf("%v, %v", left, err)
	}
}
