package office

import (
	"cmp"
	"encoding/xml"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/tables"
	"github.com/unweaver/unweaver/internal/fault"
)

// ParseXLSX reads sheets in the order of the workbook: each under its name as heading, its rows as those of a table,
// then what is drawn on it, and its comments.
func ParseXLSX(raw []byte, object string, limits document.Limits) (document.Doc, error) {
	parts, err := openParts(raw, document.XLSX, object, limits)
	if err != nil {
		return document.Doc{}, err
	}
	book := bookReader{parts: parts}
	if err := book.read(); err != nil {
		return document.Doc{}, parts.wrapFault(err)
	}
	if book.cells == 0 {
		return document.Doc{}, parts.reportEmpty("xl/workbook.xml")
	}
	title, meta, err := parts.readCore()
	if err != nil {
		return document.Doc{}, parts.wrapFault(err)
	}
	return document.Doc{
		Title: title, Meta: meta, Text: strings.NewReader(strings.TrimSpace(book.out.String())),
		Missing: parts.describeMissing(),
	}, nil
}

// bookReader reads a workbook.
type bookReader struct {
	parts  *parts
	shared []string       // texts that cells name by number
	styles []numberFormat // by style of a cell
	since  time.Time      // day 0
	out    strings.Builder
	cells  int64 // and lines of what is drawn

	merges  map[cellAt]reach
	active  []merged // those that reach to the row
	gone    []columns
	counted map[int]bool // hidden columns that were counted

	head   tables.Head
	marked map[int]bool // rows that name columns, as filters and tables say
	fixed  int          // rows that stay in view
	last   int          // row before this one

	number  int // of the row
	hidden  bool
	row     []string
	held    int // bytes of the row: cells share their texts
	style   int
	kind    string // of the cell
	at      int    // its column
	value   strings.Builder
	formula bool
	in      bool // inside of a value or a text
	reading bool // inside of one that says how another is read
}

// columns from one to another, from 0 on.
type columns struct{ first, last int }

// sheet is a sheet's name and part.
type sheet struct{ name, part string }

func (b *bookReader) read() error {
	book, err := b.parts.main("officeDocument", "xl/workbook.xml")
	if err != nil {
		return err
	}
	related, err := b.parts.readRelations(book)
	if err != nil {
		return err
	}
	sheets, err := b.listSheets(book, related)
	if err != nil {
		return err
	}
	if err := b.readShared(related.partOf("sharedStrings", "xl/sharedStrings.xml")); err != nil {
		return err
	}
	if err := b.readStyles(related.partOf("styles", "xl/styles.xml")); err != nil {
		return err
	}
	for _, sheet := range sheets {
		before := b.cells
		b.out.WriteString("# " + strings.Join(strings.Fields(sheet.name), " ") + "\n\n")
		if !b.parts.hasPart(sheet.part) {
			continue
		}
		if err := b.parts.skipDamaged(sheet.part, b.readSheet(sheet.part)); err != nil {
			return err
		}
		if b.cells > before {
			b.out.WriteByte('\n')
		}
	}
	return nil
}

func (b *bookReader) listSheets(book string, related relations) ([]sheet, error) {
	// Day 60 is the 29 February 1900, which never was: numbers of dates are right from the next day on, see formatMoment.
	b.since = time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	var out []sheet
	seen := map[string]bool{}
	return out, b.parts.walkTokens(book, func(token xml.Token, _ int) error {
		start, ok := token.(xml.StartElement)
		switch {
		case ok && start.Name.Local == "workbookPr" && (attrOf(start, "date1904") == "1" ||
			attrOf(start, "date1904") == "true"):
			b.since = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
		case ok && start.Name.Local == "sheet":
			part := related.targetOf(attrOf(start, "id"))
			if part == "" || seen[part] {
				return nil
			}
			seen[part] = true
			if strings.HasSuffix(strings.ToLower(attrOf(start, "state")), "hidden") && b.parts.skipsHidden("sheets") {
				return nil
			}
			out = append(out, sheet{attrOf(start, "name"), part})
		}
		return nil
	})
}

