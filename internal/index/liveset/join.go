package liveset

import (
	"bytes"
	"cmp"
	"context"
	"runtime"
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// joinClasses makes the lists of chunks of each class. Splits name classes by id, in order, as the places of classes
// are: each part of that order is joined by itself, once to count and once to fill.
func (s *Set) joinClasses(ctx context.Context, byID *merge) error {
	classes := len(s.classes)
	s.Graph.ClassOff = make([]uint64, classes+1)
	each := func(f func(part, from, to int) error) error {
		return parallel.Each(ctx, byID.countParts(), runtime.GOMAXPROCS(0), func(_ context.Context, part int) error {
			return f(part, byID.starts[part], byID.starts[part+1])
		})
	}
	if err := each(func(part, from, to int) error {
		return s.joinPart(byID, part, func(place, of, class int) {
			numbers := s.numbers.of[of]
			for _, chunk := range s.splits[of].File.ChunksOf(class) {
				if numbers[chunk] != None {
					s.Graph.ClassOff[place+1]++
				}
			}
		})
	}); err != nil {
		return err
	}
	for place := range classes {
		s.Graph.ClassOff[place+1] += s.Graph.ClassOff[place]
	}
	s.Graph.ClassTo = make([]uint32, s.Graph.ClassOff[classes])
	s.firstAt = make([]uint16, classes)
	return each(func(part, from, to int) error {
		filled, first := make([]uint32, to-from), make([]uint32, to-from)
		if err := s.joinPart(byID, part, func(place, of, class int) {
			file, numbers, at := s.splits[of].File, s.numbers.of[of], place-from
			list := s.Graph.ClassTo[s.Graph.ClassOff[place]:s.Graph.ClassOff[place+1]]
			for i, chunk := range file.ChunksOf(class) {
				number := numbers[chunk]
				if number == None {
					continue
				}
				if filled[at] == 0 || number < first[at] {
					first[at], s.firstAt[place] = number, file.PlacesOf(class)[i]
				}
				list[filled[at]] = number
				filled[at]++
			}
		}); err != nil {
			return err
		}
		return s.sortChunks(from, to)
	})
}

// joinPart reports each class of a part in which splits it is, and where there.
func (s *Set) joinPart(byID *merge, part int, tell func(place, of, class int)) error {
	from, to := byID.starts[part], byID.starts[part+1]
	for i, one := range s.splits {
		class, end := 0, len(one.File.ClassIDs)
		if part > 0 {
			class = s.findBoundary(byID, part, i)
		}
		if part+1 < byID.countParts() {
			end = s.findBoundary(byID, part+1, i)
		}
		place := from
		for ; class < end; class++ {
			id := one.File.ClassIDs[class]
			place = s.seekClass(place, to, id)
			if place < to && s.rowAt(uint32(place)).ID == id {
				tell(place, i, class)
				continue
			}
			if slices.ContainsFunc(one.File.ChunksOf(class), func(chunk uint32) bool { return s.numbers.of[i][chunk] != None }) {
				return one.File.UnfitError("a live chunk of it mentions class " + id.String() + ", which no run has")
			}
		}
	}
	return nil
}

// seekClass returns the first place from one on, before another, whose id is not less than id. It is mostly near.
func (s *Set) seekClass(from, to int, id core.ID) int {
	less := func(place int) bool { return bytes.Compare(s.rowAt(uint32(place)).ID[:], id[:]) < 0 }
	step := 1
	for from+step <= to && less(from+step-1) {
		from += step
		step *= 2
	}
	return from + sort.Search(min(step, to-from), func(i int) bool { return !less(from + i) })
}

// findBoundary returns where a part begins among the classes of a split: at the first row of the part, dead or not,
// that any run has.
func (s *Set) findBoundary(byID *merge, part, split int) int {
	file := s.splits[split].File
	least := len(file.ClassIDs)
	for run, row := range byID.bounds[part] {
		if rows := s.runs[run].File.Rows; row < len(rows) {
			least = min(least, file.ClassFrom(rows[row].ID))
		}
	}
	return least
}

// sortChunks puts the chunks of classes in order. Each class has one.
func (s *Set) sortChunks(from, to int) error {
	for place := from; place < to; place++ {
		list := s.Graph.ChunksOf(uint32(place))
		if !slices.IsSorted(list) {
			slices.Sort(list)
		}
		if len(list) == 0 {
			where := s.classes[place]
			file := s.runs[where.file].File
			return file.UnfitError("class " + file.Rows[where.row].ID.String() + " has no live mention")
		}
	}
	return nil
}

// transposeLists makes the lists of classes of each chunk.
func (s *Set) transposeLists(context.Context) error {
	chunks := len(s.document)
	offsets := make([]uint64, chunks+1)
	for _, chunk := range s.Graph.ClassTo {
		offsets[chunk+1]++
	}
	for chunk := range chunks {
		offsets[chunk+1] += offsets[chunk]
	}
	next := slices.Clone(offsets[:chunks])
	to := make([]uint32, len(s.Graph.ClassTo))
	for place := range s.classes {
		for _, chunk := range s.Graph.ChunksOf(uint32(place)) {
			to[next[chunk]] = uint32(place)
			next[chunk]++
		}
	}
	s.Graph.ChunkOff, s.Graph.ChunkTo = offsets, to
	return nil
}

// rankClasses orders classes by their first mentions: those of one chunk by position, then by place.
func (s *Set) rankClasses(ctx context.Context) error {
	defer func() { s.firstAt = nil }()
	classes, chunks := len(s.classes), len(s.document)
	starts := make([]uint32, chunks+1)
	for place := range uint32(classes) {
		starts[s.Graph.ChunksOf(place)[0]+1]++
	}
	for chunk := range chunks {
		starts[chunk+1] += starts[chunk]
	}
	s.Place, s.Rank = make([]uint32, classes), make([]uint32, classes)
	next := slices.Clone(starts[:chunks])
	for place := range uint32(classes) {
		chunk := s.Graph.ChunksOf(place)[0]
		s.Place[next[chunk]] = place
		next[chunk]++
	}
	return runStripes(ctx, chunks, func(from, to int) {
		for chunk := from; chunk < to; chunk++ {
			slices.SortFunc(s.Place[starts[chunk]:starts[chunk+1]], func(a, b uint32) int {
				return cmp.Or(cmp.Compare(s.firstAt[a], s.firstAt[b]), cmp.Compare(a, b))
			})
			for rank := starts[chunk]; rank < starts[chunk+1]; rank++ {
				s.Rank[s.Place[rank]] = rank
			}
		}
	})
}
