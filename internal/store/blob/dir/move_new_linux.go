package dir

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openBeneath opens an object below a folder without following a link: ELOOP or EXDEV where there is one.
func openBeneath(root *os.File, key string) (int, error) {
	how := unix.OpenHow{Flags: asCorpus, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH}
	for {
		descriptor, err := unix.Openat2(int(root.Fd()), filepath.FromSlash(key), &how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // a kernel or a sandbox without this call
			return stepsBeneath(root, key)
		}
		return descriptor, err
	}
}

// moveNew renames a file to a name that must be free; where the file system cannot do that at once, it links.
func moveNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return os.Link(from, to)
	}
	return err
}
