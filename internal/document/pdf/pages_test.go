package pdf_test

import (
	"bytes"
	"fmt"
	"image"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/readers"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// readPDF gives a PDF as it is read, and its text.
func readPDF(t *testing.T, content string) (document.Doc, string) {
	t.Helper()
	doc, text, err := documenttest.ReadWhole(content, document.PDF, "a.pdf", document.DefaultLimits())
	require.NoError(t, err)
	return doc, text
}

func TestPagesThatShowSomethingAndHaveNoTextAreNamed(t *testing.T) {
	for _, c := range []struct {
		pages []string
		want  string
	}{
		{[]string{"one", "two"}, ""},
		{[]string{"one", ""}, "page 2 has no text (scanned images?)"},
		{[]string{"one", "two", "", "four", "five", "six", "", "", ""}, "pages 3, 7-9 have no text (scanned images?)"},
	} {
		doc, text := readPDF(t, documenttest.PDF(c.pages...))
		assert.True(t, doc.Missing == c.want && strings.Count(text, "\f") == len(c.pages),
			"%q: %q, %q", c.pages, doc.Missing, text)
	}
	doc, _ := readPDF(t, strings.Replace(documenttest.SmallPDF("one", "two"), "(two) Tj", strings.Repeat(" ", len("(two) Tj")), 1))
	assert.True(t, doc.Missing == "", "a page that shows nothing: %q", doc.Missing)
}

// Pages to transcribe are listed, and rendered within bounds whatever size they have; what is written of them stands in
// the place of what they have.
func TestPagesAreRenderedAndTranscribed(t *testing.T) {
	content := documenttest.PDFOfPages(20_000, 10_000, "one", documenttest.ScannedPage+"two", "three")
	read := func(reading document.Reading) document.Doc {
		limits := document.DefaultLimits()
		limits.Reading = reading
		doc, _, err := documenttest.ReadWhole(content, document.PDF, "a.pdf", limits)
		require.NoError(t, err)
		return doc
	}
	doc := read(document.Reading{Scans: core.PagesScanned})
	assert.True(t, slices.Equal(doc.Scans, []int{2}) && doc.Missing == "", "%v, %q", doc.Scans, doc.Missing)
	assert.Equal(t, []int{1, 2, 3}, read(document.Reading{Scans: core.PagesAll}).Scans)
	pictures := read(document.Reading{Pictures: []int{2, 9}}).Pictures
	require.Len(t, pictures, 1, "it has no page 9")
	size, format, err := image.DecodeConfig(bytes.NewReader(pictures[0].JPEG))
	assert.True(t, err == nil && format == "jpeg" && size.Width == 2000 && size.Height == 1000, "%v %v", size, err)

	doc, text := readPDF(t, content)
	put, places, err := document.PutTranscripts([]byte(text), doc.Places, map[int]string{1: "a longer page", 2: "# zwei"})
	require.NoError(t, err)
	assert.Equal(t, "a longer page\n\f\n# zwei\n\f\nthree\n\f\n", string(put))
	lines := slices.Collect(places.Lines())
	require.Len(t, lines, 3)
	whole := core.Rect{Right: 20_000, Bottom: 10_000}
	for page, start := range []int{0, 16, 25} {
		whole.Page = page + 1
		assert.True(t, lines[page].Start == start && (lines[page].Rect == whole) == (page < 2), "%+v", lines[page])
	}
	_, _, err = document.PutTranscripts([]byte(text), doc.Places, map[int]string{4: "there is no such page"})
	assert.Error(t, err)
}

// scanned shows a picture that takes half of a page, and a text.
const scanned = ") Tj ET q 300 0 0 150 0 100 cm BI /W 1 /H 1 /BPC 8 /CS /G ID x EI Q BT /F1 10 Tf "

// Headers and footers are no text of a page: one that shows a picture besides is a scanned one.
func TestAScannedPageWithAFooterIsNamed(t *testing.T) {
	const header = "1 0 0 1 20 280 Tm (The Annual Report) Tj "
	footer := func(page int) string { return fmt.Sprintf("1 0 0 1 20 20 Tm (Page %d of 3) Tj (", page) }
	const logo = ") Tj ET q 50 0 0 50 240 240 cm BI /W 1 /H 1 /BPC 8 /CS /G ID x EI Q BT /F1 10 Tf "
	said := func(page int) string { return ") Tj " + at(20, 200, 10, fmt.Sprint("Text ", page*page)) + footer(page) }
	for name, c := range map[string]struct {
		pages []string
		want  string
	}{
		"a footer": {[]string{said(1), scanned + footer(2), said(3)}, "page 2 has no text (scanned images?)"},
		"a header that stays of the first page": {
			[]string{scanned + header + footer(1), scanned + header + footer(2),
				scanned + header + "1 0 0 1 20 200 Tm (Text) Tj ("},
			"pages 1-2 have no text (scanned images?)",
		},
		"a page left empty": {[]string{said(1), ") Tj " + footer(2), said(3)}, ""},
		"a logo":            {[]string{said(1), logo + footer(2), said(3)}, ""},
		"text on a picture": {[]string{said(1), scanned + at(20, 200, 10, "Text") + footer(2), said(3)}, ""},
	} {
		doc, text := readPDF(t, documenttest.SmallPDF(c.pages...))
		assert.True(t, doc.Missing == c.want, "%s: %q, want %q: %q", name, doc.Missing, c.want, text)
	}
}

// What no viewer shows is no text of a page; what lies invisibly on a picture is how its letters were recognised.
func TestTextThatIsNotShownIsLeftOut(t *testing.T) {
	const unseen = "3 Tr 1 0 0 1 20 150 Tm (unseen) Tj 0 Tr "
	shown := ") Tj " + at(20, 250, 10, "One") + at(20, 200, 10, "Two")
	for name, c := range map[string]struct{ page, want string }{
		"invisible":             {shown + unseen + "(", "One Two"},
		"invisible, on a scan":  {scanned + at(20, 250, 10, "One") + at(20, 200, 10, "Two") + unseen + "(", "One Two unseen"},
		"nothing but invisible": {") Tj " + unseen + "(", "unseen"},
		"beside the page":       {shown + at(320, 200, 10, "beside") + at(20, -20, 10, "below") + at(20, 320, 10, "above") + "(", "One Two"},
	} {
		_, text := readPDF(t, documenttest.SmallPDF(c.page))
		assert.True(t, strings.Join(strings.Fields(text), " ") == c.want, "%s: %q", name, text)
	}
}

// linesAt returns the lines of a text with the places that they have, in tens of points.
func linesAt(doc document.Doc, text string) string {
	runes := []rune(text)
	var out []string
	for line := range doc.Places.Lines() {
		first, _, _ := strings.Cut(string(runes[line.Start:]), "\n")
		at := line.Rect
		out = append(out, fmt.Sprintf("%s: page %d, %d,%d to %d,%d", first, at.Page,
			(at.Left+5)/10, (at.Top+5)/10, (at.Right+5)/10, (at.Bottom+5)/10))
	}
	return strings.Join(out, "; ")
}

// A page that is turned is read, and its lines have places, as it is shown.
func TestLinesHaveTheirPlacesOnPages(t *testing.T) {
	content := documenttest.SmallPDF(") Tj "+at(20, 250, 10, `first \351`)+at(20, 100, 10, "a word that is cut in-")+
		at(20, 88, 10, "side")+"(", ") Tj "+at(20, 200, 10, "next")+"(")
	turned := documenttest.SmallPDF(") Tj /F1 10 Tf 0 1 -1 0 50 20 Tm (first) Tj 0 1 -1 0 65 20 Tm (second) Tj (")
	turned = strings.Replace(turned, "/MediaBox [0 0 300 300]", "/MediaBox [0 0 300 400]/Rotate 90", 1)
	for want, content := range map[string]string{
		"first \u00e9: page 1, 2,4 to 4,5; a word that is cut inside: page 1, 2,19 to 11,21; next: page 2, 2,9 to 4,10; " +
			"300x300": content,
		"first: page 1, 2,4 to 4,5; second: page 1, 2,6 to 5,7; 400x300": turned,
	} {
		doc, text := readPDF(t, content)
		sheets := doc.Places.Sheets()
		require.Len(t, sheets, 1)
		assert.Equal(t, want, fmt.Sprintf("%s; %vx%v", linesAt(doc, text), sheets[0].Width, sheets[0].Height))
	}
}

// Lines that are turned are read in their order, and take their whole room on the page; what is upright comes first.
func TestTurnedTextIsReadAsIfItWereNot(t *testing.T) {
	for name, c := range map[string]struct{ shown, want string }{
		"to the left": {"0 1 -1 0 100 100 Tm (first line) Tj 0 1 -1 0 120 100 Tm (second) Tj ",
			"first line: page 1, 9,17 to 10,20; second: page 1, 11,17 to 12,20"},
		"to the right": {"0 -1 1 0 200 200 Tm (first line) Tj 0 -1 1 0 180 200 Tm (second) Tj ",
			"first line: page 1, 20,10 to 21,13; second: page 1, 18,10 to 19,13"},
		"over": {"-1 0 0 -1 250 100 Tm (first line) Tj -1 0 0 -1 250 120 Tm (second) Tj ",
			"first line: page 1, 22,20 to 25,21; second: page 1, 22,18 to 25,19"},
		"a line alone": {"0 1 -1 0 100 100 Tm (first line) Tj ", "first line: page 1, 9,17 to 10,20"},
		"slanted":      {"0.7 0.7 -0.7 0.7 100 100 Tm (DRAFT 2) Tj ", "DRAFT 2: page 1, 9,16 to 13,20"},
		"beside a table": {"0 1 -1 0 100 100 Tm (cell) Tj 0 1 -1 0 100 160 Tm (next) Tj 1 0 0 1 20 150 Tm (upright) Tj ",
			"upright: page 1, 2,14 to 5,15; cell\tnext: page 1, 9,12 to 10,20"},
	} {
		doc, text := readPDF(t, documenttest.SmallPDF(") Tj /F1 10 Tf "+c.shown+"("))
		got := linesAt(doc, text)
		assert.True(t, got == c.want, "%s: %s, want %s: %q", name, got, c.want, text)
	}
}

func TestAFileThatIsNoPDFIsSaidToBeNone(t *testing.T) {
	cut, _, _ := strings.Cut(documenttest.SmallPDF("x"), "xref\n")
	for content, want := range map[string]string{
		"It is a letter.": "it is not a PDF", cut: "its pages cannot be found", strings.Repeat("junk\n", 2000) + documenttest.SmallPDF("x"): "it is not a PDF",
		strings.Replace(documenttest.SmallPDF("x"), "/Root 1 0 R", "/Root 9 0 R", 1): "its pages cannot be found",
		"%PDF-1.7\nIt is a letter.": "its pages cannot be found",
	} {
		_, err := readers.Parse(strings.NewReader(content), document.PDF, "a.pdf", document.DefaultLimits())
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), "read a.pdf: "+want+" ("), "%q: %v", content, err)
	}
}

