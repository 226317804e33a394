package scratch

import "golang.org/x/sys/unix"

func inMemory(stat *unix.Statfs_t) bool {
	return int64(stat.Type) == unix.TMPFS_MAGIC || int64(stat.Type) == unix.RAMFS_MAGIC
}
