package files

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// damaged ends the name of a collection's folder that was set aside.
const damaged = ".damaged"

// setAside gives the folder of a collection whose content cannot be opened another name, so that the collection counts
// as missing and is filled again from the artifacts, and gives fault.NotFound. Any error but damage is given as it is:
// a disk or a limit that fails now may not fail later. The caller holds s.mu, and s.open does not have the collection.
// What other processes have mapped stays mapped.
func (s *Store) setAside(name string, err error) error {
	if !fault.Is(err, fault.SegmentDamage) {
		return err
	}
	folder := filepath.Join(s.root, name)
	aside := folder + damaged
	moved := os.RemoveAll(aside)
	if moved == nil {
		moved = os.Rename(folder, aside)
	}
	if moved == nil {
		moved = durable.SyncFolder(s.root)
	}
	if moved != nil {
		return errors.Join(err, wrapError("set aside", folder, moved))
	}
	slog.Warn("damaged collection set aside", "collection", name, "folder", aside, "why", err.Error())
	return fault.NotFound.At("open collection", name).
		Because(fmt.Errorf("it was damaged and was moved to %s: %w", aside, err)).
		Advise("reload it with: unweaver restore --all")
}

// loseCollection sets an open collection aside after an error that says that its files are damaged; c is nil where a
// file was cut while it was opened.
func (s *Store) loseCollection(name string, c *collection, err error) error {
	if !fault.Is(err, fault.SegmentDamage) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[name] != c { // another call has set it aside
		return err
	}
	delete(s.open, name)
	if c != nil {
		err = errors.Join(err, c.close())
	}
	return s.setAside(name, err)
}
