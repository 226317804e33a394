package sandbox

import "golang.org/x/sys/unix"

const machine = unix.AUDIT_ARCH_X86_64

// deniedHere are calls that later machines have only in their newer forms.
var deniedHere = []uint32{
	unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_UNLINK, unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_MKDIR, unix.SYS_RMDIR,
	unix.SYS_LINK, unix.SYS_SYMLINK, unix.SYS_MKNOD, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_READLINK,
	unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT, unix.SYS_INOTIFY_INIT,
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT,
}