// Places come from a process that is not trusted.
func TestPlacesThatAreNoneHaveNoLines(t *testing.T) {
	for _, raw := range []string{"", "\xff", "\xff\xff\xff\xff\x0f", "\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		"\x01\x01"} {
		places := document.Places(raw)
		count := 0
		for range places.Lines() {
			count++
		}
		assert.True(t, count <= 0 && len(places.Sheets()) <= 0, "%q: %d lines", raw, count)
	}
}

// A line that is read from right to left keeps numbers and words of other scripts, which are not.
func TestALineFromRightToLeftIsReadSo(t *testing.T) {
	letters := "/CIDInit /ProcSet findresource begin 12 dict begin begincmap 1 begincodespacerange <00> <ff> " +
		"endcodespacerange 4 beginbfchar <61> <05D0> <62> <05D1> <63> <05D2> <20> <0020> endbfchar endcmap"
	content := documenttest.SmallPDF(") Tj " + at(20, 100, 10, "bca") + at(50, 100, 10, "19") + at(65, 100, 10, "20") +
		at(90, 100, 10, "cab") + "(")
	content = strings.Replace(content, "/Encoding /WinAnsiEncoding", "/ToUnicode 6 0 R /FirstChar 32 /LastChar 32", 1)
	content = strings.Replace(content, "trailer",
		fmt.Sprintf("6 0 obj\n<< /Length %d >>\nstream\n%s\nendstream\nendobj\ntrailer", len(letters), letters), 1)
	_, text := readPDF(t, strings.Replace(content, "startxref", "startxref 0", 1)) // its table is made again
	want := "\u05d1\u05d0\u05d2 19 20 \u05d0\u05d2\u05d1\n\f\n"
	assert.True(t, text == want, "%q, want %q", text, want)
}

