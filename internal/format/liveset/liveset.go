// Package liveset numbers what is live in many splits and class runs together, as a build from nothing would number it
// in one live segment: documents in the order of keys, chunks in the order of documents and within them, classes in the
// order of ids, names in their order, and classes once more in the order of their first mentions. What is dead takes no
// number. The numbers are made when a generation is opened, side by side and into flat arrays, and stored nowhere; they
// hold about 12 bytes a chunk, 32 a class and 8 a mention in memory, besides 4 for each dead row.
package liveset

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"sort"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/format/classrun"
	"github.com/unweaver/unweaver/internal/format/graph"
	"github.com/unweaver/unweaver/internal/format/live"
	"github.com/unweaver/unweaver/internal/format/split"
	"github.com/unweaver/unweaver/internal/format/title"
	"github.com/unweaver/unweaver/internal/stream/par"
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
	numbers   rowNumbers // of the chunks of each split
	byID      []uint32   // numbers of chunks in the order of ids
	classes   []at       // in the order of ids
	places    rowNumbers // of the rows of each run
	names     []uint32   // place of the class of each name, in order
	nameOf    []uint32   // place of the name of each class
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
// are live twice, a live chunk mentions a class that is not live, or a live class has no live mention, or another first
// one than its row says.
func New(ctx context.Context, index string, splits []Split, runs []Run) (*Set, error) {
	s := &Set{splits: splits, runs: runs}
	chunks, classes := 0, 0
	for _, one := range splits {
		chunks += len(one.File.Chunks)
	}
	for _, one := range runs {
		classes += len(one.File.Rows)
	}
	if err := graph.Room(index, classes, chunks); err != nil {
		return nil, err
	}
	byID, err := s.number(ctx)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return s.join(ctx, byID) }, s.transpose, s.rank,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// number numbers documents and chunks beside classes and names. It gives the merge of classes: how their order is
