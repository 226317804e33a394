// Package tables finds the rows of a table that name its columns, and writes rows as lines of Markdown.
package tables

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bounds of the rows that name the columns of a table.
const (
	// The first rows of a table, at most so many and of so many bytes, decide which of them name its columns.
	HeadRows  = 20
	headBytes = 256 << 10

	mostTitles = 4 // above the names of columns, or of groups of columns
	MostNames  = 6 // rows, with titles: passages repeat no more
	mostStarts = 3 // places that are tried where names may begin, beside the first row

	// Names that the document does not mark have rows below them, and only in the first columns are they looked for.
	fewestRows  = 3
	HeadColumns = 100
	longName    = 120 // bytes from which on a cell is no name
	fewestTexts = 3   // columns of a sheet of texts alone whose first row is taken for their names
	fewestCells = 3   // columns of a table of another file whose first row is taken for their names
)

// Head writes the rows of a table as lines, and a line of dashes below those that name its columns: passages that
// begin further down repeat these. It keeps the first rows until it has enough of them to tell.
type Head struct {
	Rows   [][]string
	Marks  []bool // rows that the document says name columns
	starts []int  // rows that stand apart from those before them
	bytes  int
	Sheet  bool // of a sheet, which marks its names more rarely than other files do
	known  bool // the first rows are written
	below  bool // rows stand above, whose table goes on unless these have names of columns
}

// AddRow enters a row and returns the lines that are ready. marked says that the document marks it as names of columns.
func (t *Head) AddRow(cells []string, marked bool) []string {
	line := FormatRow(cells)
	switch {
	case line == "":
		return nil
	case t.known:
		return []string{line}
	}
	t.Rows, t.Marks = append(t.Rows, slices.Clone(cells)), append(t.Marks, marked)
	if t.bytes += len(line); len(t.Rows) < HeadRows && t.bytes < headBytes {
		return nil
	}
	return t.Finish()
}

// BeginApart notes that the next row stands apart, as it may begin another table, and returns the lines that are ready.
func (t *Head) BeginApart() (lines []string) {
	names, rows := 0, len(t.Rows)
	if last := len(t.starts) - 1; rows > fewestRows && (last < 0 || rows-t.starts[last] > fewestRows) {
		_, names = t.FindNames()
	}
	if t.known || names > 0 {
		lines = t.Finish()
		*t = Head{Sheet: t.Sheet, below: true}
	} else if rows > 0 {
		t.starts = append(t.starts[max(0, len(t.starts)-mostStarts+1):], rows)
	}
	return lines
}

// Finish returns the lines of the rows that were kept.
func (t *Head) Finish() (lines []string) {
	start, names := t.FindNames()
	columns := 0
	for i, cells := range t.Rows {
		line := FormatRow(cells)
		if names > 0 && i == start && (i > 0 || t.below) {
			lines = append(lines, "")
		}
		lines = append(lines, line)
		columns = max(columns, strings.Count(line, " | ")+1)
		if i == start+names-1 && names <= MostNames && columns <= HeadColumns {
			lines = append(lines, DashesBelow(columns))
		}
	}
	*t = Head{Sheet: t.Sheet, known: true}
	return lines
}

// DashesBelow returns the line below the names of columns.
func DashesBelow(columns int) string { return "|" + strings.Repeat(" --- |", columns) }

// FindNames returns how many rows name the columns or stand above the names, and the first of them; 0: none do. What
// stands apart above these belongs to no table with names.
func (t *Head) FindNames() (start, names int) {
	for i := len(t.starts); i >= 0 && names == 0; i-- {
		if start = 0; i > 0 {
			start = t.starts[i-1]
		}
		if names = countMarked(t.Rows[start:], t.Marks[start:]); names == 0 {
			names = t.countNames(t.Rows[start:], start > 0)
		}
	}
	return start, names
}