// at shows a text at a place in letters of a size.
func at(x, y, size int, text string) string {
	return fmt.Sprintf("/F1 %d Tf 1 0 0 1 %d %d Tm (%s) Tj\n", size, x, y, text)
}

// large gives the pages of a PDF more room.
func large(content string) string {
	return strings.ReplaceAll(content, "/MediaBox [0 0 300 300]", "/MediaBox [0 0 600 800]")
}

// drawn returns the text of a PDF whose pages show what is placed on them.
func drawn(t *testing.T, pages ...string) string {
	t.Helper()
	for i := range pages {
		pages[i] = ") Tj " + pages[i] + "("
	}
	_, text, _, err := documenttest.Read(large(documenttest.SmallPDF(pages...)), document.PDF)
	require.NoError(t, err)
	return text
}

func TestWordsStandTogetherOrApartAsTheyAreShown(t *testing.T) {
	const low, high, level = "/F1 8 Tf -5 Ts ", "/F1 8 Tf 5 Ts ", "/F1 10 Tf 0 Ts "
	for want, shown := range map[string]string{
		"Location: Death Valley\tNumber: SEA08\nEvent:\tInjuries: 1 None\n\f\n": at(20, 700, 10, "Location:") +
			at(100, 700, 10, "Death Valley") + at(300, 700, 10, "Number:") + at(400, 700, 10, "SEA08") +
			at(20, 687, 10, "Event:") + at(300, 687, 10, "Injuries:") + at(400, 687, 10, "1 None"),
		"Safety Board\nexample\nof it\nBold\n\f\n": "/F1 10 Tf 1 0 0 1 20 700 Tm [(Sa) 20 (fety) -300 (Board)] TJ\n" +
			at(20, 688, 10, "exam-") + at(20, 676, 10, "ple of it") + at(20, 664, 10, "Bold") + at(20, 664, 10, "Bold"),
		"Water is H2O on 40 m2 of xi3 by Rosa Vale.12\nThe next line.\n\f\n": at(20, 700, 10, "Water is H") + low +
			"(2) Tj " + level + "(O on 40 m) Tj " + high + "(2) Tj " + level + "( of x) Tj " + low + "(i) Tj " + high +
			"(3) Tj " + level + "( by Rosa Vale.) Tj " + high + "(12) Tj " + level + at(20, 688, 10, "The next line."),
		"first\nmiddle\nlast\n\f\n": at(20, 100, 10, "last") + at(20, 700, 10, "first") + at(20, 400, 10, "middle"),
	} {
		assert.Equal(t, want, drawn(t, shown))
	}
}

