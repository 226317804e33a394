package liveset

import (
	"sort"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/title"
)

// Splits gives the splits, in the order in which they were given.
func (s *Set) Splits() []Split { return s.splits }

// Runs gives the class runs, in the order in which they were given.
func (s *Set) Runs() []Run { return s.runs }

// Rows says which rows of one file are dead: chunks of a split, classes of a run.
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

// IsDead says of a row whether it is.
func (r Rows) IsDead(row int) bool { return r.numbers[row] == None }

// CountDead returns how many rows are dead.
func (r Rows) CountDead() int { return r.dead }

// CountRows returns how many there are, dead ones and others.
func (r Rows) CountRows() int { return len(r.numbers) }

// ChunkRows says which chunks of a split are dead.
func (s *Set) ChunkRows(split int) Rows { return newRows(s.numbers.of[split]) }

// ClassRows says which rows of a run are dead.
func (s *Set) ClassRows(run int) Rows { return newRows(s.places.of[run]) }

// AllNumbers gives, of each chunk of the splits one after another, its number; None of a dead one.
func (s *Set) AllNumbers() []uint32 { return s.numbers.all }

// AllPlaces gives, of each row of the runs one after another, the place of its class; None of a dead one.
func (s *Set) AllPlaces() []uint32 { return s.places.all }

// ChunkRow returns where a chunk lies among the rows of all splits together. A walk asks that of every chunk that it
// comes to, and each look at a table elsewhere waits for memory: hence the one of its own.
func (s *Set) ChunkRow(number uint32) uint32 { return s.ahead[s.document[number]] + number }

// ClassRow returns where a class lies among the rows of all runs together.
func (s *Set) ClassRow(place uint32) uint32 {
	where := s.classes[place]
	return s.places.base[where.file] + where.row
}

// ChunkAt returns in which split a chunk lies, and where.
func (s *Set) ChunkAt(number uint32) (split, chunk int) {
	document := s.document[number]
	where := s.documents[document]
	local := s.splits[where.file].File.Documents[where.row].Chunks + number - s.first[document]
	return int(where.file), int(local)
}

// FilterFields gives what filters look at: the metadata and the time of a document.
func (s *Set) FilterFields(document int) (map[string]string, time.Time) {
	where := s.documents[document]
	return s.splits[where.file].File.FilterFields(int(where.row))
}

// MetaBytes returns the metadata of a document as JSON; they are valid while the files are open.
func (s *Set) MetaBytes(document int) []byte {
	where := s.documents[document]
	return s.splits[where.file].File.MetaBytes(int(where.row))
}

// Title says which classes the title of a document names.
func (s *Set) Title(document int) title.Named {
	where := s.documents[document]
	return s.splits[where.file].File.Titles[where.row]
}

// Counts returns the numbers of documents, chunks and classes.
func (s *Set) Counts() (documents, chunks, classes int) {
	return len(s.documents), len(s.document), len(s.classes)
}

func (s *Set) keyBytes(document int) []byte {
	where := s.documents[document]
	return s.splits[where.file].File.KeyBytes(int(where.row))
}

// Key returns the key of a document.
func (s *Set) Key(document int) string { return string(s.keyBytes(document)) }

// DocumentAt returns the document at a place of the order of keys.
func (s *Set) DocumentAt(document int) *Document {
	where := s.documents[document]
	of := s.splits[where.file]
	row := &of.File.Documents[where.row]
	return &Document{
		Part: of.Documents + row.Part, Frame: row.Frame, Chunks: s.first[document], Count: row.Count,
	}
}

// DocumentFrom returns the place of the first document whose key is >= key.
func (s *Set) DocumentFrom(key string) int {
	return sort.Search(len(s.documents), func(i int) bool { return string(s.keyBytes(i)) >= key })
}

// FindDocument returns the place of the document of a key, or -1.
func (s *Set) FindDocument(key string) int {
	if i := s.DocumentFrom(key); i < len(s.documents) && string(s.keyBytes(i)) == key {
		return i
	}
	return -1
}

// DocumentOf returns the document of the chunk of a number.
func (s *Set) DocumentOf(number uint32) uint32 { return s.document[number] }

// ByNumber returns the chunk at a place of chunk order; nil: there is none.
func (s *Set) ByNumber(number int) *Chunk {
	if number < 0 || number >= len(s.document) {
		return nil
	}
	split, local := s.ChunkAt(uint32(number))
	of := s.splits[split]
	chunk := &of.File.Chunks[local]
	return &Chunk{
		ID: chunk.ID, Digest: chunk.Digest, Number: uint32(number), Document: s.document[number],
		Ordinal: chunk.Ordinal, Start: chunk.Start, End: chunk.End, Tokens: chunk.Tokens,
		Text: of.Documents + chunk.Text, TextFrame: chunk.TextFrame,
		Extract: of.Extract + chunk.Extract, ExtFrame: chunk.ExtFrame, Windows: chunk.Windows,
	}
}

