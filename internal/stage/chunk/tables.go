package chunk

import (
	"regexp"
	"strings"

	"github.com/unweaver/unweaver/internal/model/tokens"
)

// table follows the rows of one table of a text, which are lines between bars.
type table struct {
	rows   int    // so far; 0: the text is in no table
	first  string // row
	header string // the row that names the columns; empty: none does, or it is too long to be repeated
}

// headerRows are looked at for the names of columns: above them may stand a title.
const headerRows = 3

// headerShare of a chunk may be the names of columns.
const headerShare = 4

// isRow reports whether a line is a row of a table.
func isRow(line string) bool {
	line = strings.TrimSpace(line)
	return len(line) > 2 && line[0] == '|' && line[len(line)-1] == '|'
}

var (
	separatorRow = regexp.MustCompile(`^[\s|:-]*-[\s|:-]*$`)
	numberCell   = regexp.MustCompile(`^[^\pL\d]*\d[\d.,'’/:\s-]*[^\pL\d]*$`)
	yearCell     = regexp.MustCompile(`^(?:19|20)\d\d$`)
)

// takeRow enters the next row. It returns the names of the columns that a chunk which begins with it repeats, and
// whether it is nothing else than such a repetition.
func (t *table) takeRow(line string, most int) (header string, repeats bool) {
	t.rows++
	switch {
	case t.header != "":
		return t.header, line == t.header
	case t.rows == 1:
		t.first = line
	}
	named := ""
	switch {
	case t.rows == 2 && separatorRow.MatchString(line):
		named = t.first
	case t.rows <= headerRows && namesColumns(line):
		named = line
	}
	if named != "" && strings.HasSuffix(named, "\n") && tokens.Count(named) <= most/headerShare {
		t.header = named
	}
	return "", false
}

// namesColumns reports whether a row has several cells with text, and none with a number that is no year.
func namesColumns(line string) bool {
	filled := 0
	for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
		if cell = strings.TrimSpace(cell); cell == "" {
			continue
		}
		if numberCell.MatchString(cell) && !yearCell.MatchString(cell) {
			return false
		}
		filled++
	}
	return filled > 1 && !separatorRow.MatchString(line)
}
