package dir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// linkRule says what becomes of links.
type linkRule int

const (
	anyLink    linkRule = iota // links are what they lead to: artifacts, whose folder is this program's own
	noLink                     // links are named and not read: a corpus, whose owner may be someone else
	knownLinks                 // links of a corpus whose owner was asked, each folder once
)

// FollowLinks gives the same corpus with links followed, also those that leave its folder. A link that leads to a
// folder on its own path, or to one that another link led to, is named and not followed.
func (s *Store) FollowLinks() blob.Store {
	return &Store{root: s.root, mark: s.mark, links: knownLinks, barred: s.barred}
}

// folderID distinguishes one folder from others, whatever it is called.
type folderID struct{ device, inode uint64 }

func idOf(info fs.FileInfo) folderID {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return folderID{}
	}
	return folderID{uint64(sys.Dev), sys.Ino}
}

// walker is one listing.
type walker struct {
	*Store
	prefix, after, until string
	yield                func(blob.Info, error) bool
	above                []folderID          // the folders on the path, where links are followed
	reached              map[folderID]string // folders that links led to, and by which key
}

// name is an entry of a folder: its key (a folder's ends with a slash), or why it is left out.
type name struct {
	key     string
	skipped error
}

// classifyEntry says what an entry of a folder is.
func (w *walker) classifyEntry(entry fs.DirEntry, key string) name {
	if w.links == anyLink {
		if w.isDir(entry, key) {
			key += "/"
		}
		return name{key: key}
	}
	kind := entry.Type()
	if kind&fs.ModeSymlink != 0 {
		return w.classifyLink(key)
	}
	if len(w.barred) > 0 { // the folder that it lies in is none of them
		if info, err := entry.Info(); err == nil && w.barred[idOf(info)] {
			return name{key, newBarredFault(key)}
		}
	}
	switch {
	case kind.IsDir():
		return name{key: key + "/"}
	case kind.IsRegular():
		return name{key: key}
	}
	return name{key, notFollowed(key, "it is a "+nameKind(kind)+", not a file").Advise("remove it from the corpus")}
}

func notFollowed(key, why string) *fault.Error { return fault.NotFollowed.At("read", key).Because(why) }

func nameKind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// classifyLink says what a link leads to, where links are followed.
func (w *walker) classifyLink(key string) name {
	if w.links == noLink {
		return name{key, notFollowed(key, "links of a corpus are not followed").
			Advise("to index link targets, also outside the corpus, set indexes.<name>.follow_links: true")}
	}
	info, err := os.Stat(w.pathOf(key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return name{key, notFollowed(key, "it is a broken link")}
	case err != nil:
		return name{key, notFollowed(key, "it is a link: "+causeOf(err).Error())}
	case w.barred.holdsPath(w.pathOf(key)):
		return name{key, newBarredFault(key)}
	case info.Mode().IsRegular():
		return name{key: key}
	case !info.IsDir():
		return name{key, notFollowed(key, "it is a link to a "+nameKind(info.Mode())+", not to a file")}
	}
	return name{key: key + "/"}
}

// enterFolder takes a folder onto the path, until leaveFolder; what it gives says why the folder is left out. linked: a
// link led to it.
func (w *walker) enterFolder(key string, linked bool) error {
	info, err := os.Stat(w.pathOf(key))
	if err != nil { // reading it gives the error; leaveFolder takes its place on the path away
		w.above = append(w.above, folderID{})
		return nil
	}
	id := idOf(info)
	if slices.Contains(w.above, id) {
		return notFollowed(key, "the link points to a folder that contains it")
	}
	if linked {
		if first, ok := w.reached[id]; ok {
			return notFollowed(key, "the link points to the same folder as "+first)
		}
		w.reached[id] = key
	}
	w.above = append(w.above, id)
	return nil
}

func (w *walker) leaveFolder() { w.above = w.above[:len(w.above)-1] }

// listFolder lists one folder; it reports whether to go on.
func (w *walker) listFolder(ctx context.Context, base string) bool {
	if strings.Count(base, "/") > maxDepth {
		advice := "move deeply nested files to a higher folder"
		if w.links == anyLink {
			advice = "remove the link that points back to its own folder"
		}
		return w.yield(
			blob.Info{}, fault.Unreadable.At("list", w.pathOf(base)).Because("the folders are nested too deeply").Advise(advice),
		)
	}
	entries, err := w.readEntries(base)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		err = w.checkRoot()
		return err == nil || w.yield(blob.Info{}, err)
	}
	if err != nil {
		return w.yield(blob.Info{}, wrapError("list", w.pathOf(base), err))
	}
	names := make([]name, 0, len(entries))
	linked := map[string]bool{}
	for _, entry := range entries {
		if key := base + entry.Name(); !w.listsFile(key) && !w.walksFolder(key+"/") {
			continue
		}
		found := w.classifyEntry(entry, base+entry.Name())
		if found.key == tmpDir+"/" {
			continue
		}
		linked[found.key] = entry.Type()&fs.ModeSymlink != 0
		names = append(names, found)
	}
	sort.Slice(names, func(i, j int) bool { return names[i].key < names[j].key })
	for _, found := range names {
		if ctx.Err() != nil {
			return w.yield(blob.Info{}, ctx.Err())
		}
		if !w.listEntry(ctx, found, linked[found.key]) {
			return false
		}
	}
	return true
}

