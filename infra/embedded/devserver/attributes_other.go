//go:build !linux

package devserver

import "syscall"

// ChildAttributes put the child into a group of its own. An engine that outlives its parent is ended by the next start,
// which finds its lock held.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
