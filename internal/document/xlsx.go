package document

import (
	"encoding/xml"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

const bookPart = "xl/workbook.xml"

// parseXLSX reads sheets in the order of the workbook: each under its name as heading, its rows as those of a table.
// Hidden sheets are read too: somebody's formulas show what is on them.
func parseXLSX(raw []byte, object string, limits Limits) (Doc, error) {
	parts, err := openParts(raw, XLSX, object, limits)
	if err != nil {
		return Doc{}, err
	}
	book := bookReader{parts: parts, dates: map[int]bool{}}
	if err := book.read(); err != nil {
		return Doc{}, parts.bad(err)
	}
	if book.cells == 0 {
		return Doc{}, parts.bad(errors.New("it has no sheet with a value"))
	}
	title, err := parts.title()
	if err != nil {
		return Doc{}, parts.bad(err)
	}
	return Doc{Title: title, Text: strings.NewReader(strings.TrimSpace(book.out.String()))}, nil
}

// bookReader reads a workbook.
type bookReader struct {
	parts  *parts
	shared []string     // texts that cells name by number
	dates  map[int]bool // styles of cells whose numbers are moments
	since  time.Time    // day 0
	out    strings.Builder
	cells  int64

	row   []string
	held  int // bytes of the row: cells share their texts
	style int
	kind  string // of the cell
	at    int    // its column
	value strings.Builder
	in    bool // inside of a value or a text
}

// sheet is a sheet's name and part.
type sheet struct{ name, part string }

func (b *bookReader) read() error {
	sheets, err := b.sheets()
	if err != nil {
		return err
	}
	if err := b.readShared(); err != nil {
		return err
	}
	if err := b.readStyles(); err != nil {
		return err
	}
	for _, sheet := range sheets {
		before := b.cells
		b.out.WriteString("# " + strings.Join(strings.Fields(sheet.name), " ") + "\n\n")
		if err := b.parts.tokens(sheet.part, b.token); err != nil {
			return err
		}
		if b.cells > before {
			b.out.WriteByte('\n')
		}
	}
	return nil
}

func (b *bookReader) sheets() ([]sheet, error) {
	related, err := b.parts.relations(bookPart)
	if err != nil {
		return nil, err
	}
	targets := map[string]string{}
	for _, relation := range related {
		if relation.kind == "worksheet" {
			targets[relation.id] = relation.target
		}
	}
	// Day 60 is the 29 February 1900, which never was: numbers of dates are right from the next day on.
	b.since = time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	var out []sheet
	seen := map[string]bool{}
	err = b.parts.tokens(bookPart, func(token xml.Token, _ int) error {
		start, ok := token.(xml.StartElement)
		switch {
		case ok && start.Name.Local == "workbookPr" && (attribute(start, "date1904") == "1" ||
			attribute(start, "date1904") == "true"):
			b.since = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
		case ok && start.Name.Local == "sheet":
			if part := targets[attribute(start, "id")]; part != "" && !seen[part] {
				seen[part] = true
				out = append(out, sheet{attribute(start, "name"), part})
			}
		}
		return nil
	})
	return out, err
}

// readShared reads the texts that cells share.
func (b *bookReader) readShared() error {
	var text strings.Builder
	in, phonetic, held := false, false, int64(0)
	return b.parts.tokens("xl/sharedStrings.xml", func(token xml.Token, _ int) error {
		switch x := token.(type) {
		case xml.StartElement:
			in = x.Name.Local == "t"
			phonetic = phonetic || x.Name.Local == "rPh"
		case xml.EndElement:
			in = false
			switch x.Name.Local {
			case "rPh":
				phonetic = false
			case "si":
				b.shared = append(b.shared, strings.Join(strings.Fields(text.String()), " "))
				held += int64(text.Len()) + fieldBytes
				text.Reset()
				if held > b.parts.limits.Memory/4 {
					return over(b.parts.object, "memory", b.parts.limits.Memory, "its texts take more than a quarter")
				}
			}
		case xml.CharData:
			if in && !phonetic {
				text.Write(x)
			}
		}
		return nil
	})
}

// readStyles learns which styles show a number as a date: formats 14 to 22 and 45 to 47, and own ones that say so.
func (b *bookReader) readStyles() error {
	own := map[string]bool{}
	cells, count := false, 0
	return b.parts.tokens("xl/styles.xml", func(token xml.Token, _ int) error {
		switch x := token.(type) {
		case xml.StartElement:
			switch x.Name.Local {
			case "numFmt":
				if len(own) < maxStyles && isDateFormat(attribute(x, "formatCode")) {
					own[attribute(x, "numFmtId")] = true
				}
			case "cellXfs":
				cells = true
			case "xf":
				if !cells {
					return nil
				}
				id := attribute(x, "numFmtId")
				number, _ := strconv.Atoi(id)
				if count < maxStyles && (number >= 14 && number <= 22 || own[id]) {
					b.dates[count] = true
				}
				count++
			}
		case xml.EndElement:
			cells = cells && x.Name.Local != "cellXfs"
		}
		return nil
	})
}

// isDateFormat tells whether a format has years or days in it, outside of quotes and brackets.
func isDateFormat(code string) bool {
	quoted, bracket := false, false
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '[':
			bracket = true
		case c == ']':
			bracket = false
		case !quoted && !bracket && strings.IndexByte("yYdD", c) >= 0:
			return true
		}
	}
	return false
}

