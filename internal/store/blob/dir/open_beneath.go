package dir

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// asCorpus are the flags that an object of a corpus is opened with: nothing is waited for, as a pipe has no end.
const asCorpus = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK

// openBeneath opens an object below a folder one name after another, none of which may be a link: ELOOP where one is.
func openBeneath(root *os.File, key string) (int, error) {
	names := strings.Split(path.Clean(key), "/")
	at := int(root.Fd())
	for i, name := range names {
		if name == "" || name == ".." {
			return 0, unix.EXDEV
		}
		next, err := unix.Openat(at, name, asCorpus|unix.O_NOFOLLOW, 0)
		for errors.Is(err, unix.EINTR) {
			next, err = unix.Openat(at, name, asCorpus|unix.O_NOFOLLOW, 0)
		}
		if i > 0 {
			_ = unix.Close(at)
		}
		if err != nil {
			return 0, err
		}
		at = next
	}
	return at, nil
}
