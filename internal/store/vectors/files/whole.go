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
//   - counts as missing for Has and Upsert, so that whoever fills missing rows writes it again;
//   - gives the collection a new identity, so that the next build looks for every row;
//   - is copied by merges as it is, with the checksum that it does not fit.

func rowSum(vector []float32) uint32 { return crc32.Checksum(bytesOf(vector), castagnoli) }

// whole tells whether an exact row is what was written.
func (p *part) whole(i int) bool {
	if p.sums == nil {
		return resembles(p.vec(i), p.scales[i], p.quantised(i))
	}
	return rowSum(p.vec(i)) == p.sums[i]
}

// sum is the checksum that a copy of row i gets: one that does not fit where the row is damaged.
func (p *part) sum(i int) uint32 {
	if p.sums != nil {
		return p.sums[i]
	}
	sum := rowSum(p.vec(i))
	if !p.whole(i) {
		sum = ^sum
	}
	return sum
}

// resembles tells whether a row of a part without checksums of rows still rounds to its quantised row, which has one.
// A number may be off by one step: machines that fuse multiplication and addition round otherwise.
func resembles(vector []float32, scale float32, quantised []int8) bool {
	fresh := make([]int8, len(vector))
	if quantise(vector, fresh) != scale { // NaN differs from everything
		return false
	}
	for i, number := range fresh {
		if difference := int(number) - int(quantised[i]); difference < -1 || difference > 1 {
			return false
		}
	}
	return true
}

// damagedRow is the error of who needs the row.
func (p *part) damagedRow(op string, i int) error {
	return fault.SegmentDamage.At(op, p.path).
		Because(fmt.Sprintf("the checksum of row %s differs", p.key(i))).
		Advise("run: unweaver restore")
}

// doubt gives the collection a new identity after an error that tells of a damaged row: a build that sees it looks for
// every row, and writes the damaged one again. The caller does not hold the lock.
func (c *collection) doubt(err error) error {
	if !fault.Is(err, fault.SegmentDamage) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if os.Remove(filepath.Join(c.dir, "identity")) == nil { // where it cannot be removed, a restore still mends the row
		slog.Warn("a row of a collection is damaged: the next build or a restore writes it again",
			"collection", filepath.Base(c.dir), "why", err.Error())
	}
	return err
}
