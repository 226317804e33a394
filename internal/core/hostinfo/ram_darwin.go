package hostinfo

import "golang.org/x/sys/unix"

func readInstalled() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}
