package files

import (
	"math"
	"sync/atomic"
)

// ranked is a row with an estimate of its score.
type ranked struct {
	row      int32
	estimate float32
}

// isBefore reports whether a is better: by its estimate, and by its number where they are equal.
func (a ranked) isBefore(b ranked) bool {
	return a.estimate > b.estimate || a.estimate == b.estimate && a.row < b.row
}

// best keeps those rows that are best, so many of them, whatever the order in which it is given them. It keeps twice as
// many for a while, which costs less than to have them in order. More than twice would raise the floor later, and
// would not fit the cache beside a core.
type best struct {
	most  int
	floor float32 // what is below is none of them
	rows  []ranked
	all   *floors // of those who look at other rows
}

func newBest(most int, all *floors) *best {
	b := &best{most: most, floor: float32(math.Inf(-1)), rows: make([]ranked, 0, 2*most+rowsPerBlock), all: all}
	b.raiseFloor()
	return b
}

// floors is the highest floor of several who keep as many of the best of different rows: what is below it is none of
// the best of all rows. The zero value is a floor of nothing.
type floors struct{ bits atomic.Uint32 }

// orderOf gives a number that is the larger the larger a float is, and more than 0.
func orderOf(x float32) uint32 {
	bits := math.Float32bits(x)
	if bits>>31 == 1 {
		return ^bits
	}
	return bits | 1<<31
}

func floatOf(order uint32) float32 {
	if order>>31 == 1 {
		return math.Float32frombits(order &^ (1 << 31))
	}
	return math.Float32frombits(^order)
}

// raiseFloor makes the floor that of all where that is higher.
func (b *best) raiseFloor() {
	if order := b.all.bits.Load(); order != 0 {
		b.floor = max(b.floor, floatOf(order))
	}
}

// shareFloor makes the floor of all this one where it is higher.
func (b *best) shareFloor() {
	for order := orderOf(b.floor); ; {
		have := b.all.bits.Load()
		if order <= have || b.all.bits.CompareAndSwap(have, order) {
			return
		}
	}
}

func (b *best) add(row int32, estimate float32) {
	if estimate < b.floor {
		return
	}
	b.rows = append(b.rows, ranked{row, estimate})
	if len(b.rows) == cap(b.rows) {
		b.floor = float32(math.Inf(1))
		for _, r := range b.keptRows() {
			b.floor = min(b.floor, r.estimate)
		}
		b.shareFloor()
	}
}

// keptRows gives the rows, in no order.
func (b *best) keptRows() []ranked {
	if len(b.rows) > b.most {
		firstOf(b.rows, b.most)
		b.rows = b.rows[:b.most]
	}
	return b.rows
}

// firstOf moves the n best rows to the front (Hoare's selection).
func firstOf(rows []ranked, n int) {
	for low, high := 0, len(rows)-1; low < high; {
		pivot := rows[low+(high-low)/2]
		i, j := low, high
		for i <= j {
			for rows[i].isBefore(pivot) {
				i++
			}
			for pivot.isBefore(rows[j]) {
				j--
			}
			if i <= j {
				rows[i], rows[j] = rows[j], rows[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			high = j
		case n >= i:
			low = i
		default:
			return
		}
	}
}
