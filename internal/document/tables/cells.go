package tables

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

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
