//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied are the calls of the system that parsing needs none of: they open files or change what is known of them,
// reach the network, start programs, touch other processes or the machine. What the runtime needs (memory, threads,
// clocks, its own pipes) is left.
var denied = slices.Concat([]uint32{
	unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_UNLINKAT,
	unix.SYS_RENAMEAT2, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_FCHMODAT,
	unix.SYS_FCHMODAT2, unix.SYS_FCHMOD, unix.SYS_FCHOWNAT, unix.SYS_FCHOWN, unix.SYS_TRUNCATE, unix.SYS_READLINKAT,
	unix.SYS_UTIMENSAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR,
	unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_CHROOT,
	unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,

	unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_UNSHARE, unix.SYS_SETNS,

	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND,

	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO,
	unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_KCMP,
	unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_SETSID, unix.SYS_SETPGID, unix.SYS_SETPRIORITY,
	unix.SYS_SETRLIMIT,

	unix.SYS_BPF, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_ADD_KEY,
	unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,

	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD,
	unix.SYS_KEXEC_FILE_LOAD, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_PERSONALITY, unix.SYS_SYSLOG,
}, deniedHere)

// Where the number of a call and the kind of machine that it was made for lie in what a filter looks at.
const (
	atNumber  = 0
	atMachine = 4
	atFirst   = 16 // the lower half of the first argument; these are machines that have it first
	atSecond  = 24
)

// filterSyscalls has the kernel refuse what is denied, to all threads of this process and for good. A kernel that knows
// no filters leaves the limits.
func filterSyscalls() error {
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
	jump := func(how uint16, value uint32, unless uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: value, Jf: unless}
	}
	allowed := give(unix.SECCOMP_RET_ALLOW)
	code = append(code,
		// Signals to threads of this process: the runtime stops its own with them.
		jump(unix.BPF_JEQ, unix.SYS_TGKILL, 4),
		load(atFirst), jump(unix.BPF_JEQ, uint32(os.Getpid()), 1), allowed, give(refuse),
		// Of the limits of this process the time of the processors, which each document gets again.
		jump(unix.BPF_JEQ, unix.SYS_PRLIMIT64, 6),
		load(atFirst), jump(unix.BPF_JEQ, 0, 3), load(atSecond), jump(unix.BPF_JEQ, unix.RLIMIT_CPU, 1), allowed,
		give(refuse),
		// What the runtime asks of its files. Who owns one, whom signals of it go to, is not for it to say.
		jump(unix.BPF_JEQ, unix.SYS_FCNTL, 6),
		load(atSecond), jump(unix.BPF_JEQ, unix.F_DUPFD_CLOEXEC, 1), allowed, jump(unix.BPF_JGT, unix.F_SETFL, 1),
		give(refuse), allowed,
		// Threads, no processes. The newer call hides its flags: who asks for it takes the older one where there is none.
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 4),
		load(atFirst), jump(unix.BPF_JSET, unix.CLONE_THREAD, 1), allowed, give(refuse),
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 1), give(uint32(unix.SECCOMP_RET_ERRNO)|uint32(unix.ENOSYS)),
		allowed,
	)
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno == 0 || errors.Is(errno, unix.ENOSYS) || errors.Is(errno, unix.EINVAL) {
		return nil
	}
	return os.NewSyscallError("seccomp", errno)
}
