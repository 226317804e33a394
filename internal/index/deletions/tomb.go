// Package deletions is the bitmap of the rows of one segment that are dead: a segment is never changed, so what was
// removed from the corpus, or stands in a newer segment, is kept beside it. What a row is belongs to the segment:
// documents of a split (a document dies whole, with its chunks), class rows of a class run.
//
//	bits  u64 words, bit i%64 of word i/64 = row i is dead
//	head  u64 rows, u64 dead rows
//
// Metadata name the segment and the unit, so that the bitmap of one segment is not read beside another of equal size.
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

// Kind and Version of the file.
// 1: bits and head.
const (
	Kind    = "tomb"
	Version = 1
)

// MaxRows of a segment: its rows are numbered in 32 bits, with room to spare.
const MaxRows = 1 << 31

// Units that rows are counted in.
const (
	Documents = "documents" // of a split
	Classes   = "classes"   // rows of a class run
)

// Of says which segment a bitmap belongs to. What Open is given has to equal what Write was given.
type Of struct {
	Segment string // digest of its content
	Unit    string // Documents or Classes
	Rows    int
}

// File is an open bitmap. It may be read by many at once until it is closed.
type File struct {
	file  *mapped.File
	words []uint64
	rows  int
	count int
}

// Open maps a bitmap and checks that it is of this segment. Errors are those of mapped.Open; a bitmap that does not fit
// the segment is fault.SegmentDamage.
func Open(path string, of Of) (*File, error) {
	file, err := mapped.Open(path, Kind, Version)
	if err != nil {
		return nil, err
	}
	bitmap := &File{file: file, words: mapped.Slice[uint64](file, "bits"), rows: of.Rows}
	if why := bitmap.checkCount(of); why != "" {
		err := file.Unfit(why)
		file.Close()
		return nil, err
	}
	return bitmap, nil
}

// checkCount says what does not fit, if anything, and reads the count.
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

// Dead says of a row of the segment whether it is dead.
func (f *File) Dead(row int) bool { return f.words[row/64]>>(row%64)&1 == 1 }

// Count returns how many rows are dead.
func (f *File) Count() int { return f.count }

// Rows returns how many the segment has, dead ones and others.
func (f *File) Rows() int { return f.rows }

// Write writes a bitmap. dead is asked once for each row, in order. Equal rows are equal bytes.
func Write(writer io.Writer, of Of, dead func(row int) bool) error {
	if of.Segment == "" || (of.Unit != Documents && of.Unit != Classes) {
		return fault.Internal.At("write the dead rows of", of.Segment).Because("unit " + strconv.Quote(of.Unit))
	}
	if of.Rows < 0 || of.Rows > MaxRows {
		return fault.TooLarge.At("write the dead rows of", of.Segment).
			Because(fmt.Sprintf("it has %d rows, of %d that there may be", of.Rows, MaxRows))
	}
	out := mapped.NewWriter(writer, Kind, Version, map[string]string{"segment": of.Segment, "unit": of.Unit})
	out.Section("bits")
	const batch = 1 << 10 // words that are written at once
	words := make([]uint64, 0, batch)
	count := uint64(0)
	for from := 0; from < of.Rows; from += 64 {
		word := uint64(0)
		for row := from; row < min(from+64, of.Rows); row++ {
			if dead(row) {
				word |= 1 << (row % 64)
				count++
			}
		}
		if words = append(words, word); len(words) == batch {
			mapped.Put(out, words)
			words = words[:0]
		}
	}
	mapped.Put(out, words)
	out.Section("head")
	mapped.Put(out, []uint64{uint64(of.Rows), count})
	return out.Close()
}

// Add writes the bitmap of a segment of which more rows have died: former (nil = none were dead) and those of died,
// which increase. A row that was dead already stays so. Errors: fault.Internal where died does not increase, leaves
// the segment, or former is of another number of rows.
func Add(writer io.Writer, of Of, former *File, died []uint32) error {
	if former != nil && former.Rows() != of.Rows {
		return fault.Internal.At("add to the dead rows of", of.Segment).
			Because(fmt.Sprintf("it has %d rows, the former bitmap %d", of.Rows, former.Rows()))
	}
	if !slices.IsSorted(died) || (len(died) > 0 && int64(died[len(died)-1]) >= int64(of.Rows)) {
		return fault.Internal.At("add to the dead rows of", of.Segment).Because("rows out of order or range")
	}
	return Write(writer, of, func(row int) bool {
		hit := false
		for len(died) > 0 && int(died[0]) == row {
			hit, died = true, died[1:]
		}
		return hit || (former != nil && former.Dead(row))
	})
}
