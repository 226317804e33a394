package document_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
)

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
	_, text, _, err := parse(large(pdf(pages...)), document.PDF)
	require.NoError(t, err)
	return text
}

func TestLabelsAndValuesOfATableStandApart(t *testing.T) {
	got := drawn(t, at(20, 700, 10, "Location:")+at(100, 700, 10, "Death Valley")+at(300, 700, 10, "Number:")+
		at(400, 700, 10, "SEA08")+at(20, 687, 10, "Event:")+at(300, 687, 10, "Injuries:")+at(400, 687, 10, "1 None"))
	want := "Location: Death Valley\tNumber: SEA08\nEvent:\tInjuries: 1 None\n\f\n"
	assert.True(t, got == want, "%q, want %q", got, want)
}

func TestWordsAreToldByTheRoomBetweenThem(t *testing.T) {
	got := drawn(t, "/F1 10 Tf 1 0 0 1 20 700 Tm [(Sa) 20 (fety) -300 (Board)] TJ\n"+
		at(20, 688, 10, "exam-")+at(20, 676, 10, "ple of it")+at(20, 664, 10, "Bold")+at(20, 664, 10, "Bold"))
	want := "Safety Board\nexample\nof it\nBold\n\f\n"
	assert.True(t, got == want, "%q, want %q", got, want)
}

func TestMarksStandInTheirLine(t *testing.T) {
	const low, high, level = "/F1 8 Tf -5 Ts ", "/F1 8 Tf 5 Ts ", "/F1 10 Tf 0 Ts "
	got := drawn(t, at(20, 700, 10, "Water is H")+low+"(2) Tj "+level+"(O on 40 m) Tj "+high+"(2) Tj "+level+
		"( of x) Tj "+low+"(i) Tj "+high+"(3) Tj "+level+"( by Rosa Vale.) Tj "+high+"(12) Tj "+level+
		at(20, 688, 10, "The next line."))
	want := "Water is H2O on 40 m2 of xi3 by Rosa Vale.12\nThe next line.\n"
	assert.True(t, strings.HasPrefix(got, want), "%q, want %q", got, want)
}

func TestAWatermarkIsNoHeading(t *testing.T) {
	page := ""
	for i := range 9 {
		page += at(72, 700-14*i, 11, fmt.Sprintf("line %d of the text about the river", i))
	}
	title, text, _, err := parse(large(pdf(") Tj "+page+"/F1 60 Tf 0.7 0.7 -0.7 0.7 100 100 Tm (DRAFT) Tj (")), document.PDF)
	assert.True(t, err == nil && !strings.Contains(title, "DRAFT") && strings.HasSuffix(text, "\n\nDRAFT\n\f\n"),
		"%q, %q, %v", title, text, err)
}

func TestLinesBesideALargeLetterStayApart(t *testing.T) {
	got := drawn(t, at(20, 676, 40, "O")+at(54, 700, 11, "nce upon a time")+at(54, 688, 11, "in the valley of Vale")+
		at(54, 676, 11, "a miller lived.")+at(20, 600, 36, "42")+at(80, 612, 9, "mills were counted")+
		at(80, 600, 9, "in the valley"))
	for _, line := range []string{"nce upon a time", "in the valley of Vale", "a miller lived.", "mills were counted",
		"in the valley\n"} {
		assert.True(t, strings.Contains(got, line), "%q is not in %q", line, got)
	}
}

func TestLinesComeFromTopToBottomWhateverTheirOrder(t *testing.T) {
	got := drawn(t, at(20, 100, 10, "last")+at(20, 700, 10, "first")+at(20, 400, 10, "middle"))
	want := "first\nmiddle\nlast\n\f\n"
	assert.True(t, strings.ReplaceAll(got, "\n\n", "\n") == want, "%q", got)
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
	if strings.Count(got, "The Annual Report") != 1 || strings.Contains(got, "Page") || strings.Contains(got, "103") ||
		strings.Count(got, "And more of") != 4 || strings.Count(got, "\f") != 4 {
		t.Errorf("%q", got)
	}
}

func TestLargeLettersAreHeadings(t *testing.T) {
	page := at(20, 750, 18, "The") + at(60, 750, 18, "Report") + at(20, 700, 14, "Analysis")
	for i := range 9 {
		page += at(20, 680-12*i, 10, "# the text goes on and on, as texts do")
	}
	got := drawn(t, page)
	assert.True(t, strings.HasPrefix(got, "# The Report\n\n## Analysis\n\n\\# the text"), "%q", got)
	outline, pages := outlineOf(document.PDF, got, 7)
	assert.True(t, outline == "0-14:1:The Report 14-27:2:Analysis" && len(pages) == 1, "%s %v", outline, pages)
}
