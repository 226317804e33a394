package powerloss_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// disk is what the recorded calls make of a folder: what programs see, and what a sync has made durable of it. The
// rules are the strict ones of POSIX: bytes of a file are durable when it was synced after they were written, a name
// when its folder was synced after the change. File systems in use promise more (a file's sync covers the name of a new
// file; names change in order), so what outlasts these rules outlasts theirs.
type disk struct {
	root  string // the folder that is modelled; calls outside of it are passed over
	top   *node
	owner processes
	files map[string]map[int]*handle // by process
	syncs map[string]reach           // by thread: what a sync that has begun covers
	cut   func(name string, file *node, at time.Time) error
}

type node struct {
	name           string // the last one, for people
	folder         bool
	seen           []byte // a file's bytes
	kept           []byte // what was synced of them
	names, durable map[string]*node
	pending        []change // since the last sync that covers them
	done           int      // changes that were synced
}

// change is a write to a file, or a change of names of a folder that happens at once.
type change struct {
	at    int64
	data  []byte
	size  int64 // not -1: the file gets this size
	names map[string]*node
}

type handle struct {
	node   *node
	offset int64
	path   string // of a folder
	append bool
	given  bool // to the program that this process becomes; others are closed then
}

type reach struct {
	node    *node
	changes int
}

// processes tell threads from processes, which have numbers of files of their own.
type processes struct {
	process map[string]string // of a thread that is not the first of its process
	parent  map[string]string // thread that started a process
}

func (p processes) begun(string, call) error { return nil }

func (p processes) returned(thread string, c call) error {
	switch c.name {
	case "clone", "clone3", "fork", "vfork":
		made := strconv.FormatInt(c.result, 10)
		if c.result <= 0 {
			return nil
		}
		if strings.Contains(strings.Join(c.args, " "), "CLONE_THREAD") {
			p.process[made] = thread
			delete(p.parent, made) // the system gives numbers out again
		} else {
			p.parent[made] = thread
			delete(p.process, made)
		}
	}
	return nil
}

func (p processes) of(thread string) string {
	for p.process[thread] != "" {
		thread = p.process[thread]
	}
	return thread
}

// table returns what numbers of files mean in a thread's process. A new process has those of the one that started it,
// up to its execve.
func (d *disk) table(thread string) map[int]*handle {
	own := d.owner.of(thread)
	if d.files[own] == nil {
		d.files[own] = map[int]*handle{}
		if parent := d.owner.parent[own]; parent != "" {
			d.files[own] = maps.Clone(d.table(parent))
		}
	}
	return d.files[own]
}

func newDisk(root string) *disk {
	return &disk{root: root, top: newFolder("."), files: map[string]map[int]*handle{}, syncs: map[string]reach{}}
}

func newFolder(name string) *node {
	return &node{name: name, folder: true, names: map[string]*node{}, durable: map[string]*node{}}
}

func (n *node) add(c change) {
	n.pending = append(n.pending, c)
	if n.folder {
		apply(n.names, c)
		return
	}
	n.seen = written(n.seen, c)
}

func apply(names map[string]*node, c change) {
	for name, to := range c.names {
		if to == nil {
			delete(names, name)
		} else {
			names[name] = to
		}
	}
}

func written(raw []byte, c change) []byte {
	if c.size >= 0 {
		if c.size <= int64(len(raw)) {
			return raw[:c.size:c.size]
		}
		return append(raw, make([]byte, c.size-int64(len(raw)))...)
	}
	if end := c.at + int64(len(c.data)); end > int64(len(raw)) {
		raw = append(raw, make([]byte, end-int64(len(raw)))...)
	}
	copy(raw[c.at:], c.data)
	return raw
}

// synced makes changes durable up to a number counted from the beginning.
func (n *node) synced(upTo int) {
	for n.done < upTo && len(n.pending) > 0 {
		if n.folder {
			apply(n.durable, n.pending[0])
		} else {
			n.kept = written(n.kept, n.pending[0])
		}
		n.pending = n.pending[1:]
		n.done++
	}
}

// find walks to a path of the model; folder and name are where it lies.
func (d *disk) find(path string) (folder *node, name string, found *node) {
	rel, err := filepath.Rel(d.root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil, "", nil
	}
	if rel == "." {
		return nil, "", d.top
	}
	folder = d.top
	parts := strings.Split(rel, "/")
	for _, part := range parts[:len(parts)-1] {
		if folder = folder.names[part]; folder == nil {
			return nil, "", nil
		}
	}
	name = parts[len(parts)-1]
	return folder, name, folder.names[name]
}