// countMarked returns how many rows there are down to the last marked one, above which stand titles only; 0: none.
func countMarked(rows [][]string, marks []bool) (names int) {
	for i, marked := range marks {
		switch {
		case marked:
			names = i + 1
		case i >= mostTitles || names > 0 || CountValues(rows[i]) > 1:
			return names
		}
	}
	return 0 // nothing stands below them
}

// countNames returns how many rows at the top of a table name its columns, with titles and groups above the names; 0:
// none do, as far as their cells tell. One column below the names, at least, is of numbers or dates, or there are three
// of texts, on a sheet, unless the rows stand apart from others above. Tables of other files have three columns.
func (t *Head) countNames(rows [][]string, apart bool) int {
	at := 0
	for at < len(rows) && CountValues(rows[at]) < 2 {
		at++
	}
	if at > mostTitles || len(rows)-at <= fewestRows {
		return 0
	}
	names := at
	if isGroups(rows[at]) && CountValues(rows[at+1]) >= CountValues(rows[at]) && nameColumns(rows[at+1:]) > 0 {
		names++
	}
	typed := nameColumns(rows[names:])
	if typed < 0 || typed == 0 && (apart || !t.Sheet) || !t.Sheet && len(rows[names]) < fewestCells ||
		!NamesColumns(rows[names:]) {
		return 0
	}
	return names + 1
}

// nameColumns returns how many columns of numbers, dates or the like the first row names, by what it looks like; -1: it
// names no columns. Without any such column there are three of texts, at least, and it names all of them.
func nameColumns(rows [][]string) (typed int) {
	named, unnamed := false, false
	names, below := rows[0], rows[1:]
	widest := slices.MaxFunc(rows, func(a, b []string) int { return len(a) - len(b) })
	for column := range min(len(widest), HeadColumns) {
		cell := ""
		if column < len(names) {
			cell = strings.TrimSpace(names[column])
		}
		if of := KindOfCell(cell); len(cell) >= longName || of != AnyCell && of != DateCell && !IsYear(cell) {
			return -1
		}
		named = named || cell != ""
		kind, filled := KindOfMost(column, below)
		if kind != AnyCell && named { // of a name that reaches over several columns, the first has the text
			typed++
		}
		unnamed = unnamed || filled && cell == ""
	}
	if count := CountValues(names); count < 2 || typed == 0 && (unnamed || count < fewestTexts) {
		return -1
	}
	return typed
}

// KindOfMost returns the kind of more than half of the values of a column, and whether it has any.
func KindOfMost(column int, rows [][]string) (kind CellKind, filled bool) {
	count, all := map[CellKind]int{}, 0
	for _, row := range rows {
		if column < len(row) && strings.TrimSpace(row[column]) != "" {
			count[KindOfCell(row[column])]++
			all++
		}
	}
	for kind, times := range count {
		if times > all/2 {
			return kind, true
		}
	}
	return AnyCell, all > 0
}

// isGroups reports whether a row names groups of columns: behind the first one, it has empty cells between others, or
// equal cells side by side.
func isGroups(cells []string) bool {
	for i := 1; i+1 < len(cells); i++ {
		if cells[i] == "" || cells[i] == cells[i+1] {
			return true
		}
	}
	return false
}

// CountValues returns how many cells of a row are not empty.
func CountValues(cells []string) (count int) {
	for _, cell := range cells {
		if strings.TrimSpace(cell) != "" {
			count++
		}
	}
	return count
}

