package liveset

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/classrun"
)

// joined are the rows of classes that have more than one: what the documents of each set of labels say of a name.
type joined struct {
	ids     []core.ID // of classes, in order: core.ClassID of the name
	rows    []at      // all of them, in the order of their ids
	classOf []uint32  // place of the class of each row
	starts  []uint32  // first of each class in members, and the end
	members []uint32  // places in rows, by class
	types   []string  // of the rows, sorted
}

// Restrict numbers what somebody sees who may read documents of some sets of labels alone, as if there were no others.
// All rows of a name are one class: its chunks are those of all of them, and it is called as the row with the most
// chunks says. Errors are those of New, and fault.SegmentDamage where a row has mentions in documents that may be read
// and in others.
func (s *Set) Restrict(ctx context.Context, index string, may func(core.LabelSet) bool) (*Set, error) {
	splits, runs := slices.Clone(s.splits), slices.Clone(s.runs)
	visible := make([][]bool, len(splits))
	for i, one := range splits {
		visible[i] = append(visible[i], may(core.Everybody))
		for _, set := range one.File.LabelSets() {
			visible[i] = append(visible[i], may(set))
		}
		splits[i].Dead = func(document int) bool {
			return one.Dead != nil && one.Dead(document) || !visible[i][one.File.Documents[document].Label]
		}
	}
	shown, err := s.showClasses(visible)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		places := s.places.of[i]
		runs[i].Dead = func(row int) bool { return places[row] == None || !shown[places[row]] }
	}
	return newSet(ctx, index, splits, runs, true)
}

// showClasses reports of each class whether documents that may be read mention it. visible says so of the labels of
// each split.
func (s *Set) showClasses(visible [][]bool) ([]bool, error) {
	shown := make([]bool, len(s.classes))
	for place := range shown {
		for i, chunk := range s.Graph.ChunksOf(uint32(place)) {
			where := s.documents[s.document[chunk]]
			one := visible[where.file][s.splits[where.file].File.Documents[where.row].Label]
			if i > 0 && one != shown[place] {
				row := s.classes[place]
				return nil, s.runs[row.file].File.UnfitError("class " + s.ClassID(uint32(place)).String() +
					" joins documents with different labels")
			}
			shown[place] = one
		}
	}
	return shown, nil
}

// joinNames makes one class of the rows of each name. Numbers of classes are those of names from then on.
func (s *Set) joinNames(ctx context.Context) error {
	j := &joined{rows: s.classes, classOf: make([]uint32, len(s.classes)), members: make([]uint32, len(s.classes))}
	named := make([]core.ID, len(j.rows))
	if err := runStripes(ctx, len(named), func(from, to int) {
		for row := from; row < to; row++ {
			named[row] = core.ClassID(s.Name(int(s.nameOf[row])))
		}
	}); err != nil {
		return err
	}
	for row := range j.members {
		j.members[row] = uint32(row)
	}
	slices.SortFunc(j.members, func(a, b uint32) int {
		return cmp.Or(bytes.Compare(named[a][:], named[b][:]), cmp.Compare(a, b))
	})
	for i, row := range j.members {
		if i == 0 || named[row] != j.ids[len(j.ids)-1] {
			j.ids, j.starts = append(j.ids, named[row]), append(j.starts, uint32(i))
		}
		j.classOf[row] = uint32(len(j.ids) - 1)
	}
	j.starts = append(j.starts, uint32(len(j.members)))
	s.joinChunks(j)
	s.listTypes(j)
	s.joined = j
	return nil
}

// rowsAt returns the rows of the class at a place, as places in rows.
func (j *joined) rowsAt(place int) []uint32 { return j.members[j.starts[place]:j.starts[place+1]] }

// joinChunks gives each class the chunks of its rows, and the name of the row that has the most.
func (s *Set) joinChunks(j *joined) {
	rows, firstAt := s.Graph, s.firstAt
	s.Graph.ClassOff = make([]uint64, 1, len(j.ids)+1)
	s.Graph.ClassTo = make([]uint32, 0, len(rows.ClassTo))
	s.classes, s.firstAt = make([]at, len(j.ids)), make([]uint16, len(j.ids))
	leads := make([]bool, len(j.rows)) // it names its class
	for place := range j.ids {
		start := len(s.Graph.ClassTo)
		lead, first := j.rowsAt(place)[0], j.rowsAt(place)[0]
		for _, row := range j.rowsAt(place) {
			chunks := rows.ChunksOf(row)
			s.Graph.ClassTo = append(s.Graph.ClassTo, chunks...)
			if len(chunks) > len(rows.ChunksOf(lead)) {
				lead = row
			}
			if chunks[0] < rows.ChunksOf(first)[0] {
				first = row
			}
		}
		slices.Sort(s.Graph.ClassTo[start:])
		s.Graph.ClassOff = append(s.Graph.ClassOff, uint64(len(s.Graph.ClassTo)))
		s.classes[place], s.firstAt[place], leads[lead] = j.rows[lead], firstAt[first], true
	}
	names := s.names
	s.names, s.nameOf = nil, make([]uint32, len(j.ids))
	for _, name := range names {
		run, local := s.findName(name)
		if row := s.places.of[run][s.runs[run].File.NameRow[local]]; leads[row] {
			s.nameOf[j.classOf[row]] = uint32(len(s.names))
			s.names = append(s.names, name)
		}
	}
	for row, place := range s.places.all {
		if place != None {
			s.places.all[row] = j.classOf[place]
		}
	}
}

