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
func pdfTextOf(read [][]pdfLine) string {
	repeated := runningLines(read)
	for number, lines := range read {
		for i := range lines {
			if inMargin(i, len(lines)) {
				lines[i].text, lines[i].margin = repeated.keep(lines[i].text, number)
			}
		}
	}
	headingsOf(read)
	var out strings.Builder
	for _, lines := range read {
		var page []string
		for _, line := range lines {
			text := line.text
			if text == "" {
				continue
			}
			if n := len(page); n > 0 && !line.gap {
				page[n-1], text = withoutHyphen(page[n-1], text)
			} else if n > 0 {
				text = "\n" + text
			}
			if text != "" {
				page = append(page, text)
			}
		}
		out.WriteString(strings.Join(page, "\n"))
		out.WriteString("\n" + pageBreak + "\n")
	}
	return out.String()
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
	return start + rest, left
}

// inMargin tells whether a line of so many is where headers and footers stand.
func inMargin(i, lines int) bool { return i < 2 || i >= lines-2 }

// repeats are the lines that pages repeat in their margins.
type repeats struct {
	counts map[string]int // pages that have a line, by what is the same of it on all of them
	least  int
	kept   map[string]bool
}

// leastRepeated is on how many pages a line stands before it is a header or a footer.
const leastRepeated = 3

func runningLines(read [][]pdfLine) repeats {
	r := repeats{counts: map[string]int{}, least: max(leastRepeated, (len(read)+1)/2), kept: map[string]bool{}}
	for number, lines := range read {
		once := map[string]bool{}
		for i, line := range lines {
			if !inMargin(i, len(lines)) {
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
	return left, left != text
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
