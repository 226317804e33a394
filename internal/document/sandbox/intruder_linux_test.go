package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/document/sandbox"
)

// intrude tries, confined as a child is, what parsing needs none of, and prints what was not refused.
func intrude() {
	if err := sandbox.Confine(limits(), 0); err != nil {
		fmt.Println("confine:", err)
		os.Exit(1)
	}
	most := unix.Rlimit{Cur: 1, Max: 1}
	limit, other := uintptr(unsafe.Pointer(&most)), uintptr(os.Getppid())
	path := uintptr(unsafe.Pointer(&[]byte("/\x00")[0]))
	here := ^uintptr(99) // AT_FDCWD
	for name, call := range map[string][5]uintptr{
		"prlimit of another":  {unix.SYS_PRLIMIT64, other, unix.RLIMIT_CPU, 0, 0},
		"prlimit of memory":   {unix.SYS_PRLIMIT64, 0, unix.RLIMIT_DATA, limit, 0},
		"tgkill of another":   {unix.SYS_TGKILL, other, other, 0},
		"tkill":               {unix.SYS_TKILL, uintptr(os.Getpid()), 0},
		"kill":                {unix.SYS_KILL, other, 0},
		"rt_sigqueueinfo":     {unix.SYS_RT_SIGQUEUEINFO, other, 0, limit},
		"signals of a file":   {unix.SYS_FCNTL, 1, unix.F_SETOWN, other},
		"open_tree":           {unix.SYS_OPEN_TREE, here, path, 0},
		"fsopen":              {unix.SYS_FSOPEN, path, 0},
		"inotify_init1":       {unix.SYS_INOTIFY_INIT1, 0},
		"setxattr":            {unix.SYS_SETXATTR, path, path, path, 1},
		"utimensat":           {unix.SYS_UTIMENSAT, here, path, 0, 0},
		"mkdirat":             {unix.SYS_MKDIRAT, here, path, 0o700},
		"init_module":         {unix.SYS_INIT_MODULE, path, 1, path},
		"umount":              {unix.SYS_UMOUNT2, path, 0},
		"io_uring_register":   {unix.SYS_IO_URING_REGISTER, 0, 0, 0, 0},
		"memfd_create":        {unix.SYS_MEMFD_CREATE, path, 0},
		"a process by clone":  {unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0},
		"a process by clone3": {unix.SYS_CLONE3, 0, 0},
	} {
		want := unix.EPERM
		if call[0] == unix.SYS_CLONE3 {
			want = unix.ENOSYS
		}
		child, _, errno := syscall.RawSyscall6(call[0], call[1], call[2], call[3], call[4], 0, 0)
		if call[0] == unix.SYS_CLONE && errno == 0 && child == 0 {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if errno != want {
			fmt.Println(name, "gave", errno)
		}
	}
	var busy, done = make(chan bool), make(chan bool)
	go func() { // the runtime stops a loop without calls by a signal to its thread
		close(busy)
		for {
			select {
			case <-done:
				return
			default:
			}
			for i := 0; i < 1<<28; i++ { //nolint:revive // it is what must be stopped
			}
		}
	}()
	<-busy
	for range 3 {
		runtime.GC()
	}
	close(done)
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &most); err != nil {
		fmt.Println("its own time:", err)
	}
	fmt.Println("tried all")
	os.Exit(0)
}

func TestAChildReachesNoFileProcessOrMachine(t *testing.T) {
	command := exec.CommandContext(t.Context(), os.Args[0], behaviour+"an intruder")
	command.WaitDelay = 10 * time.Second
	out, err := command.CombinedOutput()
	assert.True(t, err == nil && strings.TrimSpace(string(out)) == "tried all", "%v: %s", err, out)
}
