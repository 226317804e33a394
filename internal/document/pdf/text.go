package pdf

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/document"
)

// textOf writes pages: lines as they stand, an empty line between paragraphs, no headers and footers but the first
// of each, and words whole that a line's end cut.
func textOf(read []*pdfPage) (string, document.Places) {
	repeated := runningLines(read)
	for number, page := range read {
		alone := !slices.ContainsFunc(page.lines, func(line pdfLine) bool { return !line.edge })
		for i := range page.lines {
			line, kept, again := &page.lines[i], page.lines[i].text, false
			if line.edge {
				kept, again = repeated.keepLine(line.text, number)
			}
			line.margin = again || kept != line.text
			page.says = page.says || !again && strings.TrimSpace(numberOfPage.ReplaceAllString(kept, "")) != ""
			if !alone { // what a page has alone is no margin of it
				line.text = kept
			}
		}
	}
	headingsOf(read)
	out := pdfWriter{}
	for _, page := range read {
		out.writePage(page)
	}
	return out.text.String(), out.places.PackPlaces()
}

// pdfWriter writes pages one after the other, and notes where each line stands.
type pdfWriter struct {
	text   strings.Builder
	runes  int
	places document.Placer
}

func (w *pdfWriter) write(text string) {
	w.text.WriteString(text)
	w.runes += utf8.RuneCountInString(text)
}

func (w *pdfWriter) writePage(page *pdfPage) {
	w.places.BeginPage(page.width, page.height)
	held, at, any := "", box{}, false // a line waits for the rest of its last word
	flush := func() {
		if any {
			w.places.Add(w.runes, at.left, at.low, at.right, at.high)
			w.write(held)
		}
	}
	for _, line := range page.lines {
		text := line.text
		if text == "" {
			continue
		}
		if any && !line.gap && !line.table {
			held, text = withoutHyphen(held, text)
		}
		if text == "" {
			at = at.joinBox(line.box)
			continue
		}
		flush()
		switch {
		case any && line.gap:
			w.write("\n\n")
		case any:
			w.write("\n")
		}
		held, at, any = text, line.box, true
	}
	flush()
	w.write("\n" + document.PageBreak + "\n")
}

// withoutHyphen puts the rest of a word that was cut at the end of a line behind its start.
func withoutHyphen(line, next string) (string, string) {
	start, cut := strings.CutSuffix(line, "-")
	before, _ := utf8.DecodeLastRuneInString(start)
	after, _ := utf8.DecodeRuneInString(next)
	if !cut || !unicode.IsLower(before) || !unicode.IsLower(after) {
		return line, next
	}
	rest, left, _ := strings.Cut(next, " ")
	if strings.Contains(rest, "-") { // it has hyphens of its own
		return line + rest, left
	}
	return start + rest, left
}

// repeats are the lines that pages repeat in their margins.
type repeats struct {
	counts   map[string]int // pages that have a line, or a number as far from theirs
	least    int
	kept     map[string]bool
	numbered bool // pages say their numbers
}

// leastRepeated is on how many pages a line stands before it is a header or a footer.
const leastRepeated = 3

func runningLines(read []*pdfPage) repeats {
	r := repeats{counts: map[string]int{}, least: max(leastRepeated, (len(read)+1)/2), kept: map[string]bool{}}
	numbered := 0
	for _, one := range read {
		if slices.ContainsFunc(one.lines, func(line pdfLine) bool {
			return line.edge && len(line.text) <= maxRunning && saysNumber(line.text)
		}) {
			numbered++
		}
	}
	r.numbered = numbered >= r.least
	for page, one := range read {
		once := map[string]bool{}
		for _, line := range one.lines {
			if !line.edge || len(line.text) > maxRunning {
				continue
			}
			for cell := range strings.SplitSeq(line.text, "\t") {
				if number, ok := numberOf(cell, page); ok {
					once[number] = true
				}
			}
			once[r.stripNumber(line.text)] = true
		}
		for text := range once {
			r.counts[text]++
		}
	}
	return r
}

// maxRunning bounds, in bytes, the lines that are looked at as headers and footers.
const maxRunning = 300

var (
	// numberOfPage is what a page prints of itself behind or before what else stands in the line.
	numberOfPage = regexp.MustCompile(`(?i)(^|\s)[-–|(]*(page|p\.|pg\.|seite|página|pagina|pág\.|sida|side|strona|стр\.|` +
		`страница)\s*[0-9]+(\s*(of|/|von|de|di|av|af|z|из|sur)\s*[0-9]+)?[-–|)]*\s*$`)
	// loneNumber is a number without words.
	loneNumber = regexp.MustCompile(`^\W*([0-9]{1,5})(\s*/\s*[0-9]{1,5})?\W*$`)
)

// saysNumber reports whether a cell of a line says the number of a page.
func saysNumber(text string) bool {
	return slices.ContainsFunc(strings.Split(text, "\t"), numberOfPage.MatchString)
}

