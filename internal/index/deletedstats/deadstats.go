// Package deletedstats writes and reads the term statistics of deleted rows: how many documents were deleted, how many
// terms they have, and for each term how many of them hold it. A search subtracts them from the sums over all segments,
// and so has the statistics of the live rows. All numbers are integers, so that the difference is exact.
//
//	terms  bytes of all terms in order    term_end  u64 end of each term
//	df     u64 of each term: dead documents that hold it
//	head   u64 dead documents, u64 their terms together
package deletedstats

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/stream/merge"
)

// Kind and Version of the file.
// 1: terms, frequencies and head.
const (
	Kind    = "deadstats"
	Version = 1
)

// Of says which side it counts, and which analyser cut the words of it.
type Of struct {
	Side     string
	Analyser string // empty, to Open: any, for who looks up no word
}

// File is an open table. It may be read by many at once until it is closed.
type File struct {
	file        *mapped.File
	terms       mapped.Strings
	frequencies []uint64
	totals      postings.Totals
}

// Open maps a table and checks that it is of this side. Errors are those of
// mapped.Open; one of another side is fault.SegmentDamage, of another analyser fault.FormatUnknown.
func Open(path string, of Of) (*File, error) {
	file, err := mapped.Open(path, Kind, Version)
	if err != nil {
		return nil, err
	}
	table := &File{
		file:        file,
		terms:       mapped.StringsOf(file, "terms", "term_end"),
		frequencies: mapped.ViewSection[uint64](file, "df"),
	}
	if analyser := file.Meta("analyser"); of.Analyser != "" && analyser != of.Analyser {
		file.Close()
		return nil, fault.FormatUnknown.At("open segment", path).
			Because("its words were cut by analyser " + strconv.Quote(analyser) + ", the segments' by " + of.Analyser).
			Advise("build the index again with: unweaver index, or use the program version that built it")
	}
	if why := table.checkTotals(of); why != "" {
		err := file.UnfitError(why)
		file.Close()
		return nil, err
	}
	return table, nil
}

// checkTotals says what does not fit, if anything, and reads the totals.
func (f *File) checkTotals(of Of) string {
	if side := f.file.Meta("side"); side != of.Side {
		return "it is of side " + strconv.Quote(side) + ", not " + of.Side
	}
	head := f.file.Bytes("head")
	if len(head) != 16 {
		return "its head is cut"
	}
	f.totals = postings.Totals{Documents: binary.LittleEndian.Uint64(head), Terms: binary.LittleEndian.Uint64(head[8:])}
	if f.terms.Len() != len(f.frequencies) {
		return "its sections are of different lengths"
	}
	return ""
}

// Close unmaps it.
func (f *File) Close() { f.file.Close() }

// Totals returns the totals of the dead documents.
func (f *File) Totals() postings.Totals { return f.totals }

// Frequency returns how many dead documents hold a term.
func (f *File) Frequency(term string) uint64 {
	if i := f.terms.Find(term); i >= 0 {
		return f.frequencies[i]
	}
	return 0
}

// Terms returns how many there are.
func (f *File) Terms() int { return f.terms.Len() }

// All yields the terms in order.
func (f *File) All() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for i, df := range f.frequencies {
			if !yield(Entry{f.terms.At(i), int64(df)}, nil) {
				return
			}
		}
	}
}

// Entry is a term and how many documents hold it; in a change, how many more, or fewer, than before.
type Entry struct {
	Term      string
	Documents int64
}

// Change is by how much the dead became more, or fewer: documents that died, less those that merging segments left out.
type Change struct {
	Documents, Terms int64
	Entries          iter.Seq2[Entry, error] // by increasing term, each once
}

// Count counts the dead rows of a side, or all where dead is nil: of a side that holds only rows that died. Its entries
// follow the side's terms and are counted while they are read, so nothing is held.
func Count(side *postings.Side, dead func(row int) bool) Change {
	change := Change{}
	for row, length := range side.Lengths {
		if dead == nil || dead(row) {
			change.Documents++
			change.Terms += int64(length)
		}
	}
	change.Entries = func(yield func(Entry, error) bool) {
		var cursor postings.Cursor
		for term, list := range side.Lists() {
			df := int64(0)
			cursor.Reset(list)
			for block := range list.Blocks() {
				cursor.Load(block)
				for _, doc := range cursor.Docs {
					if dead == nil || dead(int(doc)) {
						df++
					}
				}
			}
			if df > 0 && !yield(Entry{term, df}, nil) {
				return
			}
		}
	}
	return change
}

