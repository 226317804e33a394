package walk

import "sync"

// node is one that mass has reached.
type node struct {
	x, r   float64 // settled, and not pushed on yet
	id     uint32
	queued bool
}

// scratch holds the nodes that mass has reached in the order in which it did, and finds them by a table with open
// addressing.
type scratch struct {
	nodes []node
	queue []uint32 // places in nodes
	table []uint32 // place in nodes + 1; 0 is free. Its length is a power of two

	weighed map[uint32]weighed // nodes whose steps' weights are remembered
	weights []float64
}

// weighed is where the weights of the steps from a node begin, and what they sum to.
type weighed struct {
	from uint32
	sum  float64
}

const (
	firstTable = 1 << 12
	// keptTable is the largest table that is kept for another walk: 4 MiB, and up to 12 MiB of nodes.
	keptTable = 1 << 20

	// Weights of the steps from a node are remembered from so many neighbours on, which take longer to weigh than to
	// find, and so many in all: 2 MiB.
	fewestKept = 16
	mostKept   = 1 << 18
)

var scratches = sync.Pool{New: func() any {
	return &scratch{table: make([]uint32, firstTable), weighed: map[uint32]weighed{}}
}}

// releaseScratch gives the scratch back for another walk, empty.
func (s *scratch) releaseScratch() {
	if len(s.table) > keptTable {
		return
	}
	if cap(s.weights) > 2*mostKept { // of a node with more neighbours than are remembered
		s.weights = nil
	}
	if 8*len(s.nodes) > len(s.table) {
		clear(s.table)
	} else {
		for i := len(s.nodes) - 1; i >= 0; i-- { // the last in goes first, so that none that stays lies behind a gap
			s.table[s.findSlot(s.nodes[i].id)] = 0
		}
	}
	s.nodes, s.queue, s.weights = s.nodes[:0], s.queue[:0], s.weights[:0]
	clear(s.weighed)
	scratches.Put(s)
}

// findSlot returns where the table has a node, or where it would have it.
func (s *scratch) findSlot(id uint32) uint32 {
	mask := uint32(len(s.table) - 1)
	at := (id * 0x9e3779b1) >> 7 & mask
	for s.table[at] != 0 && s.nodes[s.table[at]-1].id != id {
		at = (at + 1) & mask
	}
	return at
}

// placeNode returns where nodes has a node; it is made where mass comes to it for the first time.
func (s *scratch) placeNode(id uint32) uint32 {
	at := s.findSlot(id)
	if found := s.table[at]; found != 0 {
		return found - 1
	}
	if 2*len(s.nodes) >= len(s.table) {
		s.growTable()
		at = s.findSlot(id)
	}
	s.nodes = append(s.nodes, node{id: id})
	s.table[at] = uint32(len(s.nodes))
	return uint32(len(s.nodes) - 1)
}

func (s *scratch) growTable() {
	s.table = make([]uint32, 4*len(s.table))
	for i := range s.nodes {
		s.table[s.findSlot(s.nodes[i].id)] = uint32(i + 1)
	}
}
