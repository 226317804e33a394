package limits

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// paceOver is the time over which places that come free are counted.
	paceOver = time.Second
	// longestAhead bounds how long before its place a call is admitted: what it is admitted by does not hold long, and
	// what waits with it counts as in flight where this process dies.
	longestAhead = 100 * time.Millisecond
	// mostAhead bounds how many calls are.
	mostAhead = 64
)

// pace says how many calls will have their turn while one of them is admitted by who pays: as many as places come free
// in twice the time that this takes, since who asks waits for the exchange under way and then for its own.
type pace struct {
	count float64 // places that came free of late; older ones count less
	last  time.Time
	takes atomic.Int64 // nanoseconds that it takes to be admitted
}

// recordFree counts a place that came free.
func (p *pace) recordFree(now time.Time) {
	p.count = p.count*math.Exp(-now.Sub(p.last).Seconds()/paceOver.Seconds()) + 1
	p.last = now
}

// recordWait counts how long it took to be admitted, the last ones for a quarter each.
func (p *pace) recordWait(passed time.Duration) {
	before := p.takes.Load()
	p.takes.Store(before + (int64(passed)-before)/4)
}

// countAhead returns how many calls are to be admitted before their turn, at least the next one.
func (p *pace) countAhead() int {
	within := min(2*time.Duration(p.takes.Load()), longestAhead)
	return max(1, min(mostAhead, int(math.Ceil(p.count/paceOver.Seconds()*within.Seconds()))))
}
