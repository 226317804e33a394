package pdf

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/document/tables"
)

// A table of a page is at least so many lines one below the other whose cells stand in the same columns.
const (
	leastTableLines   = 3
	leastTableColumns = 3   // or two, where the second is of numbers or dates
	farthestRows      = 4.0 // sizes of letters between two lines of a table, at most
	wrapStep          = 1.35
	alignWithin       = 0.6  // sizes of letters by which cells of a column may stand out of line
	alignShare        = 0.75 // of the cells of a column that stand in line
	leastFilled       = 0.4  // of the cells: a chart has fewer
	mostTableStarts   = 4    // lines that are tried as the first one
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
		start, table := findTable(lines[at:], rules)
		out = append(out, lines[at:at+start]...)
		at += start
		if table == nil {
			continue
		}
		out = append(out, table.makeRows()...)
		if at += len(table.lines); at < len(lines) {
			lines[at].gap = true
		}
	}
	for i := range out {
		out[i].row = nil
	}
	return out
}

// findTable returns the table that begins at one of the first lines; without one, how many lines it looked at.
func findTable(lines []pdfLine, rules []box) (start int, table *pdfTable) {
	best := findRun(lines)
	for next := 1; next <= mostTableStarts && next < len(best.lines); next++ {
		if run := findRun(lines[next:]); len(run.lines) >= leastTableLines && len(run.columns) > len(best.columns) {
			start, best = next, run // what stands above is wider than a column
		}
	}
	if len(best.lines) < leastTableLines {
		return 1, nil
	}
	best.fillCells()
	best.findRules(rules)
	if !best.isTable() {
		return start + len(best.lines), nil
	}
	return start, &best
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
	sparse := float64(filled) < leastFilled*float64(len(t.columns)*len(t.cells))
	if several < leastTableLines || 2*several < len(t.cells) || 4*odd >= len(t.cells) ||
		sparse && (!t.isGrid() || !t.fillsRows()) { // as the axes of a chart do
		return false
	}
	columns, typed, running, last := 0, 0, 0, -1
	for column := range t.columns {
		kind, counted := t.describeColumn(column)
		if counted {
			columns, last = columns+1, column
		}
		switch {
		case !counted:
		case kind != tables.AnyCell:
			typed++
		case !t.isGrid() && !t.isAligned(column):
			return false
		case t.isRunning(column):
			running++
		}
	}
	if running > 1 && typed == 0 && !t.isGrid() {
		return false
	}
	if t.isGrid() {
		return columns >= 2
	}
	kind, _ := tables.KindOfMost(max(last, 0), t.cells)
	if (typed == 1 || columns == 2) && kind != tables.AnyCell && t.countsPages(last) {
		return false
	}
	return columns >= leastTableColumns || columns == 2 && kind != tables.AnyCell
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

// isAligned reports whether most cells of a column begin, end or have their middle at the same place.
func (t *pdfTable) isAligned(column int) bool {
	var lefts, rights, middles []float64
	size := 0.0
	for _, line := range t.lines {
		left, right := math.Inf(1), math.Inf(-1)
		for _, segment := range line.row {
			if t.columnOf(segment) == column {
				left, right = min(left, segment.left), max(right, segment.right)
			}
		}
		if left > right {
			continue
		}
		size = max(size, line.size)
		lefts, rights, middles = append(lefts, left), append(rights, right), append(middles, (left+right)/2)
	}
	for _, places := range [][]float64{lefts, rights, middles} {
		slices.Sort(places)
		middle, near := places[len(places)/2], 0
		for _, place := range places {
			if math.Abs(place-middle) <= alignWithin*size {
				near++
			}
		}
		if float64(near) >= alignShare*float64(len(places)) {
			return true
		}
	}
	return false
}

// isRunning reports whether a column may be of running text: its cells are long, and half of them nearly fill it.
func (t *pdfTable) isRunning(column int) bool {
	filled, full, letters := 0, 0, 0
	for i, cells := range t.cells {
		if cells[column] == "" {
			continue
		}
		filled++
		letters += utf8.RuneCountInString(cells[column])
		width := 0.0
		for _, segment := range t.lines[i].row {
			if t.columnOf(segment) == column {
				width += segment.right - segment.left
			}
		}
		if width >= nearlyFull*(t.columns[column].right-t.columns[column].left) {
			full++
		}
	}
	return 2*full >= filled && letters >= leastLetters*filled
}

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

// fillsRows reports whether what stands between rules fills cells enough where it is one row.
func (t *pdfTable) fillsRows() bool {
	rows, filled := 0, 0
	var known []bool // of the columns of a row: something stands in them
	for i, cells := range t.cells {
		if i == 0 || t.ruled[i] {
			rows, known = rows+1, make([]bool, len(t.columns))
		}
		for column, cell := range cells {
			if cell != "" && !known[column] {
				known[column], filled = true, filled+1
			}
		}
	}
	return float64(filled) >= leastFilled*float64(rows*len(t.columns))
}

// rowStarts returns the lines at which rows begin: between rules, or where lines stand further apart than those of one
// row. Where neither is clear, each line is a row.
func (t *pdfTable) rowStarts() []int {
	var ruled, apart, each []int
	near, far := 0.0, math.Inf(1)
	for i := range t.lines {
		each = append(each, i)
		if i == 0 {
			ruled, apart = []int{0}, []int{0}
			continue
		}
		if t.ruled[i] {
			ruled = append(ruled, i)
		}
		if step := (t.lines[i-1].y - t.lines[i].y) / max(t.lines[i].size, 1e-3); step > wrapStep {
			apart, far = append(apart, i), min(far, step)
		} else {
			near = max(near, step)
		}
	}
	switch {
	case t.isGrid() && t.areRows(ruled):
		return ruled
	case len(apart) >= leastTableLines && near*1.15 <= far && t.areRows(apart) && !slices.ContainsFunc(apart[1:],
		func(i int) bool { return t.cells[i][0] == "" }):
		return apart
	}
	if names := t.findNameLines(); names > 1 {
		return append([]int{0}, each[names:]...)
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
