//go:build !linux

package devserver

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// ChildAttributes returns attributes that put the child into a group of its own. An engine that outlives its parent is
// ended by the next start, which finds its lock held.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// startOf returns when a process began; empty where there is none.
func startOf(pid int) string {
	command := exec.Command("ps", "-o", "lstart=", "-p", fmt.Sprint(pid))
	command.Env = []string{"PATH=/bin:/usr/bin", "LC_ALL=C", "TZ=UTC"}
	out, _ := command.Output()
	return strings.TrimSpace(string(out))
}
