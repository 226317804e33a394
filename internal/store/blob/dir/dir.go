// Package dir is the blob adapter over a directory: the embedded default for artifacts, and the reader of corpora
// that lie in a folder. Writes go to a temporary file that is synced and then linked or renamed, so a crash leaves
// either the old object or the new one. Conditions are exact within one process; the embedded stack is the only owner
// of its files.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// tmpDir holds files in flight; it is swept at open and never listed.
const tmpDir = ".tmp"

// maxDepth stops a walk that follows a link to its own folder.
const maxDepth = 100

// Store implements blob.Store.
type Store struct {
	root    string
	mark    string         // a folder that exists as long as the store does
	locks   [64]sync.Mutex // by key, for conditional writes
	seq     atomic.Int64
	made    sync.Map // directories known to exist durably
	folders folders
	links   linkRule
	barred  barred
}

var _ blob.Store = (*Store)(nil)

// Open prepares a directory for reading and writing, makes it where needed, and removes what a crash left in flight. It
// is its owner's alone, as objects hold the text of documents.
func Open(root string) (*Store, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if err := durable.MkdirPrivate(root); err != nil {
		return nil, wrapError("make", root, err)
	}
	if err := os.MkdirAll(filepath.Join(root, tmpDir), durable.PrivateFolder); err != nil {
		return nil, wrapError("make", root, err)
	}
	old, err := os.ReadDir(filepath.Join(root, tmpDir))
	if err != nil {
		return nil, wrapError("read", root, err)
	}
	for _, e := range old {
		_ = os.Remove(filepath.Join(root, tmpDir, e.Name()))
	}
	return &Store{root: root, mark: filepath.Join(root, tmpDir)}, nil
}

// checkRoot returns an error where the store itself is missing: moved away, or not mounted. Else an object of such a
// store would pass for one that was never written, and its listing for an empty one.
func (s *Store) checkRoot() error {
	_, err := os.Stat(s.mark)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return nil
	case s.mark == s.root:
		return fault.CorpusMissing.At("read corpus", s.root).Because(causeOf(err)).Advise("restore the folder")
	}
	return fault.StoreDown.At("open store", s.root).Because("its folder is missing or was replaced").
		Advise("mount it or move it back; to begin with an empty store, restart")
}

// wrapMissing wraps the error of what reads an object, as wrapError does: where the store itself is missing, that is
// the error.
func (s *Store) wrapMissing(op, object string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if missing := s.checkRoot(); missing != nil {
			return missing
		}
	}
	return wrapError(op, object, err)
}

// OpenCorpus opens an existing folder; only Put and Delete change it. The folder may be a link; links in it are not
// followed: List names them with fault.NotFollowed, as it does pipes, sockets and devices. What lies at or below the
// barred paths is left out in the same way; a corpus that lies there is refused with fault.CorpusRefused.
func OpenCorpus(root string, barred ...string) (*Store, error) {
	st, err := os.Stat(root)
	if err != nil {
		return nil, fault.CorpusMissing.At("open corpus", root).
			Because(causeOf(err)).
			Advise("give an existing, readable folder")
	}
	if !st.IsDir() {
		return nil, fault.CorpusMissing.At("open corpus", root).
			Because("it is a file").
			Advise("give the folder that contains it")
	}
	if f, err := os.Open(root); err != nil {
		return nil, fault.CorpusMissing.At("open corpus", root).
			Because(causeOf(err)).
			Advise("give the user of the worker permission to read it")
	} else if err := f.Close(); err != nil {
		return nil, wrapError("close", root, err)
	}
	kept := newBarred(barred)
	if err := kept.checkOutside(root); err != nil {
		return nil, err
	}
	return &Store{root: root, mark: root, links: noLink, barred: kept}, nil
}

func (s *Store) pathOf(key string) string { return filepath.Join(s.root, filepath.FromSlash(key)) }

// Location returns the file's path.
func (s *Store) Location(key string) string { return s.pathOf(key) }

