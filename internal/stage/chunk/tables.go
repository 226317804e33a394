package chunk

import (
	"regexp"
	"strings"

	"github.com/unweaver/unweaver/internal/model/tokens"
)

// table follows the rows of one table of a text, which are lines between bars.
type table struct {
	rows     int    // so far; 0: the text is in no table
	previous string // row
	header   string // the row that names the columns; empty: none does, or it is too long to be repeated
}

// headerRows may hold the row of dashes below the names of columns: above them may stand a title.
const headerRows = 3

// headerShare of a chunk may be the names of columns.
const headerShare = 4

// isRow reports whether a line is a row of a table.
func isRow(line string) bool {
	line = strings.TrimSpace(line)
	return len(line) > 2 && line[0] == '|' && line[len(line)-1] == '|'
}

var separatorRow = regexp.MustCompile(`^[\s|:-]*-[\s|:-]*$`)

// takeRow enters the next row and returns the names of the columns that a chunk which begins with it repeats.
func (t *table) takeRow(line string, most int) (header string) {
	t.rows++
	named := t.previous
	if t.previous = line; t.header != "" {
		return t.header
	}
	if t.rows > 1 && t.rows <= headerRows && separatorRow.MatchString(line) && !separatorRow.MatchString(named) &&
		tokens.Count(named) <= most/headerShare {
		t.header = named
	}
	return ""
}

// fenceLine begins or ends code.
var fenceLine = regexp.MustCompile("^ {0,3}(```+|~~~+)(.*)")

// isCode reports whether a line begins, ends or lies in code between fences.
func (u *units) isCode(line string) bool {
	found := fenceLine.FindStringSubmatch(line)
	switch {
	case u.fence == "" && (found == nil || strings.Contains(found[2], "`")):
		return false
	case u.fence == "":
		u.fence = found[1]
	case found != nil && strings.HasPrefix(found[1], u.fence) && strings.TrimSpace(found[2]) == "":
		u.fence = ""
	}
	return true
}
