package pdf

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pdfLine is a line of a page as it is read.
type pdfLine struct {
	text string
	y    float64 // place on the page, upwards
	size float64 // of its largest letters
	gap  bool    // more room than between lines of a paragraph is above it
	box  box     // that it takes on the page
	row  row     // whose text it is, until tables are found

	table   bool // it is a row of a table
	heading int  // lines of the heading that begins here
	margin  bool // a header or footer, which pages repeat
	edge    bool // it stands where headers and footers do
	slanted bool // as watermarks are
}

// What spaces mean, in sizes of the letters beside them. Lines of one row need not stand equally high.
const (
	wordGap = 0.15
	cellGap = 1.5  // between cells of a table
	gutter  = 1.0  // between columns of a page
	sameRow = 0.4  // as far apart as lines of one row may be
	newPart = 1.35 // room above a paragraph, to that between lines
)

// maxLaidOut is how many segments a page may have to be looked through for columns, and mostLooked at how many of them,
// with those that are looked at again: a page that somebody reads takes a hundredth of that.
const (
	maxLaidOut = 1500
	mostLooked = 20_000_000
)

// box is a part of a page, in points from its lower left corner; low is below high.
type box struct{ left, low, right, high float64 }

// joinBox returns the least box that holds two.
func (b box) joinBox(other box) box {
	return box{min(b.left, other.left), min(b.low, other.low), max(b.right, other.right), max(b.high, other.high)}
}

// segment is text of one line without a wide space in it.
type segment struct {
	box
	y, size float64
	words   []word // from left to right
}

// word is a word of a line, and whether a blank is to its left.
type word struct {
	text  string
	apart bool
}

// joinWords returns what a segment says, in the order in which it is read.
func (s *segment) joinWords() string {
	var out strings.Builder
	before := -1
	for _, i := range s.orderWords() {
		if beside := max(i, before); before >= 0 && (i-before != 1 && before-i != 1 || s.words[beside].apart) {
			out.WriteByte(' ')
		}
		out.WriteString(s.words[i].text)
		before = i
	}
	return out.String()
}

// readsRTL reports whether a segment is read from right to left, as most of its words are that have letters.
func (s *segment) readsRTL() bool {
	count := 0
	for _, word := range s.words {
		switch {
		case startsRTL(word.text):
			count++
		case strings.IndexFunc(word.text, unicode.IsLetter) >= 0:
			count--
		}
	}
	return count > 0
}

// orderWords returns the order in which the words are read: in a line from right to left, words of other scripts that
// stand side by side are read from left to right.
func (s *segment) orderWords() []int {
	order := make([]int, len(s.words))
	for i := range order {
		order[i] = i
	}
	if !s.readsRTL() {
		return order
	}
	slices.Reverse(order)
	for from := 0; from < len(order); {
		until := from + 1
		for until < len(order) && startsRTL(s.words[order[until]].text) == startsRTL(s.words[order[from]].text) {
			until++
		}
		if !startsRTL(s.words[order[from]].text) {
			slices.Reverse(order[from:until])
		}
		from = until
	}
	return order
}

// row is what stands equally high on a page, from left to right.
type row []*segment

// inOrder returns the segments in the order in which they are read.
func (r row) inOrder() []*segment {
	all := segment{}
	for _, segment := range r {
		all.words = append(all.words, segment.words...)
	}
	out := slices.Clone(r)
	if all.readsRTL() {
		slices.Reverse(out)
	}
	return out
}

func (r row) y() float64 { return r[0].y }

func (r row) size() float64 {
	size := 0.0
	for _, segment := range r {
		size = max(size, segment.size)
	}
	return size
}

// linesOfPage puts what a page shows into lines: first what is upright, then what is turned, each as it is read once it
// is turned back.
func linesOfPage(words []glyphs, height float64, rules []box) []pdfLine {
	var turns [slanted + 1][]glyphs
	for _, word := range words {
		turns[word.turn] = append(turns[word.turn], word)
	}
	var lines []pdfLine
	for turn, words := range turns {
		var of []pdfLine
		if turn != slanted {
			of = linesOf(words)
		} else {
			for _, word := range words {
				of = append(of, pdfLine{text: word.text, y: word.y, size: word.size, box: word.box, slanted: true})
			}
		}
		if turn == 0 {
			markEdges(of, height)
			of = writeTables(of, rules)
		} else {
			of = writeTables(of, nil)
		}
		for i := range of {
			of[i].gap = of[i].gap || i == 0 && len(lines) > 0
			of[i].box = of[i].box.turnBack((4 - turn) % 4)
		}
		lines = append(lines, of...)
	}
	return lines
}