// NegateChange takes away what a change adds.
func NegateChange(change Change) Change {
	return Change{-change.Documents, -change.Terms, func(yield func(Entry, error) bool) {
		for entry, err := range change.Entries {
			entry.Documents = -entry.Documents
			if !yield(entry, err) {
				return
			}
		}
	}}
}

// Write writes the table of former (nil = nothing was dead) and changes, joined term by term; each is read once, and
// memory grows with none. A term that no dead document holds any more is left out. Equal counts are equal bytes,
// whatever changes they were made of. Errors: those of the entries, and fault.Internal for entries that do not
// increase, or counts that fall below 0.
func Write(writer io.Writer, of Of, former *File, changes ...Change) error {
	totals := Change{}
	if former != nil {
		changes = append([]Change{former.changeOf()}, changes...)
	}
	var streams []iter.Seq2[Entry, error]
	for _, change := range changes {
		totals.Documents += change.Documents
		totals.Terms += change.Terms
		streams = append(streams, change.Entries)
	}
	if totals.Documents < 0 || totals.Terms < 0 {
		return newCountError(of, fmt.Sprintf("%d documents of %d terms are dead", totals.Documents, totals.Terms))
	}
	var cols columns
	defer cols.close()
	left := totals.Terms
	for entry, err := range joinStreams(of, streams) {
		if err != nil {
			return err
		}
		if entry.Documents < 0 || entry.Documents > min(totals.Documents, left) {
			return newCountError(of, fmt.Sprintf("a term is in %d of %d documents", entry.Documents, totals.Documents))
		}
		left -= entry.Documents
		if err := cols.putEntry(entry); err != nil {
			return err
		}
	}
	out := mapped.NewWriter(writer, Kind, Version, map[string]string{"side": of.Side, "analyser": of.Analyser})
	for _, section := range []struct {
		name   string
		column *mapped.Column
	}{{"terms", &cols.terms}, {"term_end", &cols.ends}, {"df", &cols.frequencies}} {
		out.BeginSection(section.name)
		if err := section.column.CopyTo(out); err != nil {
			return err
		}
	}
	out.BeginSection("head")
	mapped.Put(out, []uint64{uint64(totals.Documents), uint64(totals.Terms)})
	return out.Close()
}

func (f *File) changeOf() Change {
	return Change{int64(f.totals.Documents), int64(f.totals.Terms), f.All()}
}

func newCountError(of Of, why string) error {
	return fault.Internal.At("count the dead of", of.Side).Because(why).
		Advise("this is a fault of the program: report it with this text")
}

// columns are the sections in the making.
type columns struct {
	terms, ends, frequencies mapped.Column
	end                      uint64
}

func (c *columns) putEntry(entry Entry) error {
	if entry.Documents == 0 {
		return nil
	}
	c.end += uint64(len(entry.Term))
	return errors.Join(
		c.terms.Put([]byte(entry.Term)),
		mapped.PutRecord(&c.ends, c.end),
		mapped.PutRecord(&c.frequencies, uint64(entry.Documents)),
	)
}

func (c *columns) close() {
	c.terms.Close()
	c.ends.Close()
	c.frequencies.Close()
}

// joinStreams sums streams term by term.
func joinStreams(of Of, streams []iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	for i, stream := range streams {
		streams[i] = checkOrder(of, stream)
	}
	byTerm := func(a, b Entry) int { return strings.Compare(a.Term, b.Term) }
	return func(yield func(Entry, error) bool) {
		var sum Entry
		held := false
		for entry, err := range merge.MergeStreams(context.Background(), byTerm, streams...) {
			switch {
			case err != nil:
				yield(Entry{}, err)
				return
			case held && entry.Term == sum.Term:
				sum.Documents += entry.Documents
				continue
			case held && !yield(sum, nil):
				return
			}
			sum, held = entry, true
		}
		if held {
			yield(sum, nil)
		}
	}
}

// checkOrder refuses a stream whose terms do not increase.
func checkOrder(of Of, stream iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		before, begun := "", false
		for entry, err := range stream {
			if err == nil && begun && entry.Term <= before {
				err = newCountError(of, "terms are out of order")
			}
			before, begun = entry.Term, true
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}