// causeOf drops the path from an error that will be printed beside it.
func causeOf(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func wrapError(op, object string, err error) error {
	switch {
	case fault.As(err) != nil:
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fault.NotFound.At(op, object).Because(causeOf(err))
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.StoreDenied.At(op, object).Because(causeOf(err)).Advise("check the owner and mode of the path")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.StoreFull.At(op, object).
			Because(causeOf(err)).
			Advise("free disk space before you stop this process: it holds paid results in memory")
	}
	return fault.StoreDown.At(op, object).Because(causeOf(err))
}

func infoOf(key string, st fs.FileInfo) blob.Info {
	ino := uint64(0)
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		ino = sys.Ino
	}
	return blob.Info{
		Key:      key,
		Size:     st.Size(),
		Modified: st.ModTime(),
		ETag:     fmt.Sprintf("%x-%x-%x", st.Size(), st.ModTime().UnixNano(), ino),
	}
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond) (blob.Info, error) {
	if s.links != anyLink {
		return s.putCorpus(ctx, key, body, size, cond)
	}
	if err := errors.Join(ctx.Err(), blob.CheckKey(key)); err != nil {
		return blob.Info{}, err
	}
	p := s.pathOf(key)
	folder := filepath.Dir(p)
	if err := s.makeFolder(folder); err != nil {
		return blob.Info{}, wrapError("make folder of", p, err)
	}
	if cond.Absent { // spare the write where the object is there already
		if _, err := os.Lstat(p); err == nil {
			return blob.Info{}, s.reportExisting(p)
		}
	}
	tmp := s.temporaryPath()
	defer func() { _ = os.Remove(tmp) }() // it is gone already where it was renamed
	if err := writeSynced(tmp, body, size); err != nil {
		return blob.Info{}, s.wrapMissing("write", p, err)
	}
	switch {
	case cond.Absent:
		if err := moveNew(tmp, p); errors.Is(err, fs.ErrExist) {
			return blob.Info{}, s.reportExisting(p)
		} else if err != nil {
			return blob.Info{}, wrapError("write", p, err)
		}
	default:
		l := &s.locks[hashString(key)%uint32(len(s.locks))]
		l.Lock()
		defer l.Unlock()
		if cond.Match != "" {
			st, err := os.Stat(p)
			if err != nil || infoOf(key, st).ETag != cond.Match {
				return blob.Info{}, newPrecondition(p, "it has changed")
			}
		}
		if err := os.Rename(tmp, p); err != nil {
			return blob.Info{}, wrapError("write", p, err)
		}
	}
	st, err := os.Stat(p)
	if err != nil {
		return blob.Info{}, wrapError("stat", p, err)
	}
	return infoOf(key, st), wrapNotNil("sync the folder of", p, s.folders.joinSync(folder))
}

// reportExisting returns that an object exists, once its name is durable: the sync of who wrote it may be under way, or
// failed.
func (s *Store) reportExisting(path string) error {
	if err := s.folders.joinSync(filepath.Dir(path)); err != nil {
		return wrapError("sync the folder of", path, err)
	}
	return newPrecondition(path, "it exists")
}

// temporaryPath names a file in flight.
func (s *Store) temporaryPath() string {
	return filepath.Join(s.root, tmpDir, fmt.Sprintf("%d-%d", os.Getpid(), s.seq.Add(1)))
}

// wrapNotNil wraps an error as wrapError does; nil for nil.
func wrapNotNil(op, object string, err error) error {
	if err == nil {
		return nil
	}
	return wrapError(op, object, err)
}

func newPrecondition(object, why string) error {
	return fault.Precondition.At("write", object).Because(why)
}

func hashString(s string) uint32 {
	h := uint32(2166136261)
	for i := 0; i < len(s); i++ {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

func writeSynced(path string, body io.Reader, size int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, durable.PrivateFile)
	if err != nil {
		return err
	}
	n, err := io.Copy(file, body)
	if err == nil && size >= 0 && n != size {
		err = fmt.Errorf("got %d of %d bytes", n, size)
	}
	if err == nil {
		err = syncFile(file)
	}
	return errors.Join(err, file.Close())
}

type section struct {
	io.Reader
	f *os.File
}

func (s section) Close() error { return s.f.Close() }

// matched is a section of a file in the version that its reader asked for: at its end it looks whether the file was
// written to meanwhile, as what was read is of neither version then.
type matched struct {
	section
	key, etag string
}

func (m matched) Read(out []byte) (int, error) {
	n, err := m.section.Read(out)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	st, statErr := m.f.Stat()
	if statErr != nil {
		return n, wrapError("read", m.f.Name(), statErr)
	}
	if infoOf(m.key, st).ETag != m.etag {
		return n, fault.Precondition.At("read", m.f.Name()).Because("it changed while it was read")
	}
	return n, err
}

// Get implements blob.Store.
func (s *Store) Get(_ context.Context, key string, r blob.Range) (io.ReadCloser, blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, blob.Info{}, err
	}
	p := s.pathOf(key)
	if s.barred.holdsPath(p) {
		return nil, blob.Info{}, newBarredFault(key)
	}
	file, err := s.openObject(key)
	if err != nil {
		return nil, blob.Info{}, s.wrapMissing("read", p, err)
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = file.Close()
		return nil, blob.Info{}, wrapError("read", p, err)
	}
	in := infoOf(key, st)
	if r.Match != "" && r.Match != in.ETag {
		_ = file.Close()
		return nil, in, fault.Precondition.At("read", p).Because("it has changed")
	}
	n := r.Length
	if n < 0 {
		n = st.Size() - r.Offset
	}
	part := section{io.NewSectionReader(file, r.Offset, n), file}
	if r.Match != "" {
		return matched{part, key, in.ETag}, in, nil
	}
	return part, in, nil
}

