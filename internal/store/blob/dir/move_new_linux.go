package dir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// moveNew renames a file to a name that must be free; where the file system cannot do that at once, it links.
func moveNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return os.Link(from, to)
	}
	return err
}