func (b *bookReader) token(token xml.Token, _ int) error {
	switch x := token.(type) {
	case xml.StartElement:
		switch x.Name.Local {
		case "row":
			b.row, b.held = b.row[:0], 0
		case "c":
			b.kind = attribute(x, "t")
			b.style, _ = strconv.Atoi(attribute(x, "s"))
			b.at = columnOf(attribute(x, "r"), len(b.row))
			b.value.Reset()
		case "v", "t":
			b.in = true
		}
	case xml.EndElement:
		switch x.Name.Local {
		case "v", "t":
			b.in = false
		case "c":
			b.endCell()
		case "row":
			if row := tableRow(b.row); row != "" {
				b.out.WriteString(row + "\n")
			}
		}
	case xml.CharData:
		if b.in {
			b.value.Write(x)
		}
	}
	// Few bytes may name a long text.
	if length := int64(b.out.Len() + b.value.Len() + b.held); length > b.parts.limits.Memory/8 {
		return over(b.parts.object, "memory", b.parts.limits.Memory, "its text takes more than an eighth")
	}
	return b.parts.tooLong(b.out.Len())
}

// mostGaps are empty cells that are written before one with a value; what stands further right closes up.
const mostGaps = 100

// columnOf is the column of a cell by its name, as B7; next where that cannot be.
func columnOf(name string, next int) int {
	column := 0
	for i := 0; i < len(name) && i < 4 && name[i] >= 'A' && name[i] <= 'Z'; i++ {
		column = 26*column + int(name[i]-'A') + 1
	}
	if column--; column < next || column > next+mostGaps {
		return next
	}
	return column
}

func (b *bookReader) endCell() {
	value := strings.TrimSpace(b.value.String())
	switch b.kind {
	case "s":
		at, err := strconv.Atoi(value)
		if value = ""; err == nil && at >= 0 && at < len(b.shared) {
			value = b.shared[at]
		}
	case "b":
		value = map[string]string{"0": "FALSE", "1": "TRUE"}[value]
	case "", "n":
		value = b.number(value)
	default:
		value = strings.Join(strings.Fields(value), " ")
	}
	if value == "" || len(b.row) >= mostColumns {
		return
	}
	for len(b.row) < b.at {
		b.row = append(b.row, "")
	}
	b.row = append(b.row, value)
	b.held += len(value)
	b.cells++
}

// lastDay is the last day that a number of a date can name: the end of the year 9999.
const lastDay = 2_958_466

// number is a number as it is read: a date where its style says so, and no more digits than it was given.
func (b *bookReader) number(value string) string {
	number, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return value
	}
	if b.dates[b.style] && number >= 1 && number < lastDay {
		day, part := math.Modf(number)
		moment := b.since.AddDate(0, 0, int(day)).Add(time.Duration(math.Round(part*86_400)) * time.Second)
		if part == 0 {
			return moment.Format(time.DateOnly)
		}
		return moment.Format("2006-01-02 15:04:05")
	}
	if short := strconv.FormatFloat(number, 'g', 15, 64); len(value) > 15 && math.Abs(number) < 1e15 &&
		math.Abs(number) >= 1e-4 {
		return short // 0.1 is written as 0.10000000000000001
	}
	return value
}