// at resolves a path beside the number of an open folder.
func (d *disk) at(thread, number, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	if h := d.file(thread, number); h != nil {
		return filepath.Join(h.path, path)
	}
	return "/outside/" + path
}

func (d *disk) file(thread, number string) *handle {
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil
	}
	return d.table(thread)[n]
}

func (d *disk) begun(thread string, c call) error {
	switch c.name {
	case "close": // the number may be given out again before this line's end is written
		if n, err := strconv.Atoi(c.args[0]); err == nil {
			delete(d.table(thread), n)
		}
	case "fsync", "fdatasync":
		if h := d.file(thread, c.args[0]); h != nil {
			d.syncs[thread] = reach{h.node, h.node.done + len(h.node.pending)}
		}
	}
	return nil
}

func (d *disk) returned(thread string, c call) error {
	if c.result < 0 {
		delete(d.syncs, thread)
		return nil
	}
	switch c.name {
	case "open", "creat":
		return d.open(thread, c, c.args[0], c.args[1:])
	case "openat":
		return d.open(thread, c, d.at(thread, c.args[0], c.args[1]), c.args[2:])
	case "rename", "link":
		return d.move(c.args[0], c.args[1], c.name == "link")
	case "renameat", "renameat2", "linkat":
		return d.move(d.at(thread, c.args[0], c.args[1]), d.at(thread, c.args[2], c.args[3]), c.name == "linkat")
	case "close": // see begun
	case "clone", "clone3", "fork", "vfork":
		return d.owner.returned(thread, c)
	case "execve":
		maps.DeleteFunc(d.table(thread), func(_ int, h *handle) bool { return !h.given })
	case "unlink", "rmdir":
		d.remove(c.args[0])
	case "unlinkat":
		d.remove(d.at(thread, c.args[0], c.args[1]))
	case "mkdir":
		d.makeFolder(c.args[0])
	case "mkdirat":
		d.makeFolder(d.at(thread, c.args[0], c.args[1]))
	case "fsync", "fdatasync":
		if reached, ok := d.syncs[thread]; ok {
			delete(d.syncs, thread)
			reached.node.synced(reached.changes)
			if d.cut != nil {
				return d.cut(c.name, reached.node, c.at)
			}
		}
	default:
		return d.bytes(thread, c)
	}
	return nil
}

func (d *disk) open(thread string, c call, path string, flags []string) error {
	how := ""
	if len(flags) > 0 {
		how = flags[0]
	}
	folder, name, found := d.find(path)
	if found == nil && folder == nil {
		delete(d.table(thread), int(c.result))
		return nil
	}
	if found == nil {
		if !strings.Contains(how, "O_CREAT") {
			return fmt.Errorf("%s was opened and is not known", path)
		}
		found = &node{name: name}
		folder.add(change{names: map[string]*node{name: found}})
	} else if strings.Contains(how, "O_TRUNC") && len(found.seen) > 0 {
		found.add(change{size: 0})
	}
	d.table(thread)[int(c.result)] = &handle{node: found, path: path, append: strings.Contains(how, "O_APPEND")}
	return nil
}

func (d *disk) move(from, to string, link bool) error {
	source, was, moved := d.find(from)
	target, now, _ := d.find(to)
	if source == nil && target == nil {
		return nil
	}
	if moved == nil || target == nil {
		return fmt.Errorf("%s became %s across the border of the model", from, to)
	}
	moved.name = now
	if link {
		target.add(change{names: map[string]*node{now: moved}})
		return nil
	}
	if source == target {
		target.add(change{names: map[string]*node{was: nil, now: moved}})
		return nil
	}
	target.add(change{names: map[string]*node{now: moved}})
	source.add(change{names: map[string]*node{was: nil}})
	return nil
}

func (d *disk) remove(path string) {
	if folder, name, found := d.find(path); found != nil && folder != nil {
		folder.add(change{names: map[string]*node{name: nil}})
	}
}

func (d *disk) makeFolder(path string) {
	if folder, name, _ := d.find(path); folder != nil {
		folder.add(change{names: map[string]*node{name: newFolder(name)}})
	}
}

