package localfile

import "syscall"

// accessed is when a file was read last.
func accessed(info *syscall.Stat_t) syscall.Timespec { return info.Atimespec }
