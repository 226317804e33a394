// Package durable writes files and folders so that a loss of power takes nothing back that was reported done. A file is
// durable when it was synced, its name when its folder was synced after it got it, and a folder is a name in the one
// above.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// syncFile is a variable so that a test can see what is synced when, and fail.
var syncFile = (*os.File).Sync

// SyncFolder makes the names in a folder durable: those given, and those taken away.
func SyncFolder(folder string) error {
	file, err := os.Open(folder)
	if err != nil {
		return err
	}
	err = syncFile(file)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) { // a file system that keeps names by itself
		err = nil
	}
	return errors.Join(err, file.Close())
}

// MkdirAll makes a folder and those above it that are missing, each durable in the one above. A folder that is there
// is made durable too: its maker may not have come to that.
func MkdirAll(folder string, mode fs.FileMode) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	above := filepath.Dir(folder)
	if _, err := os.Lstat(above); errors.Is(err, fs.ErrNotExist) {
		if err := MkdirAll(above, mode); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(folder, mode); err != nil {
		return err
	}
	if err := SyncFolder(above); err != nil && !errors.Is(err, fs.ErrPermission) { // one that another user made
		return err
	}
	return nil
}

// WriteFile replaces a file by bytes, as Replace does.
func WriteFile(path string, raw []byte, mode fs.FileMode) error {
	return Replace(path, mode, func(file *os.File) error {
		_, err := file.Write(raw)
		return err
	})
}

// Replace writes a file that is read whole by fill: after a crash it is the old one or the new one, and the new one
// once Replace has returned.
func Replace(path string, mode fs.FileMode, fill func(file *os.File) error) error {
	file, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_RDWR, mode)
	if err != nil {
		return err
	}
	err = fill(file)
	if err == nil {
		err = syncFile(file)
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path+".tmp"))
	}
	return SyncFolder(filepath.Dir(path))
}
