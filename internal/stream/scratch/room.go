package scratch

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Space is what the folder of scratch has.
type Space struct {
	Folder string
	Free   int64 // bytes that this user may write
	Device uint64
	Memory bool // it is a tmpfs: what is written there is taken from the memory of the machine
}

// ReadRoom looks at the folder of this process's scratch.
func ReadRoom() (Space, error) { return RoomOf(Place()) }

// RoomOf looks at the file system of a folder.
func RoomOf(folder string) (Space, error) {
	out := Space{Folder: folder}
	var stat unix.Statfs_t
	var file unix.Stat_t
	if err := errors.Join(unix.Statfs(folder, &stat), unix.Stat(folder, &file)); err != nil {
		return out, deniedFault("look at", out.Folder, err)
	}
	out.Free = int64(min(stat.Bavail, 1<<62/uint64(stat.Bsize))) * int64(stat.Bsize)
	out.Device = uint64(file.Dev) //nolint:unconvert // an int32 on macOS
	out.Memory = inMemory(&stat)
	return out, nil
}
