//go:build !darwin

package localfile

import "syscall"

// accessTimeOf returns when a file was read last.
func accessTimeOf(info *syscall.Stat_t) syscall.Timespec { return info.Atim }
