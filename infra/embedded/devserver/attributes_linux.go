package devserver

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ChildAttributes returns attributes that have the system end the child with its parent.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startOf returns when a process began, in ticks since the system did; empty where there is none.
func startOf(pid int) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:])) // those behind the name
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}