// divided.
func (s *Set) number(ctx context.Context) (*merge, error) {
	var byID *merge
	sides := []func(context.Context) error{
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
	}
	err := par.Each(ctx, len(sides), len(sides), func(ctx context.Context, i int) error { return sides[i](ctx) })
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
	if err := byKey.divide(ctx); err != nil {
		return err
	}
	s.documents = make([]at, byKey.total())
	s.first = make([]uint32, byKey.total()+1)
	err := byKey.each(ctx, func(number, list, i int) {
		s.documents[number] = at{uint32(list), uint32(i)}
		s.first[number+1] = s.splits[list].File.Documents[i].Count
	})
	if both, ok := twice(err); ok {
		file := s.splits[both.second.file].File
		return file.Unfit(fmt.Sprintf("its document %d is live in another split too", both.second.row))
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
	s.document = make([]uint32, s.first[len(s.documents)])
	return stripes(ctx, len(s.documents), func(from, to int) {
		for i := from; i < to; i++ {
			where := s.documents[i]
			local := s.splits[where.file].File.Documents[where.row].Chunks
			for number := s.first[i]; number < s.first[i+1]; number++ {
				s.document[number] = uint32(i)
				s.numbers.of[where.file][local+number-s.first[i]] = number
			}
		}
	})
}

// stripes calls f for parts of [0, n) side by side.
func stripes(ctx context.Context, n int, f func(from, to int)) error {
	parts := max(1, min(4*runtime.GOMAXPROCS(0), n/partEntries))
	return par.Each(ctx, parts, runtime.GOMAXPROCS(0), func(_ context.Context, part int) error {
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
	if err := order.divide(ctx); err != nil {
		return err
	}
	s.byID = make([]uint32, order.total())
	err := order.each(ctx, func(number, list, i int) {
		s.byID[number] = s.numbers.of[list][s.splits[list].File.ByID[i]]
	})
	if both, ok := twice(err); ok {
		file := s.splits[both.second.file].File
		return file.Unfit(fmt.Sprintf("its chunk %d is live in another split too", file.ByID[both.second.row]))
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
	if err := byID.divide(ctx); err != nil {
		return nil, err
	}
	s.places = newRowNumbers(len(s.runs), func(i int) int { return len(s.runs[i].File.Rows) })
	s.classes = make([]at, byID.total())
	err := byID.each(ctx, func(number, list, i int) {
		s.classes[number] = at{uint32(list), uint32(i)}
		s.places.of[list][i] = uint32(number)
	})
	if both, ok := twice(err); ok {
		file := s.runs[both.second.file].File
		id := file.Rows[both.second.row].ID
		return nil, file.Unfit("class " + id.String() + " is live in another run too")
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
	if err := order.divide(ctx); err != nil {
		return err
	}
	s.names, s.nameOf = make([]uint32, order.total()), make([]uint32, order.total())
	return order.each(ctx, func(number, list, i int) { // ids differ, so none is there twice
		place := s.places.of[list][s.runs[list].File.NameRow[i]]
		s.names[number], s.nameOf[place] = place, uint32(number)
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

// Splits gives the splits, in the order in which they were given.
func (s *Set) Splits() []Split { return s.splits }

// Runs gives the class runs, in the order in which they were given.
func (s *Set) Runs() []Run { return s.runs }

// Rows tells which rows of one file are dead: chunks of a split, classes of a run.
type Rows struct {
	numbers []uint32
	dead    int
}

func newRows(numbers []uint32) Rows {
	rows := Rows{numbers: numbers}
	for _, number := range numbers {
		if number == None {
			rows.dead++
		}
	}
	return rows
}

// Dead tells of a row whether it is.
func (r Rows) Dead(row int) bool { return r.numbers[row] == None }

// Count is how many rows are dead.
func (r Rows) Count() int { return r.dead }

// Rows is how many there are, dead ones and others.
func (r Rows) Rows() int { return len(r.numbers) }

// Chunks tells which chunks of a split are dead.
func (s *Set) Chunks(split int) Rows { return newRows(s.numbers.of[split]) }

// Classes tells which rows of a run are dead.
func (s *Set) Classes(run int) Rows { return newRows(s.places.of[run]) }

// AllNumbers gives, of each chunk of the splits one after another, its number; None of a dead one.
func (s *Set) AllNumbers() []uint32 { return s.numbers.all }

// AllPlaces gives, of each row of the runs one after another, the place of its class; None of a dead one.
func (s *Set) AllPlaces() []uint32 { return s.places.all }

// ChunkRow is where a chunk lies among the rows of all splits together.
func (s *Set) ChunkRow(number uint32) uint32 {
	split, chunk := s.ChunkAt(number)
	return s.numbers.base[split] + uint32(chunk)
}

// ClassRow is where a class lies among the rows of all runs together.
func (s *Set) ClassRow(place uint32) uint32 {
	where := s.classes[place]
	return s.places.base[where.file] + where.row
}

// ChunkAt tells in which split a chunk lies, and where.
func (s *Set) ChunkAt(number uint32) (split, chunk int) {
	document := s.document[number]
	where := s.documents[document]
	local := s.splits[where.file].File.Documents[where.row].Chunks + number - s.first[document]
	return int(where.file), int(local)
}

// Filtered gives what filters look at: the metadata and the time of a document.
func (s *Set) Filtered(document int) (map[string]string, time.Time) {
	where := s.documents[document]
	return s.splits[where.file].File.Filtered(int(where.row))
}

// Titled tells whether all splits know which classes their documents' titles name.
func (s *Set) Titled() bool {
	for _, one := range s.splits {
		if len(one.File.Titles) < len(one.File.Documents) {
			return false
		}
	}
	return true
}

// Title tells which classes the title of a document names. It may be asked of a set that is Titled.
func (s *Set) Title(document int) title.Named {
	where := s.documents[document]
	return s.splits[where.file].File.Titles[where.row]
}

// Counts of documents, chunks and classes.
func (s *Set) Counts() (documents, chunks, classes int) {
	return len(s.documents), len(s.document), len(s.classes)
}

func (s *Set) keyBytes(document int) []byte {
	where := s.documents[document]
	return s.splits[where.file].File.KeyBytes(int(where.row))
}

// Key of a document.
func (s *Set) Key(document int) string { return string(s.keyBytes(document)) }

// DocumentAt is the document at a place of the order of keys.
func (s *Set) DocumentAt(document int) *live.Document {
	where := s.documents[document]
	of := s.splits[where.file]
	row := &of.File.Documents[where.row]
	return &live.Document{
		Part: of.Documents + row.Part, Frame: row.Frame, Chunks: s.first[document], Count: row.Count,
	}
}

// DocumentFrom is the place of the first document whose key is >= key.
func (s *Set) DocumentFrom(key string) int {
	return sort.Search(len(s.documents), func(i int) bool { return string(s.keyBytes(i)) >= key })
}

// Document is the place of the document of a key, or -1.
func (s *Set) Document(key string) int {
	if i := s.DocumentFrom(key); i < len(s.documents) && string(s.keyBytes(i)) == key {
		return i
	}
	return -1
}

// DocumentOf is the document of the chunk of a number.
func (s *Set) DocumentOf(number uint32) uint32 { return s.document[number] }

// ByNumber is the chunk at a place of chunk order; nil: there is none.
func (s *Set) ByNumber(number int) *live.Chunk {
	if number < 0 || number >= len(s.document) {
		return nil
	}
	split, local := s.ChunkAt(uint32(number))
	of := s.splits[split]
	chunk := &of.File.Chunks[local]
	return &live.Chunk{
		ID: chunk.ID, Digest: chunk.Digest, Number: uint32(number), Document: s.document[number],
		Ordinal: chunk.Ordinal, Start: chunk.Start, End: chunk.End, Tokens: chunk.Tokens,
		Text: of.Documents + chunk.Text, TextFrame: chunk.TextFrame,
		Extract: of.Extract + chunk.Extract, ExtFrame: chunk.ExtFrame, Windows: chunk.Windows,
	}
}

func (s *Set) chunkID(number uint32) *corpus.ID {
	split, local := s.ChunkAt(number)
	return &s.splits[split].File.Chunks[local].ID
}

// Chunk finds a chunk; nil when it is not live.
func (s *Set) Chunk(id corpus.ID) *live.Chunk {
	i := sort.Search(len(s.byID), func(i int) bool { return bytes.Compare(s.chunkID(s.byID[i])[:], id[:]) >= 0 })
	if i < len(s.byID) && *s.chunkID(s.byID[i]) == id {
		return s.ByNumber(int(s.byID[i]))
	}
	return nil
}

func (s *Set) row(place uint32) *classrun.Row {
	where := s.classes[place]
	return &s.runs[where.file].File.Rows[where.row]
}

// ClassAt is the class at a place of the order of ids.
func (s *Set) ClassAt(place uint32) *live.Class {
	row, chunks := s.row(place), s.Graph.ChunksOf(place)
	return &live.Class{
		ID: row.ID, Vector: row.Vector, Record: row.Record, FirstChunk: chunks[0], FirstPos: row.FirstPos,
		Chunks: uint32(len(chunks)), Name: s.nameOf[place],
	}
}

// ClassID is the id of the class at a place.
func (s *Set) ClassID(place uint32) corpus.ID { return s.row(place).ID }

// ClassPlace is the place of a class; -1 when it is not live.
func (s *Set) ClassPlace(id corpus.ID) int {
	i := sort.Search(len(s.classes), func(i int) bool { return bytes.Compare(s.row(uint32(i)).ID[:], id[:]) >= 0 })
	if i < len(s.classes) && s.row(uint32(i)).ID == id {
		return i
	}
	return -1
}

// Class finds a class; nil when it is not live.
func (s *Set) Class(id corpus.ID) *live.Class {
	if place := s.ClassPlace(id); place >= 0 {
		return s.ClassAt(uint32(place))
	}
	return nil
}

// Names is how many classes have a name: all of them.
func (s *Set) Names() int { return len(s.names) }

func (s *Set) appendName(buf []byte, place int) []byte {
	where := s.classes[s.names[place]]
	file := s.runs[where.file].File
	return file.AppendName(buf, int(file.RowName[where.row]))
}

// Name is the folded name at a place of the order of names.
func (s *Set) Name(place int) string { return string(s.appendName(nil, place)) }

// NamedFrom is the place of the first folded name >= prefix.
func (s *Set) NamedFrom(prefix string) int {
	var buf []byte
	return sort.Search(len(s.names), func(i int) bool {
		buf = s.appendName(buf[:0], i)
		return string(buf) >= prefix
	})
}

// ByName is the class at a place of the order of names.
func (s *Set) ByName(place int) *live.Class { return s.ClassAt(s.names[place]) }
