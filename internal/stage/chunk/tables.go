package chunk

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/model/tokens"
)

// table follows the rows of one table of a text, which are lines between bars.
type table struct {
	waiting []string // the first rows, until a row of dashes says that they name the columns
	known   bool     // whether they do
	header  string   // the rows that name the columns; empty: none do, or they are too long to be repeated
	again   string   // rows of the header that are dropped next
}

// headerRows may hold the row of dashes below the names of columns. Above these may stand titles.
const headerRows = 7

// headerShare of a chunk may be the names of columns.
const headerShare = 4

// isRow reports whether a line is a row of a table.
func isRow(line string) bool {
	line = strings.TrimSpace(line)
	return len(line) > 2 && line[0] == '|' && line[len(line)-1] == '|'
}

// separatorRow is a row of dashes. Below several rows it has three at least: fewer are values that are missing.
var separatorRow = regexp.MustCompile(`^[\s|:-]*-[\s|:-]*$`)

// addRow adds a row, which a chunk that begins with it repeats the names of columns above. These and the row of
// dashes are one unit, so that no chunk begins between them.
func (u *units) addRow(line string) {
	t := u.table
	if t.known {
		u.addUnits(line, t.header)
		return
	}
	if len(t.waiting) == 0 && separatorRow.MatchString(line) { // a border above the names
		u.addUnits(line, "")
		return
	}
	t.waiting = append(t.waiting, line)
	if !separatorRow.MatchString(line) || len(t.waiting) > 2 && !strings.Contains(line, "---") {
		if len(t.waiting) == headerRows {
			u.releaseRows()
		}
		return
	}
	names := t.waiting[:len(t.waiting)-1]
	for at := range names { // titles are left out of a header that is too long
		if header := strings.Join(names[at:], ""); tokens.Count(header) <= u.max/headerShare {
			t.header = header
			if whole := header + line; len(whole) <= longUnit && tokens.Count(whole) <= u.max/2 {
				t.waiting = append(names[:at], whole)
			}
			break
		}
	}
	u.releaseRows()
}

// releaseRows adds the rows that wait.
func (u *units) releaseRows() {
	for _, row := range u.table.waiting {
		u.addUnits(row, "")
	}
	u.table.waiting, u.table.known = nil, true
}

// endTable ends the table that the text was in, if it was in one.
func (u *units) endTable() {
	if u.table != nil {
		u.releaseRows()
		*u.table = table{}
	}
}

// isRepeated reports whether a row is one of the header that a chunk began with when the text was cut before.
func (u *units) isRepeated(line string) bool {
	blanks := len(line) - len(strings.TrimLeftFunc(line, unicode.IsSpace))
	if u.former[u.at+utf8.RuneCountInString(line[:blanks])] {
		u.table.again = u.table.header
	}
	rest, is := strings.CutPrefix(u.table.again, line)
	u.table.again = ""
	if is {
		u.table.again = rest
	}
	return is
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
