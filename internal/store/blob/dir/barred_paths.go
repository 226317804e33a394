package dir

import (
	"os"
	"path/filepath"

	"github.com/unweaver/unweaver/internal/fault"
)

// barred are files and folders that are no part of any corpus: where this program keeps what it builds, its keys and
// its tokens. They are reported by what they are, not by what a path calls them.
type barred map[folderID]bool

// newBarred looks at paths; what is not there yet holds nothing to keep.
func newBarred(paths []string) barred {
	out := barred{}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			out[idOf(info)] = true
		}
	}
	return out
}

// holdsPath reports whether a path, resolved through links, is barred or lies in a folder that is.
func (b barred) holdsPath(path string) bool {
	if len(b) == 0 {
		return false
	}
	path, err := filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil { // reading it gives the error
		return false
	}
	for {
		if info, err := os.Stat(path); err == nil && b[idOf(info)] {
			return true
		}
		above := filepath.Dir(path)
		if above == path {
			return false
		}
		path = above
	}
}

// checkOutside refuses a corpus that is barred or lies in a folder that is.
func (b barred) checkOutside(root string) error {
	if !b.holdsPath(root) {
		return nil
	}
	return fault.CorpusRefused.At("open corpus", root).
		Because("it is, or lies in, a folder where this program keeps its own files").
		Advise("move the documents to another folder, or choose another --data-dir")
}

// newBarredFault returns the fault of a key that leads to what is barred.
func newBarredFault(key string) error {
	return notFollowed(key, "this program keeps its own files there").
		Advise("choose a --data-dir outside the corpus, or leave it: it is never read as documents")
}
