package oci

import (
	"archive/tar"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"oras.land/oras-go/v2/content/oci"

	"github.com/unweaver/unweaver/internal/fault"
)

// createTar gathers an image in a new folder beside the tar file. Close makes the file of it where the image is named,
// and removes the folder.
func (p *Place) createTar(ctx context.Context, path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return fault.Usage.At("write image", path).Because("the file exists").Advise("remove it, or choose another name")
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".unweaver-*")
	if err != nil {
		return p.newFault("write image", err)
	}
	store, err := oci.NewWithContext(ctx, folder)
	p.target = store
	p.close = func() (err error) {
		if _, unnamed := store.Resolve(ctx, p.Tag); unnamed == nil {
			err = writeTar(folder, path)
		}
		return errors.Join(err, os.RemoveAll(folder))
	}
	return p.newFault("write image", err)
}

// writeTar writes the image of a folder as a tar file, which has its name once it is whole.
func writeTar(folder, path string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".unweaver-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // it is gone where it was renamed
	out := tar.NewWriter(file)
	err = errors.Join(out.AddFS(os.DirFS(folder)), out.Close(), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