// Headers and footers are at most so many lines, in this part of the page's height, and so many sizes of their letters
// apart from the others, which is more than lines usually are.
const (
	edgeLines = 2
	edgePart  = 0.12
	edgeGap   = 1.8
	edgeMore  = 1.2
)

// markEdges marks the lines that stand where headers and footers do.
func markEdges(lines []pdfLine, height float64) {
	var steps []float64
	for i := 1; i < len(lines); i++ {
		steps = append(steps, lines[i-1].y-lines[i].y)
	}
	usual := 0.0
	if len(steps) > 1 {
		usual = slices.Min(steps)
	}
	apart := func(below int) bool {
		if below == 0 || below == len(lines) {
			return true
		}
		above, line := lines[below-1], lines[below]
		return above.y-line.y > max(edgeGap*max(above.size, line.size), edgeMore*usual)
	}
	top, bottom := 0, len(lines)
	for i := 1; i <= min(edgeLines, len(lines)); i++ {
		if apart(i) && lines[i-1].y > (1-edgePart)*height {
			top = i
		}
		if from := len(lines) - i; apart(from) && lines[from].y < edgePart*height {
			bottom = from
		}
	}
	for i := range lines {
		lines[i].edge = i < top || i >= bottom
	}
}

// linesOf puts words of the same turn into lines: from top to bottom and from left to right, cells of a table one
// behind the other with a tab between them (a blank behind a label), columns of running text one after the other.
func linesOf(spans []glyphs) []pdfLine {
	levelMarks(spans)
	rows := rowsOf(segmentsOf(spans))
	var lines []pdfLine
	if segments := countSegments(rows); segments > maxLaidOut {
		return linesOfRows(rows)
	}
	looked := 0
	for at := 0; at < len(rows); {
		columns, next := columnsFrom(rows, at, &looked)
		if columns == nil {
			next = at + 1
			for next < len(rows) {
				if block, _ := columnsFrom(rows, next, &looked); block != nil {
					break
				}
				next++
			}
			columns = [][]row{rows[at:next]}
		}
		if looked > mostLooked {
			return linesOfRows(rows)
		}
		for i, column := range columns {
			of := linesOfRows(column)
			if len(of) > 0 && (i > 0 || at > 0) {
				of[0].gap = true
			}
			lines = append(lines, of...)
		}
		at = next
	}
	return lines
}

// Exponents, indices and numbers of notes have letters of at most this part of the size of those that they follow, and
// are raised or lowered by less than this part of their own.
const (
	markSize  = 0.85
	markShift = 0.7
)

// levelMarks puts such marks on the line of the letters that they touch, where they would be a line of themselves.
func levelMarks(spans []glyphs) {
	base := 0
	for i := 1; i < len(spans); i++ {
		mark, of := &spans[i], spans[base]
		if touches := math.Abs(mark.left-spans[i-1].right) < wordGap*of.size; !touches || mark.size > markSize*of.size ||
			math.Abs(mark.y-of.y) > markShift*mark.size {
			base = i
			continue
		}
		mark.y = of.y
	}
}

func countSegments(rows []row) int {
	segments := 0
	for _, row := range rows {
		segments += len(row)
	}
	return segments
}

// toGroups sorts by height, and cuts into groups of about equal height. Lines beside a much larger letter stay apart.
func toGroups[T any](items []T, y, size func(T) float64) [][]T {
	slices.SortStableFunc(items, func(a, b T) int { return cmp.Compare(y(b), y(a)) })
	var out [][]T
	for from := 0; from < len(items); {
		until, first := from+1, size(items[from])
		for ; until < len(items); until++ {
			large, small := max(first, size(items[until])), min(first, size(items[until]))
			if y(items[from])-y(items[until]) > sameRow*min(large, 2*small) {
				break
			}
		}
		out = append(out, items[from:until])
		from = until
	}
	return out
}

func segmentsOf(spans []glyphs) []*segment {
	var out []*segment
	for _, line := range toGroups(spans, func(s glyphs) float64 { return s.y }, func(s glyphs) float64 { return s.size }) {
		slices.SortStableFunc(line, func(a, b glyphs) int { return cmp.Compare(a.left, b.left) })
		var last *segment
		var before glyphs
		for i, shown := range line {
			twice := i > 0 && shown.text == before.text && shown.left-before.left < wordGap*shown.size
			switch gap := 0.0; {
			case twice: // bold letters are made so
				continue
			case last != nil:
				gap = (shown.left - last.right) / max(min(last.size, shown.size), 1e-3)
				if gap < gutter {
					apart := gap > wordGap || shown.apart
					_, size := utf8.DecodeLastRuneInString(before.text)
					if isIdeographic(shown.text) && isIdeographic(before.text[len(before.text)-size:]) {
						apart = gap > wordGap
					}
					before = shown
					last.add(shown, apart)
					continue
				}
			}
			before = shown
			last = &segment{box: shown.box, y: shown.y, size: shown.size, words: []word{{text: shown.text}}}
			out = append(out, last)
		}
	}
	return out
}

