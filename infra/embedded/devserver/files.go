package devserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// The files of an engine in a data directory.
const (
	databaseFile = "engine.db"
	logFile      = "engine.log"
	formerLog    = "engine.log.1"
	pidFile      = "engine.pid"     // held by the child as a lock; it names its process and the time of its start
	versionFile  = "engine.version" // written when the data base is complete
)

// Database returns the data base of the engine of a directory.
func Database(dir string) string { return filepath.Join(dir, databaseFile) }

// listDatabase returns the files of the data base. A log or a journal of another one of that name would be played into
// a new one.
func (f files) listDatabase() []string {
	name := f.pathOf(databaseFile)
	return []string{name, name + "-wal", name + "-shm", name + "-journal"}
}

// former are the files of an engine that ran inside this program.
var former = []string{"temporal.db", "temporal.version"}

// largestLog is what a log may have; it is then kept as the former one, in place of another, and begun again.
const largestLog = 8 << 20

// files of an engine.
type files struct {
	dir  string
	lock *os.File // pidFile
	mark int64    // size of the log before the last start of the child
}

func (f files) pathOf(name string) string { return filepath.Join(f.dir, name) }

// CheckLayout refuses a data directory of an engine that ran inside this program.
func CheckLayout(dir string) error {
	for _, name := range former {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fault.FormatUnknown.At("use data directory", dir).
				Because("it has " + name + ": it is of an earlier version, whose engine and files this one does not read").
				Advise(fmt.Sprintf("index again into a new one: unweaver dev --data-dir NEW, then unweaver index FOLDER "+
					"--index INDEX; what was paid for counts there after: mkdir -p NEW/artifacts && cp -r %s NEW/artifacts/",
					filepath.Join(dir, "artifacts", "ledger")))
		}
	}
	return nil
}

// prepareFolder ends an engine that has outlived its parent, and removes what a crash left of making a data base.
func prepareFolder(ctx context.Context, dir string) (files, error) {
	f := files{dir: dir}
	if err := CheckLayout(dir); err != nil {
		return f, err
	}
	lock, err := lockPID(ctx, f.pathOf(pidFile))
	if err != nil {
		return f, err
	}
	f.lock = lock
	if err := f.removeUnfinished(); err != nil {
		return f, errors.Join(err, lock.Close())
	}
	return f, nil
}

// lockPID takes the lock that an engine holds while it lives. Its parent is gone, as this process owns the directory:
// where the system did not end the child with it, that is done here.
func lockPID(ctx context.Context, path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, durable.PrivateFile)
	if err != nil {
		return nil, fault.StoreDenied.At("open", path).Because(err).Advise("choose another --data-dir")
	}
	const tries = 200
	ended := false
	for n := range tries {
		if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return file, nil
		}
		if n > 0 && !ended { // at first it may be ending by itself
			ended = endEngine(file)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-time.After(50 * time.Millisecond):
		}
	}
	pid, _ := readPID(file)
	why := fmt.Errorf("a process holds %s, and it is not the engine that stands there: %w", path, err)
	if ended {
		why = fmt.Errorf("an engine that was left behind, process %d, does not end: %w", pid, err)
	}
	return nil, errors.Join(fault.DataDirInUse.At("use data directory", filepath.Dir(path)).
		Because(why).
		Advise("end that process, or choose another --data-dir"), file.Close())
}

// endEngine kills the process that a file notes, and reports whether it is there: one of another time of start has
// only got its number.
func endEngine(file *os.File) bool {
	pid, began := readPID(file)
	if pid <= 1 || began == "" || began != startOf(pid) {
		return false
	}
	return syscall.Kill(pid, syscall.SIGKILL) == nil
}

func readPID(file *os.File) (pid int, began string) {
	raw := make([]byte, 100)
	n, _ := file.ReadAt(raw, 0)
	number, began, _ := strings.Cut(string(raw[:n]), " ")
	pid, _ = strconv.Atoi(strings.TrimSpace(number))
	return pid, strings.TrimSpace(began)
}

// notePID writes the process id, for people and for the next start. A disk that is full must not keep the engine from
// running.
func (f files) notePID(pid int) {
	began := ""
	if pid > 0 {
		began = startOf(pid)
	}
	_, _ = f.lock.WriteAt(fmt.Appendf(nil, "%-10d %-40s\n", pid, began), 0)
}