// bytes applies what changes the content of an open file.
func (d *disk) bytes(thread string, c call) error {
	h := d.file(thread, c.args[0])
	if c.name == "mmap" {
		if h = d.file(thread, c.args[4]); h != nil && strings.Contains(c.args[3], "MAP_SHARED") &&
			strings.Contains(c.args[2], "PROT_WRITE") && !strings.HasSuffix(h.node.name, "-shm") {
			return fmt.Errorf("%s is mapped for writing, which this record does not see", h.node.name)
		}
		return nil
	}
	switch c.name {
	case "dup", "dup2", "dup3":
		if delete(d.table(thread), int(c.result)); h != nil {
			d.table(thread)[int(c.result)] = &handle{node: h.node, path: h.path, append: h.append, given: true}
		}
		return nil
	}
	if h == nil {
		return nil
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(c.args[i], 0, 64)
		return n
	}
	switch c.name {
	case "lseek":
		h.offset = c.result
	case "write":
		if h.append {
			h.offset = int64(len(h.node.seen))
		}
		h.node.add(change{at: h.offset, data: []byte(c.args[1][:c.result]), size: -1})
		h.offset += c.result
	case "pwrite64":
		h.node.add(change{at: number(3), data: []byte(c.args[1][:c.result]), size: -1})
	case "ftruncate":
		h.node.add(change{size: number(1)})
	case "copy_file_range":
		return d.copy(thread, c, h)
	case "fallocate":
		if end := number(2) + number(3); number(1) == 0 && end > int64(len(h.node.seen)) {
			h.node.add(change{size: end})
		}
	case "open", "sync_file_range":
	default:
		return fmt.Errorf("%s on %s is not understood", c.name, h.node.name)
	}
	return nil
}

func (d *disk) copy(thread string, c call, from *handle) error {
	to := d.file(thread, c.args[2])
	if to == nil || c.args[1] != "NULL" || c.args[3] != "NULL" {
		return errors.New("a copy of a range is not understood")
	}
	if from.offset+c.result > int64(len(from.node.seen)) {
		return fmt.Errorf("%s was copied beyond its end", from.node.name)
	}
	data := bytes.Clone(from.node.seen[from.offset : from.offset+c.result])
	to.node.add(change{at: to.offset, data: data, size: -1})
	from.offset += c.result
	to.offset += c.result
	return nil
}

type variant int

const (
	strict    variant = iota // what syncs cover, nothing else
	all                      // everything that was written
	scattered                // what syncs cover, and of the rest what a seed picks
)

func (v variant) String() string { return []string{"strict", "all", "scattered"}[v] }

// leaf is a file or a folder that a disk has kept.
type leaf struct {
	node *node
	raw  []byte // of a file; it must not be changed
}

// left gives what a disk has kept of a tree, by path.
func left(top *node, v variant, random *rand.Rand) map[string]leaf {
	out := map[string]leaf{}
	contents := map[*node][]byte{} // a file with two names is one file
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		names := n.durable
		switch v {
		case all:
			names = n.names
		case scattered:
			names = maps.Clone(names)
			for _, c := range n.pending {
				if random.IntN(2) == 0 {
					apply(names, c)
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			child, below := names[name], filepath.Join(path, name)
			if !child.folder {
				if _, ok := contents[child]; !ok {
					contents[child] = child.content(v, random)
				}
			}
			out[below] = leaf{child, contents[child]}
			if child.folder {
				walk(child, below)
			}
		}
	}
	walk(top, "")
	return out
}

const sector = 4096

func (n *node) content(v variant, random *rand.Rand) []byte {
	switch {
	case v == all:
		return n.seen
	case v == strict || len(n.pending) == 0:
		return n.kept
	}
	raw := bytes.Clone(n.kept)
	for _, c := range n.pending {
		if c.size >= 0 {
			if random.IntN(2) == 0 {
				raw = written(raw, c)
			}
			continue
		}
		for from := 0; from < len(c.data); from += sector {
			if random.IntN(2) == 0 {
				part := c.data[from:min(from+sector, len(c.data))]
				raw = written(raw, change{at: c.at + int64(from), data: part, size: -1})
			}
		}
	}
	return raw
}

// put writes those parts of a tree that are wanted into a folder.
func put(folder string, tree map[string]leaf, wanted func(path string) bool) error {
	for _, path := range slices.Sorted(maps.Keys(tree)) {
		if !wanted(path) {
			continue
		}
		target, kept := filepath.Join(folder, path), tree[path]
		parent := target
		if !kept.node.folder {
			parent = filepath.Dir(target)
		}
		if err := os.MkdirAll(parent, 0o700); err != nil {
			return err
		}
		if kept.node.folder {
			continue
		}
		if err := os.WriteFile(target, kept.raw, 0o600); err != nil {
			return err
		}
	}
	return nil
}
