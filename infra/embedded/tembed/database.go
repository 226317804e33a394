package tembed

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"go.temporal.io/server/common/config"
	schema "go.temporal.io/server/schema/sqlite"
	_ "modernc.org/sqlite" // the driver that the server uses

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// settingsVariable names other settings, for the test that measures what they lose: pragma=value,...
const settingsVariable = "UNWEAVER_TEST_SQLITE"

// attributes are the pragmas of each connection, by the names that the server's plugin knows: it hands on whatever else
// it gets, and SQLite passes over a pragma that it does not know.
func attributes() map[string]string {
	out := map[string]string{"mode": "rwc", "busy_timeout": "10000", "journal_mode": "wal", "synchronous": "full"}
	if other := os.Getenv(settingsVariable); other != "" {
		for _, setting := range strings.Split(other, ",") {
			pragma, value, _ := strings.Cut(setting, "=")
			out[pragma] = value
		}
	}
	return out
}

// beside are the files that belong to a database by their name: a log or a journal of another database of that name
// would be played into a new one.
var beside = []string{"-wal", "-shm", "-journal"}

// tidy removes what a crash left of making a database, and what a database left that was taken away, and looks whether
// the one that is there can be read.
func tidy(db string) error {
	entries, err := os.ReadDir(filepath.Dir(db))
	if err != nil {
		return fault.StoreDown.At("read", filepath.Dir(db)).Because(err)
	}
	removed := false
	remove := func(path string) {
		rerr := os.Remove(path)
		if errors.Is(rerr, fs.ErrNotExist) {
			return
		}
		removed = true
		err = errors.Join(err, rerr)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), filepath.Base(db)+madeAs) {
			remove(filepath.Join(filepath.Dir(db), entry.Name()))
		}
	}
	_, missing := os.Lstat(db)
	if errors.Is(missing, fs.ErrNotExist) {
		for _, end := range beside {
			remove(db + end)
		}
	}
	if removed {
		err = errors.Join(err, durable.SyncFolder(filepath.Dir(db)))
	}
	if err != nil {
		return fault.StoreDown.At("tidy up beside", db).Because(err)
	}
	if missing != nil {
		return nil
	}
	for _, end := range append([]string{""}, beside...) { // an earlier version made them readable for all
		if err := durable.Tighten(db + end); err != nil {
			return fault.StoreDenied.At("set the mode of", db+end).Because(err)
		}
	}
	return readable(db)
}

// readable lets SQLite go over a database, after it has played in what a log or a journal holds.
func readable(db string) error {
	conn, err := sql.Open("sqlite", "file:"+(&url.URL{Path: db}).EscapedPath()+"?mode=rw&_pragma=busy_timeout=10000")
	if err != nil {
		return damaged(db, err)
	}
	var verdict string
	var tables int
	err = conn.QueryRow("PRAGMA quick_check(1)").Scan(&verdict)
	if err == nil && verdict != "ok" {
		err = errors.New(verdict)
	}
	if err == nil {
		err = conn.QueryRow("SELECT count(*) FROM sqlite_master WHERE name IN ('executions', 'history_node')").
			Scan(&tables)
	}
	if err == nil && tables != 2 {
		err = errors.New("it has no tables of Temporal")
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return damaged(db, err)
	}
	return nil
}

func damaged(db string, why error) error {
	return fault.EngineDown.At("open", db).
		Because(why).
		Advise("move temporal.db away and start again: the index is not in it, " +
			"only runs in progress and the history of ended ones")
}

// serverVersion is the version of the server module that is compiled in.
func serverVersion() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, d := range b.Deps {
			if d.Path == "go.temporal.io/server" {
				return d.Version
			}
		}
	}
	return "unknown"
}

// minor is a version without its patch.
func minor(version string) string {
	parts := strings.SplitN(strings.TrimSpace(version), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// version refuses a file of another minor version. A version file without a version is one that was not finished.
func version(dir string) error {
	path := filepath.Join(dir, "temporal.version")
	now := serverVersion()
	raw, err := os.ReadFile(path)
	found := strings.Trim(string(raw), "\x00 \n")
	if errors.Is(err, fs.ErrNotExist) || err == nil && found == "" {
		return durable.WriteFile(path, []byte(now+"\n"), 0o600)
	}
	if err != nil {
		return err
	}
	if minor(found) != minor(now) {
		return fault.EngineDown.At("open", filepath.Join(dir, "temporal.db")).
			Because("it was made by Temporal " + found + ", this is " + now).
			Advise(
				"move temporal.db and temporal.version away: the index is not in them, " +
					"only runs in progress and the history of ended ones")
	}
	return nil
}

// madeAs is put behind the name of a database that is being made.
const madeAs = ".new-"

// prepare makes the schema in a file beside and renames it, so that a crash leaves none half made.
func prepare(db string, store *config.SQL) error {
	if _, err := os.Stat(db); errors.Is(err, fs.ErrNotExist) {
		if err := create(db, *store); err != nil {
			return err
		}
	}
	ns, err := schema.NewNamespaceConfig(clusterID, Namespace, false, nil)
	if err != nil {
		return err
	}
	return schema.CreateNamespaces(store, ns)
}

// touch makes a file that is its owner's alone, and takes the rights of others from one that is there.
func touch(path string, flag int) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flag, durable.PrivateFile)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), durable.Tighten(path))
}

// create syncs the file once at its end: before it has its name nobody misses it.
func create(db string, store config.SQL) error {
	store.DatabaseName = fmt.Sprintf("%s%s%d", db, madeAs, time.Now().UnixNano())
	store.ConnectAttributes = map[string]string{"mode": "rwc", "synchronous": "off", "journal_mode": "memory"}
	if err := touch(store.DatabaseName, os.O_EXCL); err != nil { // SQLite gives its logs the mode of the database
		return err
	}
	if err := schema.SetupSchema(&store); err != nil {
		return fmt.Errorf("make Temporal schema: %w", err)
	}
	file, err := os.OpenFile(store.DatabaseName, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(store.DatabaseName, db); err != nil {
		return err
	}
	return durable.SyncFolder(filepath.Dir(db))
}