// removeUnfinished removes a data base that was not finished: no client has seen it.
func (f files) removeUnfinished() error {
	database := f.pathOf(databaseFile)
	_, missing := os.Lstat(database)
	raw, err := os.ReadFile(f.pathOf(versionFile))
	if errors.Is(missing, fs.ErrNotExist) || errors.Is(err, fs.ErrNotExist) {
		return f.removeDatabase()
	}
	if err != nil {
		return fault.StoreDenied.At("read", f.pathOf(versionFile)).Because(err).Advise("let its user read it")
	}
	words := strings.Fields(string(raw))
	if len(words) != 2 || words[0] != words[1] { // damaged: the engine says whether it can read the data base
		return f.writeVersion()
	}
	if words[0] != Version {
		return fault.EngineDown.At("open", database).
			Because("it was made by Temporal " + words[0] + ", this is " + Version).
			Advise("move engine.db and engine.version away: the index is not in them, " + adviseLost)
	}
	return nil
}

// removeDatabase takes away the data base, what belongs to it, and the word that it is complete.
func (f files) removeDatabase() error {
	var errs error
	for _, name := range append(f.listDatabase(), f.pathOf(versionFile)) {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	if errs = errors.Join(errs, durable.SyncFolder(f.dir)); errs != nil {
		return fault.StoreDown.At("tidy up beside", f.pathOf(databaseFile)).Because(errs)
	}
	return nil
}

// markComplete says that the data base is complete, before the first client sees it.
func (f files) markComplete() error {
	for _, name := range f.listDatabase() {
		if err := durable.Tighten(name); err != nil {
			return fault.StoreDenied.At("set the mode of", name).Because(err).Advise("let its user own it")
		}
	}
	if _, err := os.Lstat(f.pathOf(versionFile)); err == nil {
		return nil
	}
	return f.writeVersion()
}

// writeVersion writes the version twice, so that damage is not taken for another one. It syncs the folder, too, and
// with it the names of the data base's files.
func (f files) writeVersion() error {
	if err := durable.WriteFile(f.pathOf(versionFile), []byte(Version+" "+Version+"\n"), durable.PrivateFile); err != nil {
		return fault.StoreDown.At("write", f.pathOf(versionFile)).Because(err)
	}
	return nil
}

// adviseLost says what a data base that is made again has no more.
const adviseLost = "only runs in progress, the history of ended ones and the schedules are; " +
	"then run `unweaver restore --all`, which makes schedules again, paused where they were"

// errDamaged is in errors of a data base that cannot be read.
var errDamaged = errors.New("damaged")

func newDamagedError(database string, why error) error {
	return fault.EngineDown.At("open", database).
		Because(fmt.Errorf("%w: %w", errDamaged, why)).
		Advise("move engine.db away and start again: the index is not in it, " + adviseLost)
}

// childLog is the log of the child while it lives.
type childLog struct {
	files  *files
	file   *os.File
	size   int64
	damage chan struct{} // has one when the child says that its data base is damaged
}

// openLog opens the log of the child, and notes where its part of it begins.
func (f *files) openLog() (*childLog, error) {
	log := &childLog{files: f, damage: make(chan struct{}, 1)}
	if err := log.openFile(); err != nil {
		return nil, fault.StoreDenied.At("write", f.pathOf(logFile)).Because(err).Advise("choose another --data-dir")
	}
	return log, nil
}

func (l *childLog) openFile() (err error) {
	const flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if l.file, err = os.OpenFile(l.files.pathOf(logFile), flags, durable.PrivateFile); err != nil {
		return err
	}
	l.size, err = l.file.Seek(0, io.SeekEnd)
	l.files.mark = l.size
	return err
}

// Write appends to the log and never fails: a disk that is full must not keep the engine from running.
func (l *childLog) Write(raw []byte) (int, error) {
	if l.size > largestLog && os.Rename(l.files.pathOf(logFile), l.files.pathOf(formerLog)) == nil {
		full := l.file
		if l.openFile() != nil {
			l.file = full
		} else {
			_ = full.Close()
		}
	}
	n, _ := l.file.Write(raw)
	l.size += int64(n)
	if bytes.Contains(raw, []byte(malformed)) {
		select {
		case l.damage <- struct{}{}:
		default:
		}
	}
	return len(raw), nil
}

// readTail returns the last lines that the child wrote into its log.
func (f files) readTail() string {
	file, err := os.Open(f.pathOf(logFile))
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	const most = 1000
	from := f.mark
	if info, err := file.Stat(); err == nil {
		from = max(from, info.Size()-most)
	}
	raw, _ := io.ReadAll(io.NewSectionReader(file, from, most))
	return strings.Join(strings.Fields(string(raw)), " ")
}

// waitForLock takes a lock between processes as soon as no other has it, and calls waits where one has.
func waitForLock(ctx context.Context, path string, waits func()) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, file.Close())
		}
		if waits != nil {
			waits()
			waits = nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
