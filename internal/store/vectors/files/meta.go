package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

const (
	metaName     = "meta.json"
	identityName = "identity"
)

// meta describes a collection: what a build from it may rely on. A part that it lists and that is not there was lost.
type meta struct {
	Dim   int    `json:"dim"`
	Parts []int  `json:"parts"` // their numbers
	Sum   uint32 `json:"sum"`   // of the rest
}

func (m meta) computeSum() uint32 { return crc32.Checksum(fmt.Append(nil, m.Dim, m.Parts), castagnoli) }

func writeMeta(dir string, m meta) error {
	m.Sum = m.computeSum()
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, metaName), raw)
}

// recordParts writes which parts the collection has. The caller holds the lock.
func (c *collection) recordParts() error {
	m := meta{Dim: c.dim}
	for _, p := range c.parts {
		n, _ := parseNumber(filepath.Base(p.path))
		m.Parts = append(m.Parts, n)
	}
	return writeMeta(c.dir, m)
}

// readMeta reads the description of a collection.
func readMeta(dir string) (meta, error) {
	raw, err := os.ReadFile(filepath.Join(dir, metaName))
	if errors.Is(err, os.ErrNotExist) {
		return meta{}, fault.NotFound.At("open collection", filepath.Base(dir)).
			Because("it does not exist").
			Advise("rebuild it with: unweaver restore --all")
	}
	if err != nil {
		return meta{}, wrapError("open", dir, err)
	}
	var known meta
	if err := json.Unmarshal(raw, &known); err != nil || known.Dim <= 0 || known.Sum != known.computeSum() {
		return meta{}, newDamageFault(filepath.Join(dir, metaName), "it describes no collection, or its sum differs")
	}
	return known, nil
}

// keepParts writes the file of a part again that is gone while its bytes are mapped, and its folder where that is gone,
// too. The caller holds the lock.
func (c *collection) keepParts() error {
	kept := true
	for _, p := range c.parts {
		if _, err := os.Stat(p.path); err == nil {
			continue
		} else if !errors.Is(err, os.ErrNotExist) {
			return wrapError("look at", p.path, err)
		}
		kept = false
		slog.Warn("a vector file is missing and is written again", "file", p.path)
		err := wrapError("make", c.dir, durable.MkdirAll(c.dir, durable.PrivateFolder))
		if err = errors.Join(err, writeFile(p.path, p.data), p.saveDead()); err != nil {
			return err
		}
	}
	if kept {
		return nil
	}
	return c.recordParts()
}
