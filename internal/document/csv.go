package document

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unweaver/unweaver/internal/document/tables"
	"github.com/unweaver/unweaver/internal/fault"
)

// dialect is how the fields of a CSV are kept apart.
type dialect struct {
	comma  byte
	quote  byte
	blank  bool // blanks behind a delimiter are no part of a field
	escape bool // a backslash before a quote makes it a letter
}

// separator is a first line of which spreadsheets take the delimiter.
var separator = regexp.MustCompile(`^(?i:"?sep=([^"\pL\pN\n])"?)[\t ]*\r?(?:\n|$)`)

// sniffRecords of the head of a CSV decide its delimiter.
const sniffRecords = 200

// sniffDialect finds the delimiter and the quotes of a CSV in its head, and how much of it says so and is no record.
func sniffDialect(head []byte, object string, limits Limits) (best dialect, length int) {
	said := separator.FindSubmatch(head)
	if said != nil {
		length = len(said[0])
	}
	best = dialect{comma: ',', quote: quoteOf(head[length:])}
	if strings.Contains(strings.ToLower(object), ".tsv") {
		best.comma = '\t'
	}
	if said != nil && len(said[1]) == 1 {
		best.comma = said[1][0]
		return best.fitQuotes(head, limits), length
	}
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	most := 0.0
	for _, comma := range []byte{best.comma, '\t', ';', '|', ','} {
		if fit := fitOf(dialect{comma: comma, quote: best.quote}, head, limits); fit > most {
			most, best.comma = fit, comma
		}
	}
	if most == 0 && !bytes.ContainsAny(line, ",\t;|") {
		best.comma = noDelimiter
	}
	return best.fitQuotes(head, limits), 0
}

// noDelimiter is that of one column, whose texts may have all others.
const noDelimiter = 0x1f

// apostrophes stand around a field.
var apostrophes = regexp.MustCompile(`(?:^|[,;\t|] ?)'(?:[^']|'')*'(?:[,;\t|]|\r?$)`)

// quoteOf returns an apostrophe where the first line has a field between two, and no other quote. What rows hold does
// not count: the author of one would change how the others are read.
func quoteOf(head []byte) byte {
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	if bytes.IndexByte(line, '"') < 0 && apostrophes.Match(line) {
		return '\''
	}
	return '"'
}

// fitQuotes lets blanks before quotes be no part of fields, where there are such, and a backslash stand before a quote
// where less quotes stay open by that.
func (d dialect) fitQuotes(head []byte, limits Limits) dialect {
	d.blank = d.comma != '\t' && d.comma != ' ' && bytes.Contains(head, []byte{d.comma, ' ', d.quote})
	if bytes.Contains(head, []byte{'\\', d.quote}) {
		escaped := d
		escaped.escape = true
		d.escape = badQuotes(escaped.sampleRecords(head, limits)) < badQuotes(d.sampleRecords(head, limits))
	}
	return d
}

func badQuotes(sample []record) (count int) {
	for _, read := range sample {
		if read.torn || read.bare {
			count++
		}
	}
	return count
}

// sampleRecords cuts the first records from a head, without those that are blank.
func (d dialect) sampleRecords(head []byte, limits Limits) (out []record) {
	in := newRecords(bytes.NewReader(head), &d, limits)
	for len(out) < sniffRecords {
		read, err := in.next()
		if len(bytes.TrimSpace(read.raw)) > 0 {
			read.raw = bytes.Clone(read.raw)
			out = append(out, read)
		}
		if err != nil {
			break
		}
	}
	return out
}

