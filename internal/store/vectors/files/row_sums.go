package files

import (
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/unweaver/unweaver/internal/fault"
)

// Opening a part reads all of it but the exact rows, which are most of its bytes. Each of those has a checksum, which
// is looked at when the row is used. A row that differs from it
//
//   - fails the search or the fetch that needs it, with fault.SegmentDamage;
//   - counts as missing for Has and Upsert, so that filling missing rows writes it again;
//   - gives the collection a new identity, so that the next build looks for every row;
//   - is copied by merges as it is, with the checksum that it does not fit.

func rowSum(vector []float32) uint32 { return crc32.Checksum(bytesOf(vector), castagnoli) }

// isWhole reports whether an exact row is what was written.
func (p *part) isWhole(i int) bool { return rowSum(p.vectorAt(i)) == p.sums[i] }

// damagedRow returns the error for a caller that needs the row.
func (p *part) damagedRow(op string, i int) error {
	return fault.SegmentDamage.At(op, p.path).
		Because(fmt.Sprintf("the checksum of row %s differs", p.keyAt(i))).
		Advise("run: unweaver restore --all")
}

// dropIdentity gives the collection a new identity after an error that reports a damaged row: a build that sees it
// looks for every row, and writes the damaged one again. The caller does not hold the lock.
func (c *collection) dropIdentity(err error) error {
	if !fault.Is(err, fault.SegmentDamage) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if os.Remove(filepath.Join(c.dir, identityName)) == nil { // where it cannot be removed, a restore still mends the row
		slog.Warn("a row of a collection is damaged: the next build or a restore writes it again",
			"collection", filepath.Base(c.dir), "why", err.Error())
	}
	return err
}