// Stat implements blob.Store.
func (s *Store) Stat(_ context.Context, key string) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	if s.barred.holdsPath(s.pathOf(key)) {
		return blob.Info{}, newBarredFault(key)
	}
	st, err := os.Stat(s.pathOf(key))
	if err == nil && st.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return blob.Info{}, s.wrapMissing("stat", s.pathOf(key), err)
	}
	return infoOf(key, st), nil
}

// ListFolders implements blob.Store.
func (s *Store) ListFolders(ctx context.Context) ([]string, error) {
	return blob.FoldersOf(ctx, s.List)
}

// Delete implements blob.Store. Folders that become empty stay: a writer may be about to use them.
func (s *Store) Delete(ctx context.Context, key string) error {
	if s.links != anyLink {
		return s.deleteCorpus(ctx, key)
	}
	if err := errors.Join(blob.CheckKey(key), blob.CheckContext(ctx)); err != nil {
		return err
	}
	if err := os.Remove(s.pathOf(key)); errors.Is(err, fs.ErrNotExist) {
		return s.checkRoot()
	} else if err != nil {
		return wrapError("delete", s.pathOf(key), err)
	}
	return nil
}

// DeleteAll implements blob.Store.
func (s *Store) DeleteAll(ctx context.Context, keys []string) error {
	var failures blob.Failures
	for _, key := range keys {
		if err := blob.CheckContext(ctx); err != nil {
			return err
		}
		failures.Add(s.Delete(ctx, key))
	}
	return failures.Err(len(keys))
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return s.ListRange(ctx, prefix, after, "")
}

// ListRange implements blob.Store. It reads one folder at a time; names sort as their keys do because a folder sorts
// with its '/'. Where links are followed, what lies before the range is walked too: which of two links to one folder is
// followed is reported by all that comes before them.
func (s *Store) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		base := ""
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			base = prefix[:i+1]
		}
		if base != "" {
			if err := blob.CheckKey(base); err != nil {
				yield(blob.Info{}, err)
				return
			}
		}
		if s.links == noLink {
			base = "" // what is on the way may be a link
		}
		if s.barred.holdsPath(s.pathOf(base)) {
			yield(blob.Info{Key: strings.TrimSuffix(base, "/")}, newBarredFault(base))
			return
		}
		listing := &walker{
			Store: s, prefix: prefix, after: after, until: until, yield: yield, reached: map[folderID]string{},
		}
		if s.links == knownLinks && listing.enterFolder("", false) != nil {
			return
		}
		listing.listFolder(ctx, base)
	}
}

// yieldFile lists one file; what is none any more is left out.
func (s *Store) yieldFile(key string, yield func(blob.Info, error) bool) bool {
	st, err := os.Stat(s.pathOf(key))
	if errors.Is(err, fs.ErrNotExist) {
		return true // removed since, or a broken link
	}
	in := blob.Info{Key: key}
	if err != nil {
		err = wrapError("stat", s.pathOf(key), err)
	} else if in = infoOf(key, st); !st.Mode().IsRegular() {
		return true
	}
	return yield(in, err)
}

func (s *Store) isDir(e fs.DirEntry, key string) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	st, err := os.Stat(s.pathOf(key))
	return err == nil && st.IsDir()
}

func prefixesOverlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
