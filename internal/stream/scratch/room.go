package scratch

import (
	"golang.org/x/sys/unix"
)

// Space is what the folder of scratch has.
type Space struct {
	Folder string
	Free   int64 // bytes that this user may write
	Memory bool  // it is a tmpfs: what is written there is taken from the memory of the machine
}

// Room looks at the folder of this process's scratch.
func Room() (Space, error) {
	out := Space{Folder: Place()}
	var stat unix.Statfs_t
	if err := unix.Statfs(out.Folder, &stat); err != nil {
		return out, denied("look at", out.Folder, err)
	}
	out.Free = int64(min(stat.Bavail, 1<<62/uint64(stat.Bsize))) * int64(stat.Bsize)
	out.Memory = inMemory(&stat)
	return out, nil
}
