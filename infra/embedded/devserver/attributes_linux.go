package devserver

import "syscall"

// ChildAttributes have the system end the child with its parent.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