func (s *segment) add(shown glyphs, apart bool) {
	s.words = append(s.words, word{shown.text, apart})
	s.box, s.size = s.joinBox(shown.box), max(s.size, shown.size)
}

func rowsOf(segments []*segment) []row {
	var rows []row
	for _, line := range toGroups(segments,
		func(s *segment) float64 { return s.y }, func(s *segment) float64 { return s.size }) {
		slices.SortStableFunc(line, func(a, b *segment) int { return cmp.Compare(a.left, b.left) })
		rows = append(rows, line)
	}
	return rows
}

// extent is a part of the page's width.
type extent struct{ left, right float64 }

// coverWidth adds the segments of a row to parts of the width, sorted and apart by a gutter.
func coverWidth(parts []extent, with row) []extent {
	all := slices.Clone(parts)
	for _, segment := range with {
		all = append(all, extent{segment.left, segment.right})
	}
	slices.SortFunc(all, func(a, b extent) int { return cmp.Compare(a.left, b.left) })
	width := gutter * with.size()
	merged := all[:0]
	for _, part := range all {
		if n := len(merged); n > 0 && part.left < merged[n-1].right+width {
			merged[n-1].right = max(merged[n-1].right, part.right)
			continue
		}
		merged = append(merged, part)
	}
	return merged
}

// maxTextColumns of running text that stand beside each other.
const maxTextColumns = 5

// columnsFrom gives the columns of running text that begin at a row, and the row behind them; nil where there are none,
// or too much was looked at.
func columnsFrom(rows []row, at int, looked *int) (columns [][]row, next int) {
	var parts []extent
	for next = at; next < len(rows); next++ {
		if *looked += len(parts) + len(rows[next]); *looked > mostLooked {
			return nil, at
		}
		wider := coverWidth(parts, rows[next])
		if len(wider) < 2 && next-at >= 2 {
			break
		}
		parts = wider
	}
	if len(parts) < 2 || len(parts) > maxTextColumns || next-at < leastRows {
		return nil, at
	}
	for _, part := range parts {
		var inside []*segment
		for _, row := range rows[at:next] {
			for _, segment := range row {
				if segment.left >= part.left && segment.right <= part.right {
					inside = append(inside, segment)
				}
			}
		}
		column := rowsOf(inside)
		if !isRunningText(column, part) {
			return nil, at
		}
		columns = append(columns, column)
	}
	return columns, next
}

// A column of running text has at least so many rows, of which half are nearly full, and letters enough in each.
const (
	leastRows    = 5
	nearlyFull   = 0.75
	leastLetters = 20
)

func isRunningText(column []row, part extent) bool {
	full, letters := 0, 0
	for _, row := range column {
		width := 0.0
		for _, segment := range row {
			width += segment.right - segment.left
			letters += utf8.RuneCountInString(segment.joinWords())
		}
		if width >= nearlyFull*(part.right-part.left) {
			full++
		}
	}
	return len(column) >= leastRows && 2*full >= len(column) && letters >= leastLetters*len(column)
}

// linesOfRows writes rows as lines, and says where a paragraph begins.
func linesOfRows(rows []row) []pdfLine {
	var lines []pdfLine
	usual := usualStep(rows)
	for i, row := range rows {
		line := pdfLine{y: row.y(), size: row.size(), box: row[0].box, row: row}
		var text strings.Builder
		var before box
		for n, segment := range row.inOrder() {
			cell := strings.Join(strings.Fields(segment.joinWords()), " ")
			labelled := strings.HasSuffix(text.String(), ":") && !strings.HasSuffix(cell, ":")
			gap := max(segment.left-before.right, before.left-segment.right)
			before = segment.box
			if n > 0 && !labelled && gap >= cellGap*segment.size {
				text.WriteByte('\t')
			} else if n > 0 {
				text.WriteByte(' ')
			}
			text.WriteString(cell)
			line.box = line.box.joinBox(segment.box)
		}
		if line.text = text.String(); line.text == "" {
			continue
		}
		if i > 0 {
			step, size := rows[i-1].y()-row.y(), max(line.size, 1e-3)
			line.gap = step > newPart*max(usual, size) || math.Abs(rows[i-1].size()-line.size) > 0.12*size
		}
		lines = append(lines, line)
	}
	return lines
}

// usualStep returns the middle distance of two rows.
func usualStep(rows []row) float64 {
	var steps []float64
	for i := 1; i < len(rows); i++ {
		steps = append(steps, rows[i-1].y()-rows[i].y())
	}
	if len(steps) == 0 {
		return 0
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}