func (s *Set) chunkID(number uint32) *core.ID {
	split, local := s.ChunkAt(number)
	return &s.splits[split].File.Chunks[local].ID
}

// FindChunk finds a chunk; nil when it is not live.
func (s *Set) FindChunk(id core.ID) *Chunk {
	i := placeOf(&id, len(s.byID), func(i int) *core.ID { return s.chunkID(s.byID[i]) })
	if i < 0 {
		return nil
	}
	return s.ByNumber(int(s.byID[i]))
}

func (s *Set) rowAt(place uint32) *classrun.Row {
	where := s.classes[place]
	return &s.runs[where.file].File.Rows[where.row]
}

// TypeAt returns the type of the class at a place; empty: it has none.
func (s *Set) TypeAt(place uint32) string {
	where := s.classes[place]
	return s.runs[where.file].File.TypeOf(int(where.row))
}

// PlaceByName returns the place, in the order of ids, of the class at a place of the order of names.
func (s *Set) PlaceByName(place int) uint32 {
	run, name := s.nameAt(place)
	return s.places.of[run][s.runs[run].File.NameRow[name]]
}

// NameAt returns the place, in the order of names, of the class at a place of the order of ids.
func (s *Set) NameAt(place uint32) int { return int(s.nameOf[place]) }

// ClassAt returns the class at a place of the order of ids. Of the digest of its vector it has what the vector's key
// has: core.DigestPrefix, and zeros behind it.
func (s *Set) ClassAt(place uint32) *Class {
	row, chunks := s.rowAt(place), s.Graph.ChunksOf(place)
	class := &Class{
		ID: s.ClassID(place), Row: row.ID, Record: row.Record, FirstChunk: chunks[0], Chunks: uint32(len(chunks)),
		Name: s.nameOf[place],
	}
	copy(class.Vector[:], row.Vector[:])
	return class
}

// Mentions returns how often a class is mentioned.
func (s *Set) Mentions(place uint32) (mentions int64) {
	for _, where := range s.rowsOf(place) {
		mentions += s.mentionsOf(s.runs[where.file].File.Rows[where.row].ID)
	}
	return mentions
}

func (s *Set) mentionsOf(id core.ID) (mentions int64) {
	for i, one := range s.splits {
		class := one.File.ClassFrom(id)
		if class < len(one.File.ClassIDs) && one.File.ClassIDs[class] == id {
			numbers := s.numbers.of[i]
			mentions += one.File.MentionsOf(class, func(chunk uint32) bool { return numbers[chunk] != None })
		}
	}
	return mentions
}

// ClassID returns the id of the class at a place.
func (s *Set) ClassID(place uint32) core.ID { return *s.classID(int(place)) }

func (s *Set) classID(place int) *core.ID {
	if s.joined != nil {
		return &s.joined.ids[place]
	}
	return &s.rowAt(uint32(place)).ID
}

// ClassPlace returns the place of a class; -1 when it is not live.
func (s *Set) ClassPlace(id core.ID) int {
	return placeOf(&id, len(s.classes), s.classID)
}

// FindClass finds a class; nil when it is not live.
func (s *Set) FindClass(id core.ID) *Class {
	if place := s.ClassPlace(id); place >= 0 {
		return s.ClassAt(uint32(place))
	}
	return nil
}

// Names returns how many classes have a name: all of them.
func (s *Set) Names() int { return len(s.names) }

func (s *Set) appendName(buf []byte, place int) []byte {
	run, name := s.nameAt(place)
	return s.runs[run].File.AppendName(buf, name)
}

// nameAt returns in which run a name of the order lies, and where among that run's names: of which each row has one.
func (s *Set) nameAt(place int) (run, name int) { return s.findName(s.names[place]) }

// findName returns in which run a name lies, and where among that run's names.
func (s *Set) findName(at uint32) (run, name int) {
	run = sort.Search(len(s.runs)-1, func(i int) bool { return s.places.base[i+1] > at })
	return run, int(at - s.places.base[run])
}

// Name returns the folded name at a place of the order of names.
func (s *Set) Name(place int) string { return string(s.appendName(nil, place)) }

// NamedFrom returns the place of the first folded name >= prefix.
func (s *Set) NamedFrom(prefix string) int {
	var buf []byte
	return sort.Search(len(s.names), func(i int) bool {
		buf = s.appendName(buf[:0], i)
		return string(buf) >= prefix
	})
}

// ByName returns the class at a place of the order of names.
func (s *Set) ByName(place int) *Class { return s.ClassAt(s.PlaceByName(place)) }
