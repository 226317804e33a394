package stack_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

// The first stack's address is how the command line finds it: a second one that is refused leaves it alone.
func TestARefusedStackLeavesTheAddressOfTheFirst(t *testing.T) {
	dir := t.TempDir()
	held, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	address := filepath.Join(dir, "dev.json")
	if err := os.WriteFile(address, []byte(`{"http":"http://127.0.0.1:1","pid":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = stack.Start(t.Context(), stack.Options{
		DataDir: dir, Config: config.Default(), Log: slog.New(slog.DiscardHandler),
	})
	if !fault.Is(err, fault.DataDirInUse) || !strings.Contains(err.Error(), dir) {
		t.Fatal(err)
	}
	if _, err := os.Stat(address); err != nil {
		t.Errorf("the first stack is cut off: %v", err)
	}
}

// What was paid for lies in a directory of the former layout: it is left as it is, and the error says how it is kept.
func TestADirectoryOfTheFormerLayoutIsLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "temporal.db"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := stack.Start(t.Context(), stack.Options{
		DataDir: dir, Config: config.Default(), Log: slog.New(slog.DiscardHandler),
	})
	if !fault.Is(err, fault.FormatUnknown) || !strings.Contains(err.Error(), "unweaver index FOLDER") ||
		!strings.Contains(err.Error(), filepath.Join(dir, "artifacts", "ledger")) {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 { // and the lock
		t.Errorf("%v, %v", left, err)
	}
}
