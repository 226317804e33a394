package dev

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How far the heap may grow beyond what lives in it until the collector runs: a share of what lives, as the heap is
// mostly small and two cores are better spent on documents, but no more than garbageRoom. A build of a large corpus
// has hundreds of megabytes in its windows and sorters, and would hold twice as much again of garbage.
const (
	mostGarbage  = 200 // percent of what lives
	leastGarbage = 50
	garbageRoom  = 192 << 20
)

// garbagePercent returns GOGC for so many bytes that the last collection left alive.
func garbagePercent(live uint64) int {
	if live <= garbageRoom*100/mostGarbage {
		return mostGarbage
	}
	return max(leastGarbage, int(garbageRoom*100/live))
}

// boundGarbage has every collection set how much garbage the next one waits for. GOGC of the environment counts
// instead where it is set, and GOMEMLIMIT beside it.
func boundGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(mostGarbage)
	afterCollection(func() { debug.SetGCPercent(garbagePercent(liveBytes())) })
}

// afterCollection calls what to do after each collection from now on, one call at a time.
func afterCollection(do func()) {
	garbage := new([2]*byte) // with pointers: small objects without share a block, and live as long as all of it
	runtime.AddCleanup(garbage, func(do func()) {
		do()
		afterCollection(do)
	}, do)
}

// liveBytes returns what the last collection left alive.
func liveBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
