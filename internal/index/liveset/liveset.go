// Package liveset numbers the live rows of many splits and class runs together, as if a build from nothing had written
// them into one split: documents in the order of keys, chunks in the order of documents and within them, classes in the
// order of ids, names in their order, and classes once more in the order of their first mentions. Dead rows get no
// number. The numbers are made in parallel when a generation is opened and are not stored. They take about 12 bytes a
// chunk, 16 a document, 32 a class and 8 a mention in memory, and 4 for each dead row.
package liveset

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"

	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/graph"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// None is the number of what is dead.
const None = math.MaxUint32

// Split is a split of the set. Parts of its own files count from these among those of the generation.
type Split struct {
	File      *split.File
	Dead      func(document int) bool // a document is dead with all its chunks; nil: none is
	Documents uint32                  // first part of its documents and texts
	Extract   uint32
}

// Run is a class run of the set.
type Run struct {
	File *classrun.File
	Dead func(row int) bool // nil: none is
}

// Set is what is live. It is safe for concurrent use while the files are
// open.
type Set struct {
	Graph graph.Adjacency // of places of classes and numbers of chunks
	Rank  []uint32        // place of a class -> place in the order of first mentions
	Place []uint32        // the other way round

	splits []Split
	runs   []Run

	documents []at       // in the order of keys
	first     []uint32   // chunk of each document, and the end
	document  []uint32   // of each chunk
	ahead     []uint32   // of each document: what ChunkRow adds to the numbers of its chunks, modulo 1 << 32
	numbers   rowNumbers // of the chunks of each split
	byID      []uint32   // numbers of chunks in the order of ids
	classes   []at       // in the order of ids
	places    rowNumbers // of the rows of each run
	names     []uint32   // of each name, in order, where it is among the names of all runs, one run after another
	nameOf    []uint32   // place of the name of each class
	firstAt   []uint16   // while it is made: split.File.PlacesOf the first mention of each class

	joined *joined // the rows of classes; nil: each class has one
}

// rowNumbers are the numbers of what the rows of several files say, None of dead rows.
type rowNumbers struct {
	all  []uint32
	of   [][]uint32 // of each file: parts of all
	base []uint32   // where each begins
}

func newRowNumbers(files int, rows func(file int) int) rowNumbers {
	out := rowNumbers{base: make([]uint32, files+1), of: make([][]uint32, files)}
	for file := range files {
		out.base[file+1] = out.base[file] + uint32(rows(file))
	}
	out.all = make([]uint32, out.base[files])
	for row := range out.all {
		out.all[row] = None
	}
	for file := range files {
		out.of[file] = out.all[out.base[file]:out.base[file+1]]
	}
	return out
}

// New numbers a set, whose files stay the caller's and are open as long as the set is used. Errors: fault.TooLarge
// where there are more rows than can be numbered; fault.SegmentDamage, which names a file, where documents or classes
// are live twice, a live chunk mentions a class that is not live, or a live class has no live mention.
func New(ctx context.Context, index string, splits []Split, runs []Run) (*Set, error) {
	return newSet(ctx, index, splits, runs, false)
}

