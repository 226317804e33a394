package app

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// roots are the directories below which a corpus may lie: configured ones, and those that the owner of a data directory
// asked for. A configuration of an index comes from any builder of it, and must not name the owner's other files.
type roots struct {
	configured []string

	mu      sync.Mutex
	granted []string // resolved through links
	kept    []string // of them, those that the file holds
	file    string   // empty: nothing is granted
	barred  []string // never part of a corpus, beside the stores
}

// BarPaths keeps files and folders of this process, and all that lies below them, out of every corpus.
func (s *Stores) BarPaths(paths ...string) {
	s.roots.mu.Lock()
	defer s.roots.mu.Unlock()
	s.roots.barred = append(s.roots.barred, paths...)
}

// ownPaths returns the paths where this process keeps its files.
func (s *Stores) ownPaths() []string {
	s.roots.mu.Lock()
	defer s.roots.mu.Unlock()
	out := append(slices.Clone(s.roots.barred), s.ListFolders()...)
	if place := s.places.Classes; place != "" && IsPath(place) {
		out = append(out, place+runsSuffix)
	}
	return out
}

// LoadGrants lets the owner of a data directory grant corpora, and reads those that were granted before from a file
// there.
func (s *Stores) LoadGrants(file string) error {
	s.roots.mu.Lock()
	defer s.roots.mu.Unlock()
	s.roots.file = file
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.BadConfig.At("read granted corpora", file).Because(err).Advise("let its user read it, or remove it")
	}
	if err := json.Unmarshal(raw, &s.roots.kept); err != nil {
		s.roots.kept = nil
		slog.Warn("the file of granted corpora is damaged and is replaced; to grant a corpus again, index it "+
			"on the command line", "file", file, "cause", err.Error())
	}
	s.roots.granted = slices.Clone(s.roots.kept)
	return nil
}

// GrantCorpora lets runs read the corpora below a directory; keep: also after a restart. It is for what the owner of
// the data directory asks for, and for no one else.
func (s *Stores) GrantCorpora(directory string, keep bool) error {
	resolved, err := filepath.EvalSymlinks(directory)
	if err != nil { // opening it says why
		return nil //nolint:nilerr // as above
	}
	r := &s.roots
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == "" {
		return nil
	}
	if !slices.Contains(r.granted, resolved) {
		r.granted = append(r.granted, resolved)
	}
	info, err := os.Stat(resolved)
	if !keep || slices.Contains(r.kept, resolved) || err != nil || !info.IsDir() { // a file is refused as a corpus
		return nil
	}
	r.kept = append(r.kept, resolved)
	raw, err := json.MarshalIndent(r.kept, "", " ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(r.file, append(raw, '\n'), 0o600); err != nil {
		return fault.StoreDenied.At("write granted corpora", r.file).
			Because(err).
			Advise("check the owner of the data directory")
	}
	return nil
}

// resolveInside gives the directory that a path means, resolved through links, where it may be read.
func (r *roots) resolveInside(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		resolved = filepath.Clean(path) // opening it says why, where it may be said
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, root := range r.configured {
		if real, rerr := filepath.EvalSymlinks(root); rerr == nil {
			root = real
		}
		if liesBelow(resolved, root) {
			return resolved, nil
		}
	}
	for _, root := range r.granted {
		if liesBelow(resolved, root) {
			return resolved, nil
		}
	}
	if err != nil && r.file != "" {
		return "", fault.CorpusMissing.At("open corpus", path).
			Because(errors.Unwrap(err)).
			Advise("give an existing, readable folder")
	}
	return "", fault.CorpusRefused.At("open corpus", path).
		Because("it is not below a directory that this process may read corpora from").
		Advise("add the directory to stores.corpus_roots of the worker; with unweaver dev, index it on the command line, " +
			"then resume the paused run")
}

// liesBelow reports whether a path is a root or lies below it; both are clean.
func liesBelow(path, root string) bool {
	rest, err := filepath.Rel(root, path)
	return err == nil && filepath.IsAbs(path) && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}

// checkApart refuses a corpus in a bucket that holds what is built, of this index and of others, or is a part of it.
func (s *Stores) checkApart(corpus string) error {
	bucket, prefix, err := s3.Parse(corpus)
	if err != nil {
		return nil //nolint:nilerr // opening it says so
	}
	for _, own := range []string{s.places.Artifacts, importBucket(s.places.Milvus.Bucket)} {
		if own == "" || IsPath(own) {
			continue
		}
		other, at, err := s3.Parse(own)
		if err == nil && bucket == other && prefixesOverlap(prefix, at) {
			return fault.CorpusRefused.At("open corpus", corpus).
				Because("it overlaps " + own + ", where built indexes are stored").
				Advise("give the corpus a prefix or a bucket of its own")
		}
	}
	return nil
}

func importBucket(bucket string) string {
	if bucket == "" {
		return ""
	}
	return "s3://" + bucket
}

// prefixesOverlap reports whether one of two prefixes lies within the other; the empty one is the whole bucket.
func prefixesOverlap(a, b string) bool {
	folder := func(prefix string) string {
		if prefix = strings.Trim(prefix, "/"); prefix == "" {
			return ""
		}
		return prefix + "/"
	}
	a, b = folder(a), folder(b)
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}
