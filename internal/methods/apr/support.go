package apr

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
)

// SupportAt is the cosine from which an edge of the corpus supports what a line says.
const SupportAt = 0.85

// Supported is an edge that supports a line.
type Supported struct {
	Edge   uint32
	Cosine float64
}

// Support gives of each line, a vector of unit length, the edges of a cosine of at least SupportAt that allow lets in,
// the nearest first, of equal ones the lower, at most so many. allow is asked of those alone, from one goroutine;
// nil: all are. Every edge is compared, in the time of a coarse stage; ctx ends it.
func (x *Index) Support(
	ctx context.Context, lines [][]float32, most int, allow func(edge uint32) bool,
) ([][]Supported, error) {
	out := make([][]Supported, len(lines))
	probes := make([]probe, len(lines))
	for i, line := range lines {
		if len(line) == x.lines.Dim {
			probes[i] = probeOf(line)
		}
	}
	edges := x.lines.Len()
	blocks := make(chan int)
	var mu sync.Mutex
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), edges/blockRows+1) {
		group.Go(func() {
			for from := range blocks {
				found := x.supportIn(probes, from, min(from+blockRows, edges))
				mu.Lock()
				for i, more := range found {
					out[i] = append(out[i], more...)
				}
				mu.Unlock()
			}
		})
	}
	for from := 0; from < edges && ctx.Err() == nil; from += blockRows {
		blocks <- from
	}
	close(blocks)
	group.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, found := range out {
		slices.SortFunc(found, func(a, b Supported) int {
			return cmp.Or(cmp.Compare(b.Cosine, a.Cosine), cmp.Compare(a.Edge, b.Edge))
		})
		if allow != nil {
			let := 0
			found = slices.DeleteFunc(found, func(one Supported) bool {
				if let < most && allow(one.Edge) {
					let++
					return false
				}
				return true
			})
		}
		out[i] = found[:min(len(found), most)]
	}
	return out, nil
}

func (x *Index) supportIn(probes []probe, from, to int) [][]Supported {
	out := make([][]Supported, len(probes))
	for edge := from; edge < to; edge++ {
		for i, one := range probes {
			if len(one.numbers) == 0 {
				continue
			}
			if cosine := float64(x.lines.dot(edge, one)); cosine >= SupportAt {
				out[i] = append(out[i], Supported{uint32(edge), cosine})
			}
		}
	}
	return out
}

// EdgesOf gives the edges that are told in exactly these words; those that the codebook does not have are left out.
func (x *Index) EdgesOf(words []Word) map[Word]uint32 {
	if len(words) == 0 {
		return nil
	}
	entities, relations := map[string]uint32{}, map[string]uint32{}
	for _, word := range words {
		entities[word.Head], entities[word.Tail], relations[word.Relation] = none, none, none
	}
	numberOf(entities, x.book.Entities)
	numberOf(relations, x.book.Relations)
	wanted := map[Edge]Word{}
	for _, word := range words {
		edge := Edge{entities[word.Head], relations[word.Relation], entities[word.Tail]}
		if edge.Head != none && edge.Relation != none && edge.Tail != none {
			wanted[edge] = word
		}
	}
	out := map[Word]uint32{}
	if len(wanted) == 0 {
		return out
	}
	for i, edge := range x.book.Edges {
		if word, ok := wanted[edge]; ok {
			out[word] = uint32(i)
		}
	}
	return out
}

// none is the number of no symbol.
const none = ^uint32(0)

func numberOf(wanted map[string]uint32, shown []string) {
	for i, name := range shown {
		if _, ok := wanted[name]; ok {
			wanted[name] = uint32(i)
		}
	}
}