// FormatRow returns a row of a table as Markdown writes it; empty where its cells are.
func FormatRow(cells []string) string {
	for len(cells) > 0 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	if len(cells) == 0 {
		return ""
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// CellKind is what a cell of a table looks like. Names of columns are of no kind, but for years and numbers in a row.
type CellKind int

// Kinds of cells.
const (
	AnyCell CellKind = iota
	NumberCell
	DateCell
	AddressCell
	SentenceCell
)

var cellForms = []struct {
	kind CellKind
	form *regexp.Regexp
}{
	{DateCell, regexp.MustCompile(`^(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})(?:[ T]\d.*)?$|` +
		`^\d{1,2}:\d\d(?::\d\d)?$`)}, // before numbers, as 31.12.2026 has their signs
	{NumberCell, regexp.MustCompile(`^[-+(]?[$€£]? ?\d[\d.,' ]*(?:[eE][-+]?\d+)? ?[%€$)]?$`)},
	{AddressCell, regexp.MustCompile(`^(?:https?://\S+|[^@\s]+@[^@\s]+\.\w+)$`)},
	{SentenceCell, regexp.MustCompile(`^\S+(?: \S+){3,}\.$`)},
}

// KindOfCell returns the kind of a cell.
func KindOfCell(cell string) CellKind {
	if cell = strings.TrimSpace(cell); cell != "" && len(cell) < LongValue {
		for _, one := range cellForms {
			if one.form.MatchString(cell) {
				return one.kind
			}
		}
	}
	return AnyCell
}

// NamesColumns reports whether the first of the rows of a table names its columns: unless one of its cells is of the
// kind of those below it, or two of them stand among those below them. Alone, it is a row where one is of any kind.
func NamesColumns(rows [][]string) bool {
	if len(rows) == 0 || rows[0] == nil || isSeries(rows[0]) || slices.ContainsFunc(rows[0], isKnownName) {
		return true
	}
	isFirst := func(row []string) bool { return slices.Equal(row, rows[0]) }
	again, below := 0, slices.DeleteFunc(slices.Clone(rows[1:]), isFirst)
	for at, cell := range rows[0] {
		kind, same, all := KindOfCell(cell), 0, 0
		for _, row := range below {
			if at >= len(row) || strings.TrimSpace(row[at]) == "" {
				continue
			}
			if all++; row[at] == cell {
				again++
			}
			if KindOfCell(row[at]) == kind && IsYear(row[at]) == IsYear(cell) {
				same++
			}
		}
		if kind != AnyCell && (same > all/2 || len(rows) == 1 && !IsYear(cell)) {
			return false
		}
	}
	return again < 2
}

// isKnownName reports whether a cell is a name that records are read by.
func isKnownName(cell string) bool {
	cell = strings.ToLower(strings.TrimSpace(cell))
	return slices.Contains(IDFields, cell) || slices.Contains(TitleFields, cell) || slices.Contains(TextFields, cell)
}

// IsYear reports whether a cell is a year.
func IsYear(cell string) bool {
	year, err := strconv.Atoi(strings.TrimSpace(cell))
	return err == nil && year >= 1500 && year <= 2100
}

// isSeries reports whether the numbers of a row count up or down by one, or are years in equal steps, as names of
// columns do.
func isSeries(cells []string) bool {
	var numbers []int
	years := true
	for _, cell := range cells {
		if KindOfCell(cell) != NumberCell {
			continue
		}
		number, err := strconv.Atoi(strings.TrimSpace(cell))
		if err != nil {
			return false
		}
		numbers, years = append(numbers, number), years && IsYear(cell)
	}
	if len(numbers) < 2 {
		return false
	}
	step := numbers[1] - numbers[0]
	for i := 1; i < len(numbers); i++ {
		if numbers[i]-numbers[i-1] != step {
			return false
		}
	}
	return step == 1 || step == -1 || years && step != 0
}

// MostColumns of a row of CSV: each is a field of the document's metadata.
const MostColumns = 10_000

// LongValue is the length in bytes from which on a string is text, also beside a text field.
const LongValue = 500

// Names of fields that are a record's id, its title and its text, the best first.
var (
	IDFields    = []string{"id", "_id", "doc_id", "document_id"}
	TitleFields = []string{"title", "name", "headline"}
	TextFields  = []string{"text", "content", "body", "passage", "abstract"}
)
