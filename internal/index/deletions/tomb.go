// Package deletions writes and reads deletion bitmaps. A segment is never changed after it was written; its bitmap, a
// file of its own, marks the rows that are dead: rows that were removed from the corpus, and rows that a newer segment
// replaces. The rows of a split are its documents, each with all its chunks. The rows of a class run are its classes.
//
//	bits  u64 words, bit i%64 of word i/64 = row i is dead
//	head  u64 rows, u64 dead rows
//
// The metadata name the segment and the unit, so that a bitmap is refused beside another segment of the same size.
package deletions

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// Kind and Version of the file. Version 1 has bits and head.
const (
	Kind    = "tomb"
	Version = 1
)

// Units say what the rows of a segment are.
const (
	Documents = "documents" // of a split
	Classes   = "classes"   // rows of a class run
)

// Of names the segment that a bitmap belongs to. Open must be given the value that Write was given.
type Of struct {
	Segment string // digest of its content
	Unit    string // Documents or Classes
	Rows    int
}

// File is an open bitmap. Many goroutines may read it until it is closed.
type File struct {
	file  *mapped.File
	words []uint64
	rows  int
	count int
}

// Open maps a bitmap into memory, and checks that it belongs to the segment. Errors are those of mapped.Open, and
// fault.SegmentDamage where the bitmap does not fit the segment.
func Open(path string, of Of) (*File, error) {
	file, err := mapped.Open(path, Kind, Version)
	if err != nil {
		return nil, err
	}
	bitmap := &File{file: file, words: mapped.ViewSection[uint64](file, "bits"), rows: of.Rows}
	if why := bitmap.checkCount(of); why != "" {
		err := file.UnfitError(why)
		file.Close()
		return nil, err
	}
	return bitmap, nil
}

// checkCount reads the number of dead rows. It returns what does not fit the segment, or an empty text.
func (f *File) checkCount(of Of) string {
	if segment := f.file.Meta("segment"); segment != of.Segment {
		return "it is of segment " + strconv.Quote(segment) + ", not " + of.Segment
	}
	if unit := f.file.Meta("unit"); unit != of.Unit {
		return "its rows are " + strconv.Quote(unit) + ", not " + of.Unit
	}
	head := f.file.Bytes("head")
	if len(head) != 16 {
		return "its head is cut"
	}
	rows, dead := binary.LittleEndian.Uint64(head), binary.LittleEndian.Uint64(head[8:])
	if of.Rows < 0 || rows != uint64(of.Rows) {
		return fmt.Sprintf("it is of %d rows, the segment has %d", rows, of.Rows)
	}
	if len(f.file.Bytes("bits")) != wordsOf(f.rows)*8 {
		return "its bits do not fit its rows"
	}
	f.count = int(dead)
	return ""
}

func wordsOf(rows int) int { return (rows + 63) / 64 }

// Close unmaps it.
func (f *File) Close() { f.file.Close() }

// IsDead reports whether a row of the segment is dead.
func (f *File) IsDead(row int) bool { return f.words[row/64]>>(row%64)&1 == 1 }

// CountDead returns how many rows are dead.
func (f *File) CountDead() int { return f.count }

// CountRows returns how many rows the segment has, including the dead ones.
func (f *File) CountRows() int { return f.rows }

// Write writes a bitmap. It calls dead once for each row, in order. The same rows give the same bytes.
func Write(writer io.Writer, of Of, dead func(row int) bool) error {
	if of.Segment == "" || (of.Unit != Documents && of.Unit != Classes) {
		return fault.Internal.At("write the dead rows of", of.Segment).Because("unit " + strconv.Quote(of.Unit))
	}
	out := mapped.NewWriter(writer, Kind, Version, map[string]string{"segment": of.Segment, "unit": of.Unit})
	out.BeginSection("bits")
	words, count := make([]uint64, wordsOf(of.Rows)), uint64(0)
	for row := range of.Rows {
		if dead(row) {
			words[row/64] |= 1 << (row % 64)
			count++
		}
	}
	mapped.Put(out, words)
	out.BeginSection("head")
	mapped.Put(out, []uint64{uint64(of.Rows), count})
	return out.Close()
}

// Add writes the bitmap of a segment after more rows died. The dead rows are those of former (nil: none) and those of
// died, whose numbers increase; the two may overlap. It returns fault.Internal where died is not in order, names a row
// that the segment does not have, or former has another number of rows.
func Add(writer io.Writer, of Of, former *File, died []uint32) error {
	if former != nil && former.CountRows() != of.Rows {
		return fault.Internal.At("add to the dead rows of", of.Segment).
			Because(fmt.Sprintf("it has %d rows, the former bitmap %d", of.Rows, former.CountRows()))
	}
	if !slices.IsSorted(died) || (len(died) > 0 && int64(died[len(died)-1]) >= int64(of.Rows)) {
		return fault.Internal.At("add to the dead rows of", of.Segment).Because("rows out of order or range")
	}
	return Write(writer, of, func(row int) bool {
		hit := false
		for len(died) > 0 && int(died[0]) == row {
			hit, died = true, died[1:]
		}
		return hit || (former != nil && former.IsDead(row))
	})
}
