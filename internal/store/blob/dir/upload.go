package dir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// Files of a corpus in flight lie in its .tmp, which no listing shows. One that a crash left is removed by an upload
// after a day.
const (
	uploadPrefix = tmpDir + "/unweaver-upload-"
	uploadAge    = 24 * time.Hour
	mostMakings  = 100 // of the folder, where uploads that end remove it at the same time
)

// Modes of what is written into a corpus, which other programs read too, whatever the umask of this one is.
const (
	sharedFolder fs.FileMode = 0o755
	sharedFile   fs.FileMode = 0o644
)

// putCorpus writes an object of a corpus, whole or not at all. Nothing is written outside its folder or through a link.
func (s *Store) putCorpus(
	ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond,
) (info blob.Info, err error) {
	if cond != (blob.Cond{}) {
		return info, fault.Internal.At("write", s.pathOf(key)).Because("a corpus takes no conditions")
	}
	err = s.changeCorpus(ctx, key, func(root *os.Root, before fs.FileInfo) error {
		mode := sharedFile
		if before != nil {
			mode = before.Mode().Perm()
		}
		tmp, err := s.writeUpload(root, body, size, mode)
		defer func() { _ = root.Remove(tmpDir) }() // others may be in flight in it
		if tmp != "" {
			defer func() { _ = root.Remove(tmp) }() // it is gone already where it was renamed
		}
		if err == nil {
			err = s.makeFolders(root, path.Dir(key))
		}
		if err == nil {
			err = root.Rename(tmp, key)
		}
		if err != nil {
			return err
		}
		written, err := root.Lstat(key)
		if err == nil {
			info = infoOf(key, written)
		}
		return err
	})
	return info, err
}

// deleteCorpus removes an object of a corpus; an absent one is no error. Folders that become empty stay.
func (s *Store) deleteCorpus(ctx context.Context, key string) error {
	return s.changeCorpus(ctx, key, func(root *os.Root, before fs.FileInfo) error {
		if before == nil {
			return nil
		}
		return root.Remove(key)
	})
}

// changeCorpus opens the folder of a corpus for a change of one object, and makes the change durable. before is what
// lies under the key; nil: nothing.
func (s *Store) changeCorpus(
	ctx context.Context, key string, change func(root *os.Root, before fs.FileInfo) error,
) error {
	if err := errors.Join(ctx.Err(), blob.CheckKey(key)); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return s.wrapMissing("open corpus", s.root, err)
	}
	defer func() { _ = root.Close() }()
	before, err := s.lookBeneath(root, key)
	if err != nil {
		return wrapError("write", s.pathOf(key), err)
	}
	if err := change(root, before); err != nil {
		return wrapError("write", s.pathOf(key), err)
	}
	err = durable.SyncFolder(filepath.Dir(s.pathOf(key)))
	if errors.Is(err, fs.ErrNotExist) { // nothing was there, and nothing was written
		return nil
	}
	return wrapNotNil("sync the folder of", s.pathOf(key), err)
}

// lookBeneath returns what lies under a key; nil: nothing. It refuses a key whose path holds a link or what is no
// folder, leads to this program's own files, or ends at what is no file.
func (s *Store) lookBeneath(root *os.Root, key string) (fs.FileInfo, error) {
	refused := fault.InvalidParam.At("write document", key).Advise("choose another key")
	if key == tmpDir || strings.HasPrefix(key, tmpDir+"/") {
		return nil, refused.Because("the folder " + tmpDir + " is reserved for files in flight")
	}
	names := strings.Split(key, "/")
	for i := range names {
		at := strings.Join(names[:i+1], "/")
		info, err := root.Lstat(at)
		last := i == len(names)-1
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, refused.Because(at + " is a link, and links of a corpus are not followed")
		case s.barred.holdsPath(s.pathOf(at)):
			return nil, refused.Because(at + " is in the data folder of this program")
		case !last && !info.IsDir():
			return nil, refused.Because(at + " is a file, not a folder")
		case last && !info.Mode().IsRegular():
			return nil, refused.Because("it is a folder, or another entry that is no file")
		case last:
			return info, nil
		}
	}
	return nil, nil
}

// writeUpload writes a body to a file in flight and syncs it. tmp is its name, also where the body broke off.
func (s *Store) writeUpload(root *os.Root, body io.Reader, size int64, mode fs.FileMode) (tmp string, err error) {
	tmp = uploadPrefix + strings.ToLower(rand.Text())
	var file *os.File
	for range mostMakings {
		if err := root.MkdirAll(tmpDir, sharedFolder); err != nil {
			return "", err
		}
		file, err = root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if !errors.Is(err, fs.ErrNotExist) { // else an upload that ended removed the folder in between
			break
		}
	}
	if err != nil {
		return "", err
	}
	sweepUploads(root)
	if err := file.Chmod(mode); err != nil {
		return tmp, errors.Join(err, file.Close())
	}
	n, err := io.Copy(file, body)
	if err == nil && size >= 0 && n != size {
		err = fmt.Errorf("got %d of %d bytes", n, size)
	}
	if err == nil {
		err = syncFile(file)
	}
	return tmp, errors.Join(err, file.Close())
}

// sweepUploads removes what uploads left that a crash ended.
func sweepUploads(root *os.Root) {
	left, _ := fs.ReadDir(root.FS(), tmpDir) // what cannot be listed stays
	for _, entry := range left {
		name := tmpDir + "/" + entry.Name()
		info, err := entry.Info()
		if err == nil && strings.HasPrefix(name, uploadPrefix) && time.Since(info.ModTime()) > uploadAge {
			_ = root.Remove(name)
		}
	}
}

// makeFolders makes the folders of an object, each durable in the one above.
func (s *Store) makeFolders(root *os.Root, folder string) error {
	if folder == "." {
		return nil
	}
	if err := s.makeFolders(root, path.Dir(folder)); err != nil {
		return err
	}
	err := root.Mkdir(folder, sharedFolder)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = root.Chmod(folder, sharedFolder)
	}
	if err != nil {
		return err
	}
	return durable.SyncFolder(filepath.Dir(s.pathOf(folder)))
}
