//go:build unix && !linux

package sandbox

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/document"
)

// findProgram returns what a child runs.
func findProgram() (string, error) { return os.Executable() }

// newAttributes returns the attributes of a child: a separate group. It sees by its standard input that its parent is
// gone.
func newAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func hardenThread() {}

// processorTime returns 0: the time is not known here while a child runs. What it took for documents before counts for
// the last one.
func (c *child) processorTime() time.Duration { return 0 }

// awaitExit ends a child: elsewhere it could not be waited for without losing its number.
func awaitExit(pid int) {
	time.Sleep(100 * time.Millisecond)
	_ = syscall.Kill(-pid, syscall.SIGKILL)
}

// measureMapped returns 0: it is not asked where the system bounds no memory.
func measureMapped() int64 { return 0 }

// confineProcess takes from this process what parsing does not need. Memory is bounded by the runtime's limit alone,
// which collects more as it comes near and does not refuse.
func confineProcess(document.Limits, int64) error {
	for _, one := range []struct {
		resource int
		value    uint64
	}{{unix.RLIMIT_FSIZE, 0}, {unix.RLIMIT_CORE, 0}} {
		if err := unix.Setrlimit(one.resource, &unix.Rlimit{Cur: one.value, Max: one.value}); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	return nil
}

// allowTime leaves time to the parent.
func allowTime(time.Duration) error { return nil }