// numberOf returns a number that stands alone by its distance from the page's: the same on all pages where it counts
// them.
func numberOf(cell string, page int) (string, bool) {
	at := loneNumber.FindStringSubmatch(cell)
	if at == nil {
		return "", false
	}
	number, _ := strconv.Atoi(at[1]) // at most five digits
	return "\x00" + strconv.Itoa(number-page), true
}

// isRepeated reports whether pages have a text, or a number as far from theirs, in their margins.
func (r repeats) isRepeated(text string) bool {
	return r.counts[text] >= r.least
}

// stripNumber returns a line without the number that a page prints of itself.
func (r repeats) stripNumber(text string) string {
	if !r.numbered {
		return text
	}
	var cells []string
	for cell := range strings.SplitSeq(text, "\t") {
		if cell = numberOfPage.ReplaceAllString(cell, ""); cell != "" {
			cells = append(cells, cell)
		}
	}
	return strings.Join(cells, "\t")
}

// keepLine returns what stays of a line in a margin: nothing of the page's own number, and of what pages repeat the
// first.
func (r repeats) keepLine(text string, page int) (kept string, repeated bool) {
	if len(text) > maxRunning {
		return text, false
	}
	var cells []string
	for cell := range strings.SplitSeq(text, "\t") {
		if number, ok := numberOf(cell, page); !ok || !r.isRepeated(number) {
			cells = append(cells, cell)
		}
	}
	kept = r.stripNumber(strings.Join(cells, "\t"))
	if !r.isRepeated(r.stripNumber(text)) && !r.isRepeated(kept) {
		return kept, kept == ""
	}
	if r.kept[kept] {
		return "", true
	}
	r.kept[kept] = true
	return kept, true
}

// A line in letters so much larger than those of the text is a heading, where it is short and few are.
const (
	headingSize  = 1.15
	longHeading  = 120 // runes
	headingLines = 3
	mostHeadings = 1.0 / 4 // of the lines
	pdfLevels    = 4
)

// headingsOf marks headings as Markdown does: the larger the letters, the higher. Lines of one heading become one.
func headingsOf(read []*pdfPage) {
	body := bodySize(read)
	lines, found, sizes := 0, 0, map[float64]bool{}
	for _, one := range read {
		page := one.lines
		lines += len(page)
		for at := 0; at < len(page); {
			until := findBlockEnd(page, at)
			if looksLikeHeading(page[at:until], body) {
				page[at].heading = until - at
				found += until - at
				sizes[roundSize(page[at].size)] = true
			}
			at = until
		}
	}
	order := slices.SortedFunc(maps.Keys(sizes), func(a, b float64) int { return cmp.Compare(b, a) })
	for _, one := range read {
		page := one.lines
		for i := range page {
			line := &page[i]
			switch {
			case line.heading > 0 && float64(found) <= mostHeadings*float64(lines):
				for below := 1; below < line.heading; below++ {
					line.text += " " + page[i+below].text
					line.box = line.box.joinBox(page[i+below].box)
					page[i+below].text = ""
				}
				level := 1 + min(slices.Index(order, roundSize(line.size)), pdfLevels-1)
				line.text = strings.Repeat("#", level) + " " + line.text
			case strings.HasPrefix(line.text, "#"): // a number sign of the text is no mark
				line.text = `\` + line.text
			}
		}
	}
}

// findBlockEnd returns where the lines end that follow one in letters of its size, without a gap.
func findBlockEnd(page []pdfLine, at int) int {
	until := at + 1
	for until < len(page) && !page[until].gap && roundSize(page[until].size) == roundSize(page[at].size) {
		until++
	}
	return until
}

func roundSize(size float64) float64 { return math.Round(2*size) / 2 }

// bodySize returns the size of most letters.
func bodySize(read []*pdfPage) float64 {
	letters := map[float64]int{}
	for _, page := range read {
		for _, line := range page.lines {
			letters[roundSize(line.size)] += len(line.text)
		}
	}
	most := 0.0
	for size, count := range letters {
		if best := letters[most]; count > best || count == best && size > most {
			most = size
		}
	}
	return most
}

func looksLikeHeading(lines []pdfLine, body float64) bool {
	if len(lines) > headingLines || lines[0].size < headingSize*body || lines[0].margin || lines[0].slanted ||
		lines[0].table {
		return false
	}
	runes, letters := 0, false
	for _, line := range lines {
		if strings.Contains(line.text, "\t") {
			return false
		}
		runes += utf8.RuneCountInString(line.text)
		letters = letters || strings.IndexFunc(line.text, unicode.IsLetter) >= 0
	}
	last := lines[len(lines)-1].text
	return letters && runes <= longHeading && !strings.HasSuffix(last, ".") && !strings.HasSuffix(last, ",")
}