// readSheet writes a sheet.
func (b *bookReader) readSheet(part string) error {
	merges, filtered, err := b.parts.findMerges(part)
	if err != nil {
		return err
	}
	related, damaged := b.parts.readRelations(part)
	b.merges, b.marked = merges, map[int]bool{filtered: true}
	for _, name := range related.targetsOf("table") {
		if err := b.readTable(name); fault.Is(err, fault.TooLarge) { // a damaged one takes no text away
			return err
		}
	}
	b.active, b.gone, b.counted, b.number = nil, nil, map[int]bool{}, 0
	b.in, b.reading = false, false // of a sheet that broke off
	b.head, b.fixed, b.last = tables.Head{Sheet: true}, 0, 0
	err = b.parts.walkShown(part, b.takeToken)
	b.writeRows(b.head.Finish())
	if err = cmp.Or(err, damaged); err != nil {
		return err
	}
	for _, name := range related.targetsOf("drawing") {
		drawn := drawing{}
		if err := b.parts.skipDamaged(name, b.parts.readDrawing(name, &drawn)); err != nil {
			return err
		}
		b.writeLines(append(drawn.title, drawn.lines...))
	}
	comments := related.targetsOf("threadedComment")
	if len(comments) == 0 { // else what is written for older programs repeats them
		comments = related.targetsOf("comments")
	}
	for _, name := range comments {
		said, err := b.parts.readComments(name)
		if err != nil {
			return err
		}
		b.writeLines(said)
	}
	return b.parts.tooLong(b.out.Len())
}

func (b *bookReader) writeLines(lines []string) {
	for _, line := range lines {
		b.out.WriteString(line + "\n")
		b.cells++
	}
}

// sharedBytes is what a shared text takes beside its bytes.
const sharedBytes = 32

