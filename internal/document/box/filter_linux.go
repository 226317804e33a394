//go:build amd64 || arm64

package box

import (
	"errors"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied are the calls of the system that parsing needs none of: they open files, reach the network, start programs,
// or touch other processes. What the runtime needs (memory, threads, clocks, its own pipes) is left.
var denied = slices.Concat([]uint32{
	unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2,
	unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_FCHMODAT, unix.SYS_FCHOWNAT,
	unix.SYS_TRUNCATE, unix.SYS_READLINKAT, unix.SYS_CHDIR, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT,
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_EXECVE, unix.SYS_EXECVEAT,
	unix.SYS_KILL, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_OPEN,
	unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_BPF,
	unix.SYS_IO_URING_SETUP, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_MEMFD_CREATE, unix.SYS_ADD_KEY,
	unix.SYS_KEYCTL, unix.SYS_SHMGET, unix.SYS_SETSID, unix.SYS_SETPGID,
}, deniedHere)

// Where the number of a call and the kind of machine that it was made for lie in what a filter looks at.
const (
	atNumber  = 0
	atMachine = 4
)

// filter has the kernel refuse what is denied, to all threads of this process and for good. A kernel that knows no
// filters leaves the limits.
func filter() error {
	refuse := uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	give := func(verdict uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: verdict}
	}
	code := []unix.SockFilter{
		load(atMachine),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: machine, Jt: 1},
		give(refuse),
		load(atNumber),
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 0x40000000, Jf: 1}, // the numbers of x32
		give(refuse),
	}
	for _, number := range denied {
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1}, give(refuse))
	}
	code = append(code, give(unix.SECCOMP_RET_ALLOW))
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno == 0 || errors.Is(errno, unix.ENOSYS) || errors.Is(errno, unix.EINVAL) {
		return nil
	}
	return os.NewSyscallError("seccomp", errno)
}
