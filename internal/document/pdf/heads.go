package pdf

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