// readEntries reads a folder of a corpus; of one that lies on the way to the prefix, the entry that leads on. Each is
// looked at, so that no prefix leads over a link that is not followed.
func (w *walker) readEntries(base string) ([]fs.DirEntry, error) {
	rest, above := strings.CutPrefix(w.prefix, base)
	next, _, further := strings.Cut(rest, "/")
	if !above || next == "" || !further && w.until != w.prefix || w.links != noLink {
		return os.ReadDir(w.pathOf(base))
	}
	info, err := os.Lstat(w.pathOf(base + next))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []fs.DirEntry{fs.FileInfoToDirEntry(info)}, nil
}

// isWithin reports whether the range that is listed has a key.
func (w *walker) isWithin(key string) bool { return key > w.after && (w.until == "" || key <= w.until) }

// listsFile reports whether a file of that key is listed.
func (w *walker) listsFile(key string) bool {
	return strings.HasPrefix(key, w.prefix) && w.isWithin(key)
}

// walksFolder reports whether a folder has to be read: something in it may be listed or, where links are followed,
// reports what comes behind it.
func (w *walker) walksFolder(folder string) bool {
	before := folder < w.after && !strings.HasPrefix(w.after, folder)
	behind := w.until != "" && folder > w.until
	return prefixesOverlap(folder, w.prefix) && !behind && (!before || w.links == knownLinks)
}

// listEntry lists an entry of a folder, and what is below it.
func (w *walker) listEntry(ctx context.Context, found name, linked bool) bool {
	folder := strings.HasSuffix(found.key, "/")
	if folder && !w.walksFolder(found.key) || !folder && !w.listsFile(found.key) {
		return true
	}
	if folder && w.links == knownLinks {
		found.skipped = w.enterFolder(found.key, linked)
		if found.skipped == nil {
			defer w.leaveFolder()
		}
	}
	if found.skipped != nil {
		if !w.isWithin(found.key) { // a folder that is left out has its place in the order with its '/'
			return true
		}
		key := strings.TrimSuffix(found.key, "/")
		return w.yield(blob.Info{Key: key}, found.skipped)
	}
	if folder {
		return w.listFolder(ctx, found.key)
	}
	return w.yieldFile(found.key, w.yield)
}

// openObject opens an object for reading. What became a link after it was listed is not followed where links are not,
// and nothing is waited for: a pipe has no end.
func (s *Store) openObject(key string) (*os.File, error) {
	if s.links != noLink {
		return os.OpenFile(s.pathOf(key), os.O_RDONLY|unix.O_NONBLOCK, 0)
	}
	root, err := os.Open(s.root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	descriptor, err := openBeneath(root, key)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return nil, notFollowed(s.pathOf(key), "links of a corpus are not followed")
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: s.pathOf(key), Err: err}
	}
	return os.NewFile(uintptr(descriptor), s.pathOf(key)), nil
}