// newSet numbers a set, and makes one class of all rows of a name where that is wanted.
func newSet(ctx context.Context, index string, splits []Split, runs []Run, join bool) (*Set, error) {
	s := &Set{splits: splits, runs: runs}
	chunks, classes := 0, 0
	for _, one := range splits {
		chunks += len(one.File.Chunks)
	}
	for _, one := range runs {
		classes += len(one.File.Rows)
	}
	if err := graph.CheckRoom(index, classes, chunks); err != nil {
		return nil, err
	}
	byID, err := s.numberRows(ctx)
	if err != nil {
		return nil, err
	}
	steps := []func(context.Context) error{func(ctx context.Context) error { return s.joinClasses(ctx, byID) }}
	if join {
		steps = append(steps, s.joinNames)
	}
	for _, step := range append(steps, s.transposeLists, s.rankClasses) {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// numberRows numbers documents and chunks beside classes and names. It gives the merge of classes: how their order is
// divided.
func (s *Set) numberRows(ctx context.Context) (*merge, error) {
	var byID *merge
	err := parallel.RunTogether(ctx,
		func(ctx context.Context) error {
			if err := s.numberDocuments(ctx); err != nil {
				return err
			}
			return s.orderChunks(ctx)
		},
		func(ctx context.Context) (err error) {
			if byID, err = s.numberClasses(ctx); err != nil {
				return err
			}
			return s.orderNames(ctx)
		},
	)
	return byID, err
}

func (s *Set) numberDocuments(ctx context.Context) error {
	byKey := &merge{
		live: func(list, i int) bool { return s.splits[list].Dead == nil || !s.splits[list].Dead(i) },
		compare: func(list, i, other, otherI int) int {
			return bytes.Compare(s.splits[list].File.KeyBytes(i), s.splits[other].File.KeyBytes(otherI))
		},
	}
	for _, one := range s.splits {
		byKey.lists = append(byKey.lists, len(one.File.Documents))
	}
	if err := byKey.divideParts(ctx); err != nil {
		return err
	}
	s.documents = make([]at, byKey.countEntries())
	s.first = make([]uint32, byKey.countEntries()+1)
	err := byKey.visitEntries(ctx, func(number, list, i int) {
		s.documents[number] = at{uint32(list), uint32(i)}
		s.first[number+1] = s.splits[list].File.Documents[i].Count
	})
	if both, ok := asTwice(err); ok {
		file := s.splits[both.second.file].File
		return file.UnfitError(fmt.Sprintf("its document %d is live in another split too", both.second.row))
	}
	if err != nil {
		return err
	}
	for i := range s.documents {
		s.first[i+1] += s.first[i]
	}
	return s.numberChunks(ctx)
}

func (s *Set) numberChunks(ctx context.Context) error {
	s.numbers = newRowNumbers(len(s.splits), func(i int) int { return len(s.splits[i].File.Chunks) })
	s.document, s.ahead = make([]uint32, s.first[len(s.documents)]), make([]uint32, len(s.documents))
	return runStripes(ctx, len(s.documents), func(from, to int) {
		for i := from; i < to; i++ {
			where := s.documents[i]
			local := s.splits[where.file].File.Documents[where.row].Chunks
			s.ahead[i] = s.numbers.base[where.file] + local - s.first[i]
			for number := s.first[i]; number < s.first[i+1]; number++ {
				s.document[number] = uint32(i)
				s.numbers.of[where.file][local+number-s.first[i]] = number
			}
		}
	})
}

// runStripes calls f for parts of [0, n) side by side.
func runStripes(ctx context.Context, n int, f func(from, to int)) error {
	parts := max(1, min(4*runtime.GOMAXPROCS(0), n/partEntries))
	return parallel.Each(ctx, parts, runtime.GOMAXPROCS(0), func(_ context.Context, part int) error {
		f(int(uint64(n)*uint64(part)/uint64(parts)), int(uint64(n)*uint64(part+1)/uint64(parts)))
		return nil
	})
}

func (s *Set) orderChunks(ctx context.Context) error {
	order := &merge{
		live: func(list, i int) bool { return s.numbers.of[list][s.splits[list].File.ByID[i]] != None },
		compare: func(list, i, other, otherI int) int {
			a, b := s.splits[list].File, s.splits[other].File
			return bytes.Compare(a.Chunks[a.ByID[i]].ID[:], b.Chunks[b.ByID[otherI]].ID[:])
		},
	}
	for _, one := range s.splits {
		order.lists = append(order.lists, len(one.File.ByID))
	}
	if err := order.divideParts(ctx); err != nil {
		return err
	}
	s.byID = make([]uint32, order.countEntries())
	err := order.visitEntries(ctx, func(number, list, i int) {
		s.byID[number] = s.numbers.of[list][s.splits[list].File.ByID[i]]
	})
	if both, ok := asTwice(err); ok {
		file := s.splits[both.second.file].File
		return file.UnfitError(fmt.Sprintf("its chunk %d is live in another split too", file.ByID[both.second.row]))
	}
	return err
}

func (s *Set) numberClasses(ctx context.Context) (*merge, error) {
	byID := &merge{
		live: func(list, i int) bool { return s.runs[list].Dead == nil || !s.runs[list].Dead(i) },
		compare: func(list, i, other, otherI int) int {
			return bytes.Compare(s.runs[list].File.Rows[i].ID[:], s.runs[other].File.Rows[otherI].ID[:])
		},
	}
	for _, one := range s.runs {
		byID.lists = append(byID.lists, len(one.File.Rows))
	}
	if err := byID.divideParts(ctx); err != nil {
		return nil, err
	}
	s.places = newRowNumbers(len(s.runs), func(i int) int { return len(s.runs[i].File.Rows) })
	s.classes = make([]at, byID.countEntries())
	err := byID.visitEntries(ctx, func(number, list, i int) {
		s.classes[number] = at{uint32(list), uint32(i)}
		s.places.of[list][i] = uint32(number)
	})
	if both, ok := asTwice(err); ok {
		file := s.runs[both.second.file].File
		id := file.Rows[both.second.row].ID
		return nil, file.UnfitError("class " + id.String() + " is live in another run too")
	}
	return byID, err
}

func (s *Set) orderNames(ctx context.Context) error {
	order := &merge{
		live:    func(list, i int) bool { return s.places.of[list][s.runs[list].File.NameRow[i]] != None },
		compare: func(list, i, other, otherI int) int { return s.compareNames()(list, i, other, otherI) },
		beside:  s.compareNames,
	}
	for _, one := range s.runs {
		order.lists = append(order.lists, len(one.File.NameRow))
	}
	if err := order.divideParts(ctx); err != nil {
		return err
	}
	s.names, s.nameOf = make([]uint32, order.countEntries()), make([]uint32, order.countEntries())
	return order.visitEntries(ctx, func(number, list, i int) { // ids differ, so none is there twice
		place := s.places.of[list][s.runs[list].File.NameRow[i]]
		s.names[number], s.nameOf[place] = s.places.base[list]+uint32(i), uint32(number)
	})
}

// decoded is the last two names of a run that were compared: of neighbours, one is that of an even place.
type decoded struct {
	places [2]int // and one, so that 0 is none
	names  [2][]byte
}

func (d *decoded) name(file *classrun.File, place int) []byte {
	slot := place % 2
	if d.places[slot] != place+1 {
		d.names[slot] = file.AppendName(d.names[slot][:0], place)
		d.places[slot] = place + 1
	}
	return d.names[slot]
}

// compareNames gives what orders names of runs, and remembers the last of each.
func (s *Set) compareNames() func(list, i, other, otherI int) int {
	held := make([]decoded, len(s.runs))
	return func(list, i, other, otherI int) int {
		a, b := s.runs[list].File, s.runs[other].File
		if list == other && i != otherI && i%2 == otherI%2 { // they have one slot
			return classrun.CompareNames(a.AppendName(nil, i), a.NameID(i), b.AppendName(nil, otherI), b.NameID(otherI))
		}
		return classrun.CompareNames(held[list].name(a, i), a.NameID(i), held[other].name(b, otherI), b.NameID(otherI))
	}
}