// readShared reads the texts that cells name by number.
func (b *bookReader) readShared(part string) error {
	var text strings.Builder
	in, phonetic, held := false, false, int64(0)
	return b.parts.walkTokens(part, func(token xml.Token, _ int) error {
		switch x := token.(type) {
		case xml.StartElement:
			switch x.Name.Local {
			case "t":
				in = true
			case "rPh":
				phonetic = true
			}
		case xml.EndElement:
			switch x.Name.Local {
			case "t":
				in = false
			case "rPh":
				phonetic = false
			case "si":
				b.shared = append(b.shared, strings.Join(strings.Fields(unescapeText(text.String())), " "))
				text.Reset()
				held += sharedBytes + int64(len(b.shared[len(b.shared)-1]))
				if held > b.parts.limits.Memory/4 {
					return document.OverMax(b.parts.object, "memory", b.parts.limits.Memory, "its texts take more than a quarter")
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

// readStyles learns how numbers are shown.
func (b *bookReader) readStyles(part string) error {
	own := map[string]numberFormat{}
	for number, code := range usualFormats {
		own[strconv.Itoa(number)] = readFormat(code)
	}
	cells := false
	return b.parts.walkTokens(part, func(token xml.Token, _ int) error {
		switch x := token.(type) {
		case xml.StartElement:
			switch id := attrOf(x, "numFmtId"); x.Name.Local {
			case "numFmt":
				if code := attrOf(x, "formatCode"); len(own) < maxStyles && len(code) <= maxFormat {
					own[id] = readFormat(code)
				}
			case "cellXfs":
				cells = true
			case "xf":
				if cells && len(b.styles) < maxStyles {
					b.styles = append(b.styles, own[id])
				}
			}
		case xml.EndElement:
			cells = cells && x.Name.Local != "cellXfs"
		}
		return nil
	})
}

func (b *bookReader) takeToken(token xml.Token, _ int) error {
	switch x := token.(type) {
	case xml.StartElement:
		b.startElement(x)
	case xml.EndElement:
		switch x.Name.Local {
		case "v", "t":
			b.in = false
		case "rPh":
			b.reading = false
		case "c":
			b.endCell()
		case "row":
			b.endRow()
		}
	case xml.CharData:
		if b.in && !b.reading {
			b.value.Write(x)
		}
	}
	// Few bytes may name a long text.
	if length := int64(b.out.Len() + b.value.Len() + b.held); length > b.parts.limits.Memory/8 {
		return document.OverMax(b.parts.object, "memory", b.parts.limits.Memory, "its text takes more than an eighth")
	}
	return b.parts.tooLong(b.out.Len())
}

func (b *bookReader) startElement(x xml.StartElement) {
	switch x.Name.Local {
	case "col":
		if hidden := attrOf(x, "hidden"); hidden != "" && isTrue(hidden) && len(b.gone) < maxStyles {
			first, _ := strconv.Atoi(attrOf(x, "min"))
			last, _ := strconv.Atoi(attrOf(x, "max"))
			b.gone = append(b.gone, columns{first - 1, last - 1})
		}
	case "pane":
		if rows, err := strconv.ParseFloat(attrOf(x, "ySplit"), 64); err == nil && rows < tables.HeadRows &&
			strings.HasPrefix(attrOf(x, "state"), "frozen") {
			b.fixed = int(rows)
		}
	case "row":
		b.row, b.held = b.row[:0], 0
		b.number++
		if number, err := strconv.Atoi(attrOf(x, "r")); err == nil {
			b.number = number
		}
		hidden := attrOf(x, "hidden")
		b.hidden = hidden != "" && isTrue(hidden)
		b.at = -1
	case "c":
		b.kind = attrOf(x, "t")
		b.style, _ = strconv.Atoi(attrOf(x, "s"))
		if column := columnNumber(attrOf(x, "r")); column > b.at {
			b.at = column
		} else {
			b.at++
		}
		b.formula = false
		b.value.Reset()
	case "f":
		b.formula = true
	case "v", "t":
		b.in = true
	case "rPh":
		b.reading = true
	}
}

// mostGaps are empty cells that are written before one with a value; what stands further right closes up.
const mostGaps = 100

// columnNumber returns the column of a cell by its name, as B7, from 0 on; -1 where it says none.
func columnNumber(name string) int {
	column := 0
	for i := 0; i < len(name) && i < 4 && name[i] >= 'A' && name[i] <= 'Z'; i++ {
		column = 26*column + int(name[i]-'A') + 1
	}
	return column - 1
}

// placeColumn returns where a column stands in what is written; -1: it is hidden and left out.
func (b *bookReader) placeColumn(column int) int {
	place := column
	for _, gone := range b.gone {
		if b.parts.limits.Hidden || column < gone.first {
			continue
		}
		if column <= gone.last {
			return -1
		}
		place -= gone.last - gone.first + 1
	}
	return max(place, 0)
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
	case "d":
		value = strings.Replace(strings.TrimSuffix(value, "T00:00:00"), "T", " ", 1)
	case "", "n":
		value = b.shownNumber(value)
	default:
		value = strings.Join(strings.Fields(unescapeText(value)), " ")
	}
	if b.formula && value == "" && b.kind != "str" {
		b.parts.leaveOut("formulas of which the file has no value")
	}
	place := b.placeColumn(b.at)
	if place < 0 && value != "" && !b.counted[b.at] {
		b.counted[b.at] = true
		b.parts.skipsHidden("columns")
	}
	if value == "" || place < 0 || len(b.row) >= tables.MostColumns {
		return
	}
	if far, ok := b.merges[cellAt{b.number, b.at}]; ok && len(value) <= maxRepeated && len(b.active) < maxRepeats {
		b.active = append(b.active, merged{
			cellAt{b.number, b.at}, cellAt{b.number + far.rows, b.at + min(far.columns, maxRepeats)}, value,
		})
	}
	if place > len(b.row)+mostGaps || place < len(b.row) {
		place = len(b.row)
	}
	for len(b.row) < place {
		b.row = append(b.row, "")
	}
	b.row = append(b.row, value)
	b.held += len(value)
}

// endRow writes a row, with the values of cells that reach into it.
func (b *bookReader) endRow() {
	values := 0
	for _, value := range b.row {
		if value != "" {
			values++
		}
	}
	if values == 0 {
		return
	}
	if b.last > 0 && b.number > max(b.last+1, b.fixed) { // behind an empty row another table may begin
		b.writeRows(b.head.BeginApart())
	}
	if b.last = b.number; b.hidden && b.parts.skipsHidden("rows") {
		return
	}
	b.fillMerged(values == 1)
	b.cells += int64(values)
	b.writeRows(b.head.AddRow(b.row, b.number <= b.fixed || b.marked[b.number]))
}

func (b *bookReader) writeRows(lines []string) {
	for _, line := range lines {
		b.out.WriteString(line + "\n")
	}
}

// shownNumber returns a number as its cell shows it.
func (b *bookReader) shownNumber(value string) string {
	number, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsInf(number, 0) || math.IsNaN(number) {
		return value
	}
	if b.style >= 0 && b.style < len(b.styles) {
		if shown, ok := b.styles[b.style].formatNumber(number, b.since); ok {
			return shown
		}
	}
	return shortNumber(value)
}

// shortNumber writes a number with no more digits than it was given: 0.1 is stored as 0.10000000000000001.
func shortNumber(value string) string {
	number, err := strconv.ParseFloat(value, 64)
	if short := strconv.FormatFloat(number, 'g', 15, 64); err == nil && len(value) > 15 && math.Abs(number) < 1e15 &&
		math.Abs(number) >= 1e-4 {
		return short
	}
	return value
}
