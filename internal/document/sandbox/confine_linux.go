package sandbox

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/document"
)

// findProgram returns what a child runs: this very program, also where its file was replaced meanwhile.
func findProgram() (string, error) {
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// newAttributes returns the attributes of a child: a group of its own, and its end with the thread that started it.
func newAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until a child is over and leaves it to be waited for, so that no other process gets its number.
func awaitExit(pid int) {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return
		}
	}
}

// processorTime returns what the processors spent on a child so far.
func (c *child) processorTime() time.Duration {
	const ofAllThreads = 2
	var spent unix.Timespec
	if err := unix.ClockGettime(int32(^c.cmd.Process.Pid<<3|ofAllThreads), &spent); err != nil {
		return 0
	}
	return time.Duration(spent.Nano())
}

// hardenThread has what this thread starts never get more rights than it has.
func hardenThread() { _ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }

// overhead is what a child needs beside what parsing takes, in bytes of private memory.
const overhead = 128 << 20

// measureMapped returns how much private memory this process has, in bytes, as its limit counts it: also what it gave
// back.
func measureMapped() int64 {
	raw, err := os.ReadFile("/proc/self/statm") // pages: size, resident, shared, text, 0, data and stack
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 6 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[5], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// confineProcess takes from this process what parsing does not need. It leaves the memory that was made ready before.
func confineProcess(limits document.Limits, prepared int64) error {
	closeInherited()
	// Where memory is short the system should end a child, not its parent.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	data := uint64(limits.Memory+prepared) + overhead
	if !boundsMemory {
		data = unix.RLIM_INFINITY
	}
	for _, one := range []struct {
		resource int
		value    uint64
	}{
		{unix.RLIMIT_DATA, data},
		{unix.RLIMIT_FSIZE, 0},
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_NOFILE, 16},
	} {
		if err := unix.Setrlimit(one.resource, &unix.Rlimit{Cur: one.value, Max: one.value}); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	return filterSyscalls()
}

// closeInherited closes files that the parent was itself given by who started it, which pass from one to the next.
// Those that this process opened have the mark that keeps them from that.
func closeInherited() {
	for fd := 3; fd < 1024; fd++ {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// allowTime gives this process so much more time of the processors, rounded up; parsing is done by one thread and the
// collector of garbage beside it.
func allowTime(limit time.Duration) error {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return os.NewSyscallError("getrusage", err)
	}
	total := time.Duration(used.Utime.Nano()+used.Stime.Nano()) + 2*limit + time.Second
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &most); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	most.Cur = min(uint64(total/time.Second)+1, most.Max)
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_CPU, &most))
}