func TestAWatermarkIsNoHeading(t *testing.T) {
	page := ""
	for i := range 9 {
		page += at(72, 700-14*i, 11, fmt.Sprintf("line %d of the text about the river", i))
	}
	title, text, _, err := documenttest.Read(large(documenttest.SmallPDF(") Tj "+page+"/F1 60 Tf 0.7 0.7 -0.7 0.7 100 100 Tm (DRAFT) Tj (")), document.PDF)
	assert.True(t, err == nil && !strings.Contains(title, "DRAFT") && strings.HasSuffix(text, "\n\nDRAFT\n\f\n"),
		"%q, %q, %v", title, text, err)
}

func TestLinesBesideALargeLetterStayApart(t *testing.T) {
	got := drawn(t, at(20, 676, 40, "O")+at(54, 700, 11, "nce upon a time")+at(54, 688, 11, "in the valley of Vale")+
		at(54, 676, 11, "a miller lived.")+at(20, 600, 36, "42")+at(80, 612, 9, "mills were counted")+
		at(80, 600, 9, "in the valley"))
	for line := range strings.SplitSeq("nce upon a time|in the valley of Vale|a miller lived.|mills were counted", "|") {
		assert.Contains(t, got, line)
	}
	assert.Contains(t, got, "in the valley\n")
}

