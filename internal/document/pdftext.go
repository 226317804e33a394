package document

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pageBreak ends each page of a text whose document has pages, on a line of its own: NewOutline tells pages by it.
const pageBreak = "\f"

// pdfTextOf writes pages: lines as they stand, an empty line between paragraphs, no headers and footers but the first
// of each, and words whole that a line's end cut.
func pdfTextOf(read []*pdfPage) (string, Places) {
	repeated := runningLines(read)
	for number, page := range read {
		for i := range page.lines {
			line, kept, again := &page.lines[i], page.lines[i].text, false
			if line.edge {
				kept, again = repeated.keep(line.text, number)
			}
			line.text, line.margin = kept, again || kept != line.text
			page.says = page.says || kept != "" && !again
		}
	}
	headingsOf(read)
	out := pdfWriter{}
	for _, page := range read {
		out.page(page)
	}
	return out.text.String(), out.places.packed()
}

// pdfWriter writes pages one after the other, and notes where each line stands.
type pdfWriter struct {
	text   strings.Builder
	runes  int
	places placer
}

func (w *pdfWriter) write(text string) {
	w.text.WriteString(text)
	w.runes += utf8.RuneCountInString(text)
}

func (w *pdfWriter) page(page *pdfPage) {
	w.places.begin(page.width, page.height)
	held, at, any := "", box{}, false // a line waits for the rest of its last word
	flush := func() {
		if any {
			w.places.add(w.runes, at)
			w.write(held)
		}
	}
	for _, line := range page.lines {
		text := line.text
		if text == "" {
			continue
		}
		if any && !line.gap {
			held, text = withoutHyphen(held, text)
		}
		if text == "" {
			at = at.with(line.box)
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
	w.write("\n" + pageBreak + "\n")
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
	counts map[string]int // pages that have a line, by what is the same of it on all of them
	least  int
	kept   map[string]bool
}

// leastRepeated is on how many pages a line stands before it is a header or a footer.
const leastRepeated = 3

func runningLines(read []*pdfPage) repeats {
	r := repeats{counts: map[string]int{}, least: max(leastRepeated, (len(read)+1)/2), kept: map[string]bool{}}
	for number, page := range read {
		once := map[string]bool{}
		for _, line := range page.lines {
			if !line.edge {
				continue
			}
			for _, same := range sameOf(unnumbered(line.text), number) {
				if !once[same] {
					once[same] = true
					r.counts[same]++
				}
			}
		}
	}
	return r
}

var (
	wholeNumber = regexp.MustCompile(`\b[0-9]{1,5}\b`)
	// numberOfPage is what a page prints of itself, whatever else stands in the line.
	numberOfPage = regexp.MustCompile(`(?i)^\s*page [0-9]+( of [0-9]+)?\s*$`)
)

// maxRunning bounds, in bytes, the lines that are looked at as headers and footers.
const maxRunning = 300

// sameOf are the line and what is left of it when one number in it is told by its distance from the page's: what is the
// same on all pages is among them where the line numbers the pages.
func sameOf(text string, page int) []string {
	if len(text) > maxRunning {
		return nil
	}
	out := []string{text}
	for _, at := range wholeNumber.FindAllStringIndex(text, 4) {
		number, _ := strconv.Atoi(text[at[0]:at[1]]) // at most five digits
		out = append(out, text[:at[0]]+"\x00"+strconv.Itoa(number-page)+"\x00"+text[at[1]:])
	}
	return out
}

// keep is what stays of a line in a margin: nothing of the page's own number, and of what pages repeat the first.
func (r repeats) keep(text string, page int) (kept string, repeated bool) {
	left := unnumbered(text)
	for i, same := range sameOf(left, page) {
		if r.counts[same] < r.least {
			continue
		}
		if again := r.kept[left] || r.kept[same]; again || i > 0 && !hasWords(same) {
			return "", true
		}
		r.kept[left], r.kept[same] = true, true
		return left, true
	}
	return left, false
}

// unnumbered is a line without cells that number the page.
func unnumbered(text string) string {
	var cells []string
	for cell := range strings.SplitSeq(text, "\t") {
		if !numberOfPage.MatchString(cell) {
			cells = append(cells, cell)
		}
	}
	return strings.Join(cells, "\t")
}

// hasWords tells whether something is left of a line without the word page and numbers.
func hasWords(text string) bool {
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if word != "page" && word != "of" {
			return true
		}
	}
	return false
}