// fitOf returns how well a delimiter cuts a head into records of one length; 0: it does not. That the first record has
// the length counts most. Between two that fit equally the one counts that less often stands in texts and numbers.
func fitOf(d dialect, head []byte, limits Limits) float64 {
	d = d.fitQuotes(head, limits)
	sample, lengths := d.sampleRecords(head, limits), map[int]int{}
	for _, read := range sample {
		lengths[read.cuts]++
	}
	usual := 0
	for length, times := range lengths {
		if length > 0 && (usual == 0 || cmp.Or(cmp.Compare(times, lengths[usual]), cmp.Compare(length, usual)) > 0) {
			usual = length
		}
	}
	if usual == 0 || lengths[usual] < lengths[0] {
		return 0
	}
	fit := float64(lengths[usual]) / float64(len(sample))
	switch sample[0].cuts {
	case usual:
		fit += 2
	case 0:
		fit /= 2
	}
	inText, all := 0, 0
	for i, c := range head {
		if c == d.comma && i > 0 && i+1 < len(head) {
			all++
			if head[i+1] == ' ' && !d.blank || c == ',' && isDigit(head[i-1]) && isDigit(head[i+1]) {
				inText++
			}
		}
	}
	return fit - float64(inText)/float64(all+1)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// csvReader reads the records of a CSV one by one: what the parser is given ends where the record ends.
type csvReader struct {
	in     *records
	one    bytes.Reader
	fields *csv.Reader
	object string
	limits Limits
	named  bool // the first record names the columns
	sample [][]string
}

func newCSVReader(r io.Reader, object string, limits Limits) *csvReader {
	c := &csvReader{in: newRecords(r, &dialect{}, limits), object: object, limits: limits}
	head, _ := c.in.reader.Peek(sniff) // what breaks here breaks again when it is read
	if end := bytes.LastIndexByte(head, '\n'); end >= 0 && len(head) >= sniff {
		head = head[:end+1]
	}
	said, length := sniffDialect(head, object, limits)
	if *c.in.dialect = said; length > 0 {
		_, _ = c.in.reader.Discard(length) // peeked above
		c.in.line = 1
	}
	c.fields = csv.NewReader(&c.one)
	c.fields.FieldsPerRecord, c.fields.LazyQuotes = -1, true
	c.fields.Comma, c.fields.TrimLeadingSpace = rune(said.comma), said.blank
	var rows [][]string
	for _, read := range said.sampleRecords(head[length:], limits) {
		fields, _ := c.read(read)
		if rows = append(rows, fields); rows[0] == nil {
			break
		}
	}
	c.named, c.sample = tables.NamesColumns(rows), rows
	c.fields.ReuseRecord = true
	return c
}

// read gives the fields of a record. Where bad is not nil some of it, or all, cannot be used.
func (c *csvReader) read(read record) (fields []string, bad error) {
	where := nameLine(c.object, read.line)
	switch {
	case read.long:
		return nil, overRow(c.object, read.line, c.limits)
	case int64(read.cuts)*fieldBytes > c.limits.Memory/2:
		return nil, OverMax(where, "memory", c.limits.Memory, "its fields take more than half the bytes")
	case read.torn: // the line is read as it stands
		fields = strings.Split(strings.TrimRight(string(read.raw), "\r\n"), string(rune(c.in.dialect.comma)))
		bad = fault.Unreadable.At("read", where).
			Because(errors.New("the line has an unclosed quote, so it is read as plain text")).
			Advise("close the quote; inside a quoted field, write it twice")
	default:
		var err error
		c.one.Reset(c.in.dialect.convertRecord(read.raw))
		if fields, err = c.fields.Read(); err != nil {
			return nil, fault.Unreadable.At("read", where).Because(err)
		}
		if c.in.dialect.quote != '"' {
			for i, field := range fields {
				fields[i] = swapQuotes.Replace(field)
			}
		}
	}
	for i, field := range fields {
		if strings.IndexByte(field, '\x1b') >= 0 { // DecodeTable leaves them
			fields[i] = ShownText(field)
		}
	}
	if len(fields) > tables.MostColumns {
		return nil, manyColumns(c.object, read.line, len(fields))
	}
	return fields, bad
}

// swapQuotes writes an apostrophe for a quote, and the other way round; unescape takes the backslash from a quote.
var (
	swapQuotes = strings.NewReplacer(`"`, `'`, `'`, `"`)
	unescape   = strings.NewReplacer(`\\`, `\`, `\"`, `""`)
)

// convertRecord returns a record in the dialect that the parser reads.
func (d dialect) convertRecord(raw []byte) []byte {
	if d.quote != '"' {
		raw = []byte(swapQuotes.Replace(string(raw)))
	}
	if d.escape {
		raw = []byte(unescape.Replace(string(raw)))
	}
	return raw
}

// csvRows reads the rows of a CSV. The first record names the columns, unless it is plainly a row itself.
func csvRows(r io.Reader, object string, limits Limits, f func(Row) error) error {
	source := &counting{reader: r}
	reader := newCSVReader(source, object, limits)
	var head []string
	if !reader.named {
		head = []string{}
	}
	lines := &table{sample: reader.sample, comma: reader.in.dialect.comma}
	made, broken := int64(0), false
	for {
		read, err := reader.in.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return WrapUnreadable("read", object, err)
		}
		ended := err != nil
		broken = broken || read.long || read.torn
		if read.long || len(bytes.Trim(read.raw, "\r\n")) > 0 {
			fields, bad := reader.read(read)
			if bad != nil {
				if head == nil && fields == nil {
					return bad // without names of columns no row can be read
				}
				if err := f(Row{Line: read.line, Err: bad}); err != nil {
					return err
				}
			}
			switch {
			case head == nil:
				head = trimNames(fields)
				lines.head = head
			case hasValue(fields):
				row := Row{Line: read.line, table: lines, cells: fields}
				if bad != nil || read.isDoubtful(broken, reader.in.dialect.quote) { // its columns may be others
					row.cells = nil
				}
				row.fillRow(recordOf(head, fields), nameLine(object, read.line), limits)
				// A long head stands in every row: few bytes could become very many.
				if made += int64(len(row.Canonical)); made > ratioFrom && made/limits.Ratio > source.bytes {
					return OverMax(nameLine(object, read.line), "ratio", limits.Ratio,
						"names of columns make its rows so much longer")
				}
				if err := f(row); err != nil {
					return err
				}
			}
		}
		if ended {
			return nil
		}
	}
}

// isDoubtful reports whether a record of several lines may be several records: it has a backslash before a quote, which
// one program writes for a letter and another before the end of a field, or the quotes of a record before it did not
// pair, or were not read to their end.
func (r record) isDoubtful(broken bool, quote byte) bool {
	end := bytes.IndexByte(r.raw, '\n')
	return end >= 0 && end+1 < len(r.raw) && (broken || bytes.Contains(r.raw, []byte{'\\', quote}))
}

func manyColumns(object string, line, columns int) error {
	return fault.TooLarge.At("read", nameLine(object, line)).
		Because(fmt.Sprintf("the row has %d columns, above %d, which is fixed", columns, tables.MostColumns)).
		Advise("check the quotes of the file, or remove columns that are not searched")
}

// fieldBytes is what a field takes beside its text.
const fieldBytes = 64

func trimNames(record []string) []string {
	head := make([]string, len(record))
	for i, name := range record {
		head[i] = strings.TrimSpace(strings.Clone(name))
	}
	return head
}

func hasValue(fields []string) bool {
	for _, field := range fields {
		if strings.TrimSpace(field) != "" {
			return true
		}
	}
	return false
}

// recordOf returns a row as an object of JSON, its columns in their order. What stands behind the last name has none.
func recordOf(head, fields []string) jsontext.Value {
	out := []byte{'{'}
	for i, value := range fields {
		name := ""
		if i < len(head) {
			name = head[i]
		}
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, name) // what is no UTF-8 is replaced
		out = append(out, ':')
		out, _ = jsontext.AppendQuote(out, value)
	}
	return append(out, '}')
}