func TestColumnsOfRunningTextAreReadOneAfterTheOther(t *testing.T) {
	page := at(20, 740, 10, "A line that goes over both of the columns of this page and is the only one that does")
	for i := range 8 {
		page += at(20, 700-12*i, 10, fmt.Sprintf("left %d runs over the width of it", i))
		page += at(300, 697-12*i, 10, fmt.Sprintf("right %d runs over the width of it", i))
	}
	got := drawn(t, page)
	left, right := strings.Index(got, "left 7"), strings.Index(got, "right 0")
	assert.True(t, left >= 0 && right >= left && !strings.Contains(got, "\t") && strings.HasPrefix(got, "A line"),
		"%q", got)
}

func TestHeadersAndFootersStandOnceAndNumbersOfPagesNever(t *testing.T) {
	var pages []string
	for i := range 4 {
		pages = append(pages, at(20, 750, 10, "The Annual Report")+at(20, 700, 10, fmt.Sprintf("Text of part %c.", 'A'+i))+
			at(20, 680, 10, "More text.")+at(20, 660, 10, fmt.Sprintf("And more of %c.", 'A'+i))+
			at(20, 20, 10, fmt.Sprintf("Page %d of 4", i+1))+
			at(300, 20, 10, fmt.Sprint(100+i)))
	}
	got := drawn(t, pages...)
	for part, want := range map[string]int{"The Annual Report": 1, "Page": 0, "103": 0, "And more of": 4, "\f": 4} {
		assert.Equal(t, want, strings.Count(got, part), "%s in %q", part, got)
	}
}

func TestLargeLettersAreHeadings(t *testing.T) {
	page := at(20, 750, 18, "The") + at(60, 750, 18, "Report") + at(20, 700, 14, "Analysis")
	for i := range 9 {
		page += at(20, 680-12*i, 10, "# the text goes on and on, as texts do")
	}
	got := drawn(t, page)
	assert.True(t, strings.HasPrefix(got, "# The Report\n\n## Analysis\n\n\\# the text"), "%q", got)
	outline := document.NewOutline(document.PDF)
	outline.Add(got)
	headings, pages := outline.End()
	assert.True(t, fmt.Sprint(headings) == "[{0 14 1 The Report} {14 27 2 Analysis}]" && len(pages) == 1,
		"%v %v", headings, pages)
}

