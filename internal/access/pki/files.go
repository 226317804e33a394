package pki

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Names of the files of a folder of certificates.
const (
	AuthorityFile    = "ca.pem"
	AuthorityKeyFile = "ca-key.pem"
	ServerFile       = "server.pem"
	ServerKeyFile    = "server-key.pem"
	ClientFile       = "client.pem"
	ClientKeyFile    = "client-key.pem"
)

// File is one file of a folder of certificates.
type File struct {
	Name    string
	Content []byte
}

// Write writes files into a folder, which it makes where it is missing: for the owner alone. Files that are there are
// replaced with force, else the error is fs.ErrExist, names the first and nothing is written. A replaced file is
// replaced whole, and a link in its place is not followed.
func Write(folder string, files []File, force bool) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if !force {
		for _, file := range files {
			if _, err := root.Lstat(file.Name); !errors.Is(err, fs.ErrNotExist) {
				if err == nil {
					err = fs.ErrExist
				}
				return &fs.PathError{Op: "write", Path: filepath.Join(folder, file.Name), Err: err}
			}
		}
	}
	for _, file := range files {
		if err := replaceFile(root, file); err != nil {
			return err
		}
	}
	return nil
}

func replaceFile(root *os.Root, file File) error {
	temporary := file.Name + ".new"
	if err := root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(file.Content)
	if err = errors.Join(err, out.Close()); err == nil {
		err = root.Rename(temporary, file.Name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	return nil
}
