package pdf

import (
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
	// romanNumber is one as books number their first pages.
	romanNumber = regexp.MustCompile(`^\W*([ivxlc]+)\W*$`)
)

// saysNumber reports whether a cell of a line says the number of a page.
func saysNumber(text string) bool {
	return slices.ContainsFunc(strings.Split(text, "\t"), numberOfPage.MatchString)
}

// numberOf returns a number that stands alone by its distance from the page's: the same on all pages where it counts
// them.
func numberOf(cell string, page int) (string, bool) {
	if at := romanNumber.FindStringSubmatch(cell); at != nil && page < mostRoman {
		for number := 1; number < mostRoman; number++ {
			if document.FormatCounter(number, "lowerRoman") == at[1] {
				return romanAt + strconv.Itoa(number-page), true
			}
		}
	}
	at := loneNumber.FindStringSubmatch(cell)
	if at == nil {
		return "", false
	}
	number, _ := strconv.Atoi(at[1]) // at most five digits
	return "\x00" + strconv.Itoa(number-page), true
}

// romanAt begins the distance of a Roman number, of which few pages have one; none has more than mostRoman.
const (
	romanAt   = "\x00r"
	mostRoman = 200
)

// isRepeated reports whether pages have a text, or a number as far from theirs, in their margins.
func (r repeats) isRepeated(text string) bool {
	return r.counts[text] >= r.least || strings.HasPrefix(text, romanAt) && r.counts[text] >= leastRepeated
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