// placed shows rows of cells, which a bar divides, in columns of 150 points and lines of some height, from 700 down.
// A row of dashes is a rule.
func placed(step int, rows ...string) string {
	out, y := "", 700
	for _, row := range rows {
		if row == "---" {
			out += fmt.Sprintf("ET 20 %d 560 0.5 re f BT\n", y+step-4)
			continue
		}
		for i, cell := range strings.Split(row, "|") {
			if cell != "" {
				out += at(20+150*i, y, 10, cell)
			}
		}
		y -= step
	}
	return out
}

func TestTablesOfPagesAreRows(t *testing.T) {
	const long = "Text that is as wide as all of the columns of the page are together"
	for name, c := range map[string]struct{ shown, want string }{
		"names of columns": {placed(12, "River|Length|Basin", "Vale|120|3,400", "Thorn|85|1,210", "Ash|64|900", "Elm|31|410"),
			"| River | Length | Basin |\n| --- | --- | --- |\n| Vale | 120 | 3,400 |\n| Thorn | 85 | 1,210 |\n" +
				"| Ash | 64 | 900 |\n| Elm | 31 | 410 |\n\f\n"},
		"an empty cell, and text around": {at(20, 740, 10, long) +
			placed(12, "Vale|120|north", "Thorn||south", "Ash|64|east") + at(20, 652, 10, long),
			long + "\n\n| Vale | 120 | north |\n| Thorn |  | south |\n| Ash | 64 | east |\n\n" + long + "\n\f\n"},
		"names above a rule": {placed(12, "Name|Role|Town", "---", "Ada|writes|Vale", "Eve|reads|Ash", "Kim|counts|Elm"),
			"| Name | Role | Town |\n| --- | --- | --- |\n| Ada | writes | Vale |\n| Eve | reads | Ash |\n" +
				"| Kim | counts | Elm |\n\f\n"},
		"cells of several lines between rules": {placed(12, "Part|Made of", "---", "bolt|steel of the", "|best kind", "---",
			"nut|brass", "---", "pin|wood"),
			"| Part | Made of |\n| bolt | steel of the best kind |\n| nut | brass |\n| pin | wood |\n\f\n"},
		"two columns of which one counts": {placed(12, "Apples|12", "Pears|7", "Plums|31"),
			"| Apples | 12 |\n| Pears | 7 |\n| Plums | 31 |\n\f\n"},
	} {
		assert.Equal(t, c.want, drawn(t, c.shown), name)
	}
}

func TestWhatIsNoTableStaysText(t *testing.T) {
	for name, rows := range map[string][]string{
		"contents": {"Introduction|3", "Methods|12", "Results|40", "Index|212"},
		"parts":    {"A|Introduction|3", "B|Methods|12", "C|Results|40"},
		"axes": {"90|Ash||", "---", "80|||", "---", "70|Elm||", "---", "60|||", "---", "50||Fir|", "---", "40|||", "---",
			"30|||", "---", "20|||Oak"},
		"leaders":              {"1.|Introduction .....|3", "2.|Methods ......|12", "3.|Results .....|40"},
		"a list":               {"1.|Open the valve", "2.|Close the lid", "3.|Wait"},
		"a form":               {"Name:|Ada|Born:|1815", "Town:|Vale|Street:|Mill 3", "State:|open|Since:|1999"},
		"a program":            {"int a;|// count|x", "int b;|// sum|y", "int c;|// mean|z"},
		"texts without a rule": {"Ada|writes|Vale", "Eve|reads|Ash", "Kim|counts|Elm"},
		"names alone":          {"Ada|Eve", "Kim|Lee", "Jo|Max"},
		"text": {"The river was long and|the mill stood on its|bank, where the people",
			"of the valley came to|have their grain made|into flour, and stayed",
			"for a day or longer to|speak of what had been|and of what would be"},
		"two names": {"Name|Role", "---", "Ada|writes", "Eve|reads", "Kim|counts"},
		"two lines": {"River|Length|Basin", "Vale|120|3,400"},
	} {
		got := drawn(t, placed(12, rows...))
		assert.False(t, strings.Contains(got, "|"), "%s: %q", name, got)
	}
}