func (s *Set) listTypes(j *joined) {
	known := map[string]bool{}
	for _, where := range j.rows {
		if of := s.runs[where.file].File.TypeOf(int(where.row)); of != "" && !known[of] {
			known[of] = true
			j.types = append(j.types, of)
		}
	}
	slices.Sort(j.types)
}

// rowsOf returns where the rows of a class lie.
func (s *Set) rowsOf(place uint32) []at {
	if s.joined == nil {
		return s.classes[place : place+1]
	}
	rows := s.joined.rowsAt(int(place))
	out := make([]at, len(rows))
	for i, row := range rows {
		out[i] = s.joined.rows[row]
	}
	return out
}

// IsJoined reports whether a class may have several rows.
func (s *Set) IsJoined() bool { return s.joined != nil }

// Types returns the types of entities that its runs have.
func (s *Set) Types() (types []string) {
	if s.joined != nil {
		return slices.Clone(s.joined.types)
	}
	for _, run := range s.runs {
		types = append(types, run.File.Meta.Types...)
	}
	return types
}

// CountRows returns how many rows a class has.
func (s *Set) CountRows(place uint32) int {
	if s.joined == nil {
		return 1
	}
	return len(s.joined.rowsAt(int(place)))
}

// ClassRowAt returns where a row of a class lies among the rows of all runs together, by its place among the class's.
func (s *Set) ClassRowAt(place uint32, row int) uint32 {
	if s.joined == nil {
		return s.ClassRow(place)
	}
	where := s.joined.rows[s.joined.rowsAt(int(place))[row]]
	return s.places.base[where.file] + where.row
}

// RowsOfClass returns a class once for each of its rows, in the order of their ids: Row, Record and Vector are those of
// the row, the rest is that of the class.
func (s *Set) RowsOfClass(place uint32) []*Class {
	rows := s.rowsOf(place)
	out := make([]*Class, len(rows))
	for i, where := range rows {
		row := &s.runs[where.file].File.Rows[where.row]
		out[i] = s.ClassAt(place)
		out[i].Row, out[i].Record = row.ID, row.Record
		copy(out[i].Vector[:], row.Vector[:])
	}
	return out
}

// FindVector returns the place of the class of the row of an id, and the digest of the row's vector as ClassAt has it;
// -1 when it is not live.
func (s *Set) FindVector(id core.ID) (place int, vector core.Digest) {
	row := (*classrun.Row)(nil)
	if s.joined == nil {
		if place = s.ClassPlace(id); place < 0 {
			return -1, vector
		}
		row = s.rowAt(uint32(place))
	} else {
		at := func(i int) *classrun.Row {
			where := s.joined.rows[i]
			return &s.runs[where.file].File.Rows[where.row]
		}
		found := placeOf(&id, len(s.joined.rows), func(i int) *core.ID { return &at(i).ID })
		if found < 0 {
			return -1, vector
		}
		place, row = int(s.joined.classOf[found]), at(found)
	}
	copy(vector[:], row.Vector[:])
	return place, vector
}

// SumChunks returns the tokens and the windows of all chunks together.
func (s *Set) SumChunks() (tokens, windows int64) {
	for i, one := range s.splits {
		for local, number := range s.numbers.of[i] {
			if number != None {
				tokens += int64(one.File.Chunks[local].Tokens)
				windows += int64(one.File.Chunks[local].Windows)
			}
		}
	}
	return tokens, windows
}

// LabelSets returns the different sets of labels that live documents have, sorted.
func (s *Set) LabelSets() []core.LabelSet {
	known := map[core.LabelSet]bool{}
	for _, where := range s.documents {
		known[s.splits[where.file].File.LabelsOf(int(where.row))] = true
	}
	out := make([]core.LabelSet, 0, len(known))
	for set := range known {
		out = append(out, set)
	}
	slices.Sort(out)
	return out
}
