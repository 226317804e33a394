package lexical

import (
	"fmt"
	"sort"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/postings"
)

// Rows says which rows of a side are dead (deletions.File, deletions.Bits). Dead is called by several goroutines.
type Rows interface {
	IsDead(row int) bool
	CountDead() int // of dead rows
	CountRows() int // of the side
}

// Dead is what the dead rows of all sides count (deletedstats.File). It is called by several goroutines.
type Dead interface {
	Totals() postings.Totals
	Frequency(term string) uint64 // of dead rows that hold a term
}

// Part is one side of an index.
type Part struct {
	Side *postings.Side
	Dead Rows // nil = none; not a nil pointer of a type
}

// Index searches sides as if their live rows were one. Row r of side i has the number Start(i) + r. It is safe for
// concurrent use, and valid while the sides' files and those of the dead are open.
type Index struct {
	parts   []Part
	starts  []uint64  // number of the first row of each side, and the end
	raises  []float64 // of the maxima of each side
	dead    Dead      // nil = none
	known   remembered
	totals  postings.Totals
	average float64
	weights [tabledCounts * tabledLengths]float32
}

// Compose searches sides, in the order of their numbers. dead counts their dead rows together, and may be nil where
// there are none. All rows together have numbers of 32 bits (graph.CheckRoom). Bitmaps and counts that do not fit the
// sides or each other are fault.SegmentDamage.
func Compose(parts []Part, dead Dead) (*Index, error) {
	var all, died postings.Totals
	parts = append([]Part(nil), parts...)
	for i := range parts {
		one := parts[i].Side.Stats().Totals()
		all.Documents += one.Documents
		all.Terms += one.Terms
		rows := parts[i].Dead
		if rows == nil {
			continue
		}
		if rows.CountRows() != parts[i].Side.Documents() {
			return nil, newComposeError(fmt.Sprintf("side %d has %d rows, its bitmap of dead ones %d",
				i, parts[i].Side.Documents(), rows.CountRows()))
		}
		died.Documents += uint64(rows.CountDead())
		if rows.CountDead() == 0 {
			parts[i].Dead = nil // nothing is asked then
		}
	}
	counted := postings.Totals{}
	if dead != nil {
		counted = dead.Totals()
	}
	if counted.Documents != died.Documents || counted.Terms > all.Terms {
		return nil, newComposeError(fmt.Sprintf("%d rows are dead, %d of %d terms are counted of %d",
			died.Documents, counted.Terms, all.Terms, counted.Documents))
	}
	if died.Documents == 0 {
		dead = nil
	}
	live := postings.Totals{Documents: all.Documents - counted.Documents, Terms: all.Terms - counted.Terms}
	index := &Index{
		parts: parts, starts: []uint64{0}, dead: dead, known: newRemembered(len(parts)),
		totals: live, average: live.Average(),
	}
	for i := range parts {
		index.starts = append(index.starts, index.starts[i]+uint64(parts[i].Side.Documents()))
		index.raises = append(index.raises, parts[i].Side.RaiseFactor(index.average))
	}
	for i := range index.weights {
		count, length := uint8(1+i/tabledLengths), uint32(i%tabledLengths)
		index.weights[i] = postings.Weight(count, length, index.average)
	}
	return index, nil
}

func newComposeError(why string) error {
	return fault.SegmentDamage.At("compose", "the sides of a generation").Because(why).
		Advise("run: unweaver restore --all")
}

// Totals returns those of the live rows.
func (x *Index) Totals() postings.Totals { return x.totals }

// place of a row: its side, and its number there. side is -1 for a row that is dead or that no side has.
type place struct {
	side int
	row  uint32
}

func (x *Index) placesOf(rows []uint32) []place {
	out := make([]place, len(rows))
	for i, row := range rows {
		side := sort.Search(len(x.parts), func(side int) bool { return uint64(row) < x.starts[side+1] })
		if side == len(x.parts) {
			out[i].side = -1
			continue
		}
		out[i] = place{side, row - uint32(x.starts[side])}
		if dead := x.parts[side].Dead; dead != nil && dead.IsDead(int(out[i].row)) {
			out[i].side = -1
		}
	}
	return out
}
