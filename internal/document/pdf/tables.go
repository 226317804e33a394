package pdf

import (
	"cmp"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/unweaver/unweaver/internal/document/tables"
)

// A table of a page is at least so many lines one below the other whose cells stand in the same columns.
const (
	leastTableLines   = 3
	leastTableColumns = 3    // or two, where the second is of numbers or dates
	farthestRows      = 4.0  // sizes of letters between two lines of a table, at most
	leastFilled       = 0.4  // of the cells: a chart has fewer
	mostTableLines    = 5000 // of a page: one with more is read without tables

	shortestRule = 8   // points
	thickestRule = 2   // points from which on an area has two edges
	ruledShare   = 0.6 // of the width of a table that has a rule between two lines
	ruledLines   = 4   // lines of a row between rules, on average, at most
	mostNameRows = 3   // lines above the first rule that may name columns
)

var (
	// leaders lead from a title to the number of its page.
	leaders = regexp.MustCompile(`\.{4}|(\. ){3}|…{2}|_{4}`)
	// counter is what stands before the items of a list.
	counter = regexp.MustCompile(`^([\p{So}\p{Po}\p{Pd}•o*]|\(?([0-9]{1,3}|[a-zA-Z]|[ivxIVX]+)[.)]|[0-9]+(\.[0-9]+)+\.?)$`)
	// codeSign ends or begins parts of lines of programs.
	codeSign = regexp.MustCompile(`[;{}\\]$|^[{}]|(?:^|\s)//|/\*|\*/|\(\)|->|:=|==|\|`)
)

// pdfTable is a run of lines whose cells stand in the same columns.
type pdfTable struct {
	lines   []pdfLine
	columns []extent
	cells   [][]string // of each line, by column
	ruled   []bool     // of each line: a rule is above it, and below the one before
	rules   int        // how many lines have one
}

// writeTables writes the lines that are tables as rows, as readers of other files do. Other lines stay as they are.
func writeTables(lines []pdfLine, rules []box) []pdfLine {
	slices.SortFunc(rules, func(a, b box) int { return cmp.Compare(b.low, a.low) })
	out, at := make([]pdfLine, 0, len(lines)), 0
	if len(lines) > mostTableLines {
		out, at = lines, len(lines)
	}
	for at < len(lines) {
		table := findRun(lines[at:])
		if len(table.lines) < leastTableLines {
			out = append(out, lines[at])
			at++
			continue
		}
		table.fillCells()
		table.findRules(rules)
		at += len(table.lines)
		if !table.isTable() {
			out = append(out, table.lines...)
			continue
		}
		if out = append(out, table.makeRows()...); at < len(lines) {
			lines[at].gap = true
		}
	}
	for i := range out {
		out[i].row = nil
	}
	return out
}

// findRun returns the lines from the first on that leave the same columns apart.
func findRun(lines []pdfLine) pdfTable {
	var columns []extent
	end := 0
	for ; end < len(lines); end++ {
		line := lines[end]
		if len(line.row) == 0 || line.edge || end == 0 && len(line.row) < 2 {
			break
		}
		if end > 0 {
			step, large, small := lines[end-1].y-line.y, max(lines[end-1].size, line.size), min(lines[end-1].size, line.size)
			if step <= 0 || step > farthestRows*large || large >= headingSize*small {
				break
			}
		}
		wider := coverWidth(columns, line.row)
		if len(wider) < max(2, len(columns)) || len(wider) > tables.HeadColumns {
			break
		}
		columns = wider
	}
	for end > 0 && len(lines[end-1].row) < 2 && lines[end-1].row[0].left < columns[1].left { // it stands below
		end--
	}
	return pdfTable{lines: lines[:end], columns: columns}
}

// fillCells puts what the lines say into their columns.
func (t *pdfTable) fillCells() {
	for _, line := range t.lines {
		cells := make([]string, len(t.columns))
		for _, segment := range line.row {
			at := t.columnOf(segment)
			cells[at] = strings.TrimSpace(cells[at] + " " + strings.Join(strings.Fields(segment.joinWords()), " "))
		}
		t.cells = append(t.cells, cells)
	}
}

