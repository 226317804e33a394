package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Modes of what holds the content of documents: it is its owner's alone.
const (
	PrivateFolder fs.FileMode = 0o700
	PrivateFile   fs.FileMode = 0o600
)

// MkdirPrivate makes a folder that only its owner enters, as MkdirAll does. An existing one loses the rights of others,
// so that what an earlier version wrote below it is out of their reach without a walk.
func MkdirPrivate(folder string) error {
	if err := MkdirAll(folder, PrivateFolder); err != nil {
		return err
	}
	return Tighten(folder)
}

// Tighten takes the rights of group and others from a file or folder; one that is missing is no error. What belongs to
// another user or lies on a file system without modes stays as it is, and so does a folder that is meant for all users
// (the sticky bit: /tmp).
func Tighten(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 == 0 || info.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	err = os.Chmod(path, info.Mode().Perm()&^0o077)
	for _, left := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOTSUP, syscall.ENOSYS} {
		if errors.Is(err, left) {
			return nil
		}
	}
	return err
}

// Owner returns the user that a file belongs to.
func Owner(info fs.FileInfo) (uid int, known bool) {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid), true
	}
	return 0, false
}

// CheckUnplanted refuses a file that somebody else may have put where this program looks by itself: one that belongs to
// neither this user nor root, or that all users may write to.
func CheckUnplanted(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if uid, known := Owner(info); known && uid != os.Geteuid() && uid != 0 {
		return fmt.Errorf("it belongs to another user (%d, this program runs as %d)", uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("every user may write to it (%s)", info.Mode())
	}
	return nil
}

// CheckOwn refuses a folder that belongs to another user, by owner, or that others may write to: what lies there may be
// theirs. The owner of a link decides where it leads, so a link has to be this user's, too.
func CheckOwn(folder string, owner func(fs.FileInfo) (uid int, known bool)) error {
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := look(folder)
		if err != nil {
			return err
		}
		if uid, known := owner(info); known && uid != os.Geteuid() {
			return fmt.Errorf("it belongs to another user (%d, this program runs as %d)", uid, os.Geteuid())
		}
		if info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("other users may write to it (%s)", info.Mode())
		}
	}
	return nil
}
