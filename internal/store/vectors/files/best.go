package files

import "math"

// ranked is a row with an estimate of its score.
type ranked struct {
	row      int32
	estimate float32
}

// before tells whether a is better: by its estimate, and by its number where they are equal.
func (a ranked) before(b ranked) bool {
	return a.estimate > b.estimate || a.estimate == b.estimate && a.row < b.row
}

// best keeps those rows that are best, so many of them, whatever the order in which it is given them. It keeps twice as
// many for a while, which costs less than to have them in order. More than twice would raise the floor later, and
// would not fit the cache beside a core.
type best struct {
	most  int
	floor float32 // what is below is none of them
	rows  []ranked
}

func newBest(most int) *best {
	return &best{most: most, floor: float32(math.Inf(-1)), rows: make([]ranked, 0, 2*most+rowsPerBlock)}
}

func (b *best) add(row int32, estimate float32) {
	if estimate < b.floor {
		return
	}
	b.rows = append(b.rows, ranked{row, estimate})
	if len(b.rows) == cap(b.rows) {
		b.floor = float32(math.Inf(1))
		for _, r := range b.kept() {
			b.floor = min(b.floor, r.estimate)
		}
	}
}

// kept gives the rows, in no order.
func (b *best) kept() []ranked {
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
			for rows[i].before(pivot) {
				i++
			}
			for pivot.before(rows[j]) {
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
