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
	csv     bool
	line    int // number of the last line that was read to its end
	buffer  []byte
	rewinds int
	broken  error // of the source, found while a long record was left out
}

func newRecords(reader io.Reader, kind Kind, limits Limits) *records {
	return &records{reader: bufio.NewReaderSize(reader, 1<<20), limit: limits.Row, csv: kind == CSV}
}

// next gives the next record with its line end, and the number of its first line; it is valid until the next call. An
// error of the source, io.EOF too, comes with what stood before it. Of a record that is too long, long is true and
// nothing is given.
func (r *records) next() (record []byte, start int, long bool, err error) {
	if r.broken != nil {
		return nil, r.line + 1, false, r.broken
	}
	r.buffer = r.buffer[:0]
	start = r.line + 1
	var quotes quoting
	for {
		part, err := r.reader.ReadSlice('\n')
		if int64(len(r.buffer)+len(part)) > r.limit {
			r.leaveOut(part, err, start, quotes)
			return nil, start, true, nil
		}
		r.buffer = append(r.buffer, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			quotes.read(part)
			continue
		case err != nil:
			return r.buffer, start, false, err
		}
		r.line++
		if !r.csv || quotes.read(part) {
			return r.buffer, start, false, nil
		}
	}
}

// maxRewinds bounds how often the lines of a record without an end are read once more.
const maxRewinds = 8

// leaveOut goes on behind a record that is too long: where a quote may have been left open, at the record's second
// line; else at the next line that has not been read.
func (r *records) leaveOut(part []byte, err error, start int, quotes quoting) {
	second := bytes.IndexByte(r.buffer, '\n') + 1
	if r.csv && second > 0 && quotes.open() && r.rewinds < maxRewinds {
		r.rewinds++
		again := bytes.Clone(r.buffer[second:])
		again = append(again, part...)
		rest := []io.Reader{bytes.NewReader(again), r.reader}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			rest[1] = failing{err}
		}
		r.reader = bufio.NewReaderSize(io.MultiReader(rest...), 1<<20)
		r.line = start
		return
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.reader.ReadSlice('\n')
	}
	if r.broken = err; err == nil {
		r.line++
	}
}

// failing is a source that breaks.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// quoting tells where a record of CSV ends, as encoding/csv with LazyQuotes does: a quote opens at the start of a field
// only, and one that no comma, line end or quote follows is a letter.
type quoting struct{ state quoted }

type quoted int

const (
	fieldStart   quoted = iota
	plain               // in a field that is not quoted
	inside              // a quoted field
	behindQuote         // a quote inside a quoted field was read
	behindReturn        // and a carriage return
)

// read takes the next bytes, and tells whether they ended the record.
func (q *quoting) read(raw []byte) bool {
	for _, c := range raw {
		if q.state == behindReturn && c != '\n' {
			q.state = inside
		}
		switch q.state {
		case fieldStart, plain:
			switch {
			case c == '\n':
				q.state = fieldStart
				return true
			case c == ',':
				q.state = fieldStart
			case c == '"' && q.state == fieldStart:
				q.state = inside
			default:
				q.state = plain
			}
		case inside:
			if c == '"' {
				q.state = behindQuote
			}
		case behindQuote, behindReturn:
			switch c {
			case '\n':
				q.state = fieldStart
				return true
			case ',':
				q.state = fieldStart
			case '\r':
				q.state = behindReturn
			default: // a quote twice is one, and any other letter leaves the field open
				q.state = inside
			}
		}
	}
	return false
}

// open tells that a quoted field has not ended.
func (q *quoting) open() bool { return q.state >= inside }
