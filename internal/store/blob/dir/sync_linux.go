package dir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// dataSync makes the bytes of a file and its length durable.
func dataSync(file *os.File) error {
	for {
		if err := unix.Fdatasync(int(file.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
