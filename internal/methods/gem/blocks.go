package gem

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// blockRows is how many rows a block has. Sums are taken block by block and added in the order of blocks, so their
// last bits do not depend on how many processors there are.
const blockRows = 512

// inBlocks calls work for every block of n rows, on all processors. Blocks are disjoint; work must write to what is
// its block's alone.
func inBlocks(n, rows int, work func(block, from, to int)) {
	blocks := (n + rows - 1) / rows
	one := func(block int) { work(block, block*rows, min(n, (block+1)*rows)) }
	workers := min(runtime.GOMAXPROCS(0), blocks)
	if workers <= 1 {
		for block := range blocks {
			one(block)
		}
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for block := int(next.Add(1)) - 1; block < blocks; block = int(next.Add(1)) - 1 {
				one(block)
			}
		})
	}
	group.Wait()
}
