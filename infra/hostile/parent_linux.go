package main

import "syscall"

// endsWithParent makes the system end a child whose parent is gone.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