// columnOf returns the column in which a segment stands.
func (t *pdfTable) columnOf(s *segment) int {
	at := 0
	for at+1 < len(t.columns) && t.columns[at+1].left <= s.left {
		at++
	}
	return at
}

// isTable reports whether the lines are rows of data: no list, no form, no table of contents, no program, no text in
// columns.
func (t *pdfTable) isTable() bool {
	several, odd, filled := 0, 0, 0
	for i, cells := range t.cells {
		if slices.ContainsFunc(t.lines[i].row, (*segment).readsRTL) {
			return false
		}
		values := tables.CountValues(cells)
		if filled += values; values > 1 {
			several++
		}
		if isOddRow(cells) {
			odd++
		}
	}
	if several < leastTableLines || 2*several < len(t.cells) || 4*odd >= len(t.cells) ||
		float64(filled) < leastFilled*float64(len(t.columns)*len(t.cells)) { // as the axes of a chart
		return false
	}
	columns, typed, last := 0, 0, 0
	for column := range t.columns {
		kind, counted := t.describeColumn(column)
		if !counted {
			continue
		}
		if columns, last = columns+1, column; kind != tables.AnyCell {
			typed++
		}
	}
	if t.isGrid() {
		return columns >= 2
	}
	kind, _ := tables.KindOfMost(last, t.cells)
	switch {
	case (typed == 1 || columns == 2) && kind != tables.AnyCell && t.countsPages(last):
		return false
	case columns >= leastTableColumns:
		return typed > 0 || t.rules > 0 // else it may be text in columns
	}
	return columns == 2 && kind != tables.AnyCell
}

// isOddRow reports whether a line looks like one of a form, of a table of contents or of a program.
func isOddRow(cells []string) bool {
	label := false // a label stands before another cell
	for _, cell := range cells {
		if cell == "" {
			continue
		}
		if label || leaders.MatchString(cell) || codeSign.MatchString(cell) {
			return true
		}
		label = strings.HasSuffix(cell, ":")
	}
	return false
}

// describeColumn returns the kind of most cells of a column, and whether it counts as one: it has cells enough, and
// they are not just what stands before the items of a list.
func (t *pdfTable) describeColumn(column int) (kind tables.CellKind, counted bool) {
	filled, values := 0, 0
	for _, cells := range t.cells {
		cell := cells[column]
		if cell == "" {
			continue
		}
		filled++
		if !counter.MatchString(cell) && strings.ContainsFunc(cell, isLetterOrDigit) {
			values++
		}
	}
	kind, _ = tables.KindOfMost(column, t.cells)
	return kind, filled >= 2 && 4*filled >= len(t.cells) && 2*values >= filled
}

