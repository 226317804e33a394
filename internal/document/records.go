package document

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// records cuts a stream into lines, or into records of CSV. It holds one at a time, of at most limit bytes.
type records struct {
	reader  *bufio.Reader
	limit   int64
	dialect *dialect // nil: lines
	line    int      // number of the last line that was read to its end
	buffer  []byte
	rest    []byte // what is read again, before the reader goes on
	at      int    // so much of rest has been read
	total   int64  // bytes that the reader gave
	again   int64  // bytes that were read again
	broken  error  // of the reader
}

// record is what next gives. It is valid until the next call.
type record struct {
	raw  []byte // with its line end; empty of a long one
	line int    // number of its first line
	long bool   // it has more bytes than the limit
	torn bool   // a quote is opened in its first line, which is all that is given, and not closed as it should be
	bare bool   // a quote in one of its quoted fields was a letter
	cuts int    // delimiters in it
}

func newRecords(reader io.Reader, dialect *dialect, limits Limits) *records {
	return &records{reader: bufio.NewReaderSize(reader, sniff), limit: limits.Row, dialect: dialect}
}

// next gives the next record. An error of the source, io.EOF too, comes with what stood before it.
func (r *records) next() (record, error) {
	out := record{line: r.line + 1}
	r.buffer = r.buffer[:0]
	quotes := quoting{dialect: r.dialect}
	for {
		part, err := r.readSlice()
		if int64(len(r.buffer)+len(part)) > r.limit {
			if out.torn = quotes.isOpen() && r.tearRecord(part, &out); !out.torn {
				r.leaveOut(err)
				out.long = true
			}
			return out, nil
		}
		r.buffer = append(r.buffer, part...)
		ended := quotes.read(part)
		out.raw, out.cuts, out.bare = r.buffer, quotes.cuts, quotes.bare
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil {
			r.line++
		}
		several := !ended || out.line < r.line
		if quotes.bare && several || errors.Is(err, io.EOF) && quotes.state == inQuotes {
			if out.torn = true; r.tearRecord(nil, &out) {
				return out, nil
			}
		}
		if ended || err != nil {
			return out, err
		}
	}
}

// readSlice gives the next line with its end, or a part of it that is none with bufio.ErrBufferFull.
func (r *records) readSlice() (part []byte, err error) {
	if part = r.rest[r.at:]; len(part) > 0 {
		if end := bytes.IndexByte(part, '\n') + 1; end > 0 {
			part = part[:end]
		} else {
			err = bufio.ErrBufferFull
		}
		r.at += len(part)
		return part, err
	}
	r.rest, r.at = nil, 0
	if r.broken != nil {
		return nil, r.broken
	}
	part, err = r.reader.ReadSlice('\n')
	if r.total += int64(len(part)); err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		r.broken = err
	}
	return part, err
}

// maxAgain bounds what is read again, in records of the greatest length, beside as much as was read once.
const maxAgain = 8

// tearRecord ends a record of several lines behind its first one, so that those behind it are read again, and reports
// whether it did. part follows what is held.
func (r *records) tearRecord(part []byte, out *record) bool {
	first := bytes.IndexByte(r.buffer, '\n') + 1
	back := len(r.buffer) - first + len(part)
	if r.dialect == nil || first == 0 || r.again > maxAgain*r.limit+r.total {
		return false
	}
	if r.again += int64(back); back <= r.at {
		r.at -= back
	} else { // the reader gave the last of it
		r.rest, r.at = append(bytes.Clone(r.buffer[first:]), part...), 0
	}
	out.raw, r.line = r.buffer[:first], out.line
	return true
}

// leaveOut goes on at the next line that has not been read.
func (r *records) leaveOut(err error) {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.readSlice()
	}
	if err == nil {
		r.line++
	}
}

// quoting finds where a record of CSV ends, as encoding/csv with LazyQuotes does: a quote opens at the start of a field
// only, and one that no delimiter, line end or quote follows is a letter. Without a dialect each line is a record.
type quoting struct {
	*dialect
	state quoted
	cuts  int
	bare  bool // a quote in a quoted field was a letter
	// letter says that a backslash came, which makes the next byte one.
	letter bool
}

type quoted int

const (
	fieldStart   quoted = iota
	plain               // in a field that is not quoted
	inQuotes            // a quoted field
	behindQuote         // a quote inside a quoted field was read
	behindReturn        // and a carriage return
)

// read takes the next bytes, and reports whether they ended the record.
func (q *quoting) read(raw []byte) bool {
	if q.dialect == nil {
		return bytes.HasSuffix(raw, []byte{'\n'})
	}
	for _, c := range raw {
		if q.state == behindReturn && c != '\n' {
			q.state, q.bare = inQuotes, true
		}
		switch {
		case c == '\n' && q.state != inQuotes:
			q.state = fieldStart
			return true
		case c == q.comma && q.state != inQuotes:
			q.state = fieldStart
			q.cuts++
		case q.state == fieldStart && c == ' ' && q.blank:
		case q.state == fieldStart && c == q.quote:
			q.state = inQuotes
		case q.state <= plain:
			q.state = plain
		case q.state == inQuotes && q.letter:
			q.letter = false
		case q.state == inQuotes:
			if q.letter = q.escape && c == '\\'; c == q.quote {
				q.state = behindQuote
			}
		case c == '\r':
			q.state = behindReturn
		default: // a quote twice is one, and any other letter leaves the field open
			q.state, q.bare = inQuotes, q.bare || c != q.quote
		}
	}
	return false
}

// isOpen reports that a quoted field has not ended.
func (q *quoting) isOpen() bool { return q.state >= inQuotes }
