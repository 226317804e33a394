package dir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// moveNew renames a file to a name that must be free; where the file system cannot do that at once, it links.
func moveNew(from, to string) error {
	err := unix.RenamexNp(from, to, unix.RENAME_EXCL)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		return os.Link(from, to)
	}
	return err
}