func isLetterOrDigit(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// countsPages reports whether the numbers of a column grow from line to line, as those of pages do.
func (t *pdfTable) countsPages(column int) bool {
	before := ""
	for _, cells := range t.cells {
		switch cell := cells[column]; {
		case cell == "":
		case !loneNumber.MatchString(cell):
			if before != "" {
				return false
			}
		case len(cell) < len(before) || len(cell) == len(before) && cell < before:
			return false
		default:
			before = cell
		}
	}
	return before != ""
}

// findRules notes which lines have a rule above them that is nearly as wide as the table. Rules are sorted from top to
// bottom.
func (t *pdfTable) findRules(rules []box) {
	left, right := t.columns[0].left, t.columns[len(t.columns)-1].right
	t.ruled = make([]bool, len(t.lines))
	for i := 1; i < len(t.lines); i++ {
		above, below := t.lines[i-1].y, t.lines[i].y
		from := sort.Search(len(rules), func(at int) bool { return rules[at].low < above })
		until := sort.Search(len(rules), func(at int) bool { return rules[at].low <= below })
		between := slices.Clone(rules[from:max(from, until)])
		slices.SortFunc(between, func(a, b box) int { return cmp.Compare(a.left, b.left) })
		covered, end := 0.0, left
		for _, rule := range between {
			if from, until := max(rule.left, end), min(rule.right, right); until > from {
				covered, end = covered+until-from, until
			}
		}
		if t.ruled[i] = covered >= ruledShare*(right-left); t.ruled[i] {
			t.rules++
		}
	}
}

// isGrid reports whether rules divide the lines into rows.
func (t *pdfTable) isGrid() bool {
	return t.rules+1 >= leastTableLines && ruledLines*(t.rules+1) >= len(t.lines)
}

// rowStarts returns the lines at which rows begin: between rules of a grid, else each line, those that name columns
// as one.
func (t *pdfTable) rowStarts() []int {
	ruled, each, names := []int{0}, []int{0}, t.findNameLines()
	for i := 1; i < len(t.lines); i++ {
		if t.ruled[i] {
			ruled = append(ruled, i)
		}
		if i >= names {
			each = append(each, i)
		}
	}
	if t.isGrid() && t.areRows(ruled) {
		return ruled
	}
	return each
}

// areRows reports whether lines from each start up to the next can be one row: below the first one, none is full, and
// no column has two numbers.
func (t *pdfTable) areRows(starts []int) bool {
	numbers := make([]bool, len(t.columns))
	next := 0
	for i, cells := range t.cells {
		begins := next < len(starts) && starts[next] == i
		if begins {
			next++
			clear(numbers)
		}
		for column, cell := range cells {
			number := tables.KindOfCell(cell) != tables.AnyCell && tables.KindOfCell(cell) != tables.SentenceCell
			if number && numbers[column] {
				return false
			}
			numbers[column] = numbers[column] || number
		}
		if !begins && tables.CountValues(cells) == len(cells) && len(cells) > 2 {
			return false
		}
	}
	return true
}

// findNameLines returns how many lines above the first rule name the columns of a table that is no grid; 0: none do.
func (t *pdfTable) findNameLines() int {
	first := slices.Index(t.ruled, true)
	if t.isGrid() || first < 1 || first > mostNameRows {
		return 0
	}
	for _, cells := range t.cells[:first] {
		for _, cell := range cells {
			if tables.KindOfCell(cell) != tables.AnyCell && !tables.IsYear(cell) {
				return 0
			}
		}
	}
	return first
}

// makeRows returns the rows of a table, with a line of dashes below those that name its columns.
func (t *pdfTable) makeRows() []pdfLine {
	var rows []pdfLine
	var cells [][]string
	starts := t.rowStarts()
	for i, from := range starts {
		until := len(t.lines)
		if i+1 < len(starts) {
			until = starts[i+1]
		}
		row := t.lines[from]
		for _, line := range t.lines[from+1 : until] {
			row.box = row.box.joinBox(line.box)
		}
		row.table, row.gap = true, i == 0
		rows, cells = append(rows, row), append(cells, joinCells(t.cells[from:until]))
	}
	first := min(len(cells), tables.HeadRows)
	head := tables.Head{Rows: cells[:first], Marks: make([]bool, first)}
	for i := range head.Marks {
		head.Marks[i] = starts[i] < t.findNameLines()
	}
	_, names := head.FindNames()
	for i := range rows {
		rows[i].text = tables.FormatRow(cells[i])
		if i == names-1 && names <= tables.MostNames && len(t.columns) <= tables.HeadColumns {
			rows[i].text += "\n" + tables.DashesBelow(len(t.columns))
		}
	}
	return rows
}

// joinCells returns the cells of a row that takes several lines.
func joinCells(lines [][]string) []string {
	out := slices.Clone(lines[0])
	for _, cells := range lines[1:] {
		for column, cell := range cells {
			if before := out[column]; before != "" && cell != "" {
				before, cell = withoutHyphen(before, cell)
				out[column] = strings.TrimSpace(before + " " + cell)
			} else {
				out[column] += cell
			}
		}
	}
	return out
}
