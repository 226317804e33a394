package office_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// dashedBelow returns the number of rows above each row of dashes of a text.
func dashedBelow(text string) (out []int) {
	for table := range strings.SplitSeq(text, "\n\n") {
		if names, _, found := strings.Cut(table, "| --- |"); found {
			out = append(out, strings.Count(names, "\n"))
		}
	}
	return out
}

func TestRowsThatNameColumnsAreRecognizedByWhatTheyLookLike(t *testing.T) {
	numbers := ";Oslo|12|2.5 %;Bergen|9|1 %;Hamar|7|3 %"
	texts := ";Ada|Captain|Oslo;Eve|Cook|Bergen;Kay|Mate|Hamar"
	for rows, want := range map[string][]int{
		"Port|Ships|Share" + numbers:                     {1},
		"Port|2025|2026" + numbers:                       {1},
		"|31.12.2025|31.12.2026" + numbers:               {1},
		"Report" + ";Port|Ships|Share" + numbers:         {2},
		"|Ships|Ships;Port|Now|Share" + numbers:          {2},
		"Name|Role|Home" + texts:                         nil, // a row as those below it, as far as their looks tell
		"Port|Ships;Oslo|12;Bergen|9;Hamar|7":            nil, // a name and its value, perhaps
		"Port|2025" + strings.Repeat("|x", 98) + numbers: {1},
		"Port|2025" + strings.Repeat("|x", 99) + numbers: nil, // too many columns to be repeated
		"Tromsø|3|4 %" + numbers:                         nil,
		"Tromsø|n/a|4 %" + numbers:                       nil,
		"Term|Meaning;Bow|Front;Aft|Back;Keel|Spine":     nil, // two columns of texts may be pairs
		"Port|Ships|Share;Oslo|12|2.5 %":                 nil, // too few rows to tell
		"a;b;c;d;Port|Ships|Share" + numbers:             {5},
		"a;b;c;d;e;Port|Ships|Share" + numbers:           nil,
		strings.Repeat("long ", 25) + "|Ships" + numbers: nil,
	} {
		cells := strings.NewReplacer("|", "<td>", ";", "<tr><td>").Replace(rows)
		_, text, _, err := documenttest.Read("<table><tr><td>"+cells+"</table>", document.HTML)
		require.NoError(t, err)
		assert.Equal(t, want, dashedBelow(text), text)
	}
}

func TestRowsThatADocumentMarksNameItsColumns(t *testing.T) {
	for page, want := range map[string][]int{
		"<thead><tr><td>A<td>B<tr><td>C<td>D</thead><tr><td>x<td>y": {2},
		"<tr><td><th>A<th>B<tr><th>x<td>1<td>2":                     {1},
		"<tr><td colspan=2>Title<tr><th>A<th>B<tr><td>x<td>y":       {2},
		"<tr><th>A<th>B":                                                            nil, // nothing stands below
		"<tr><th>A<td>x<tr><th>B<td>y":                                              nil,
		strings.Repeat("<tr><th>A<th>B", 6) + "<tr><td>x<td>y":                      {6},
		strings.Repeat("<tr><th>A<th>B", 7) + "<tr><td>x<td>y":                      nil, // passages repeat six
		"<tr><td>x<td>y<tr><th>A<th>B<tr><td>x<td>y":                                nil,
		strings.Repeat("<tr><th>A<th>B", 20) + "<tr><td>x<td>y":                     nil,
		"<tr><th>A<th>B" + strings.Repeat("<tr><td>x<td>y", 40):                     {1},
		"<tr hidden><th>A<th>B<tr><td>x<td>y</table><table><tr><th>A<th>B<tr><td>x": {1},
	} {
		_, text, _, err := documenttest.Read("<table>"+page+"</table>", document.HTML)
		assert.NoError(t, err)
		assert.Equal(t, want, dashedBelow(text), page)
	}
	row := func(mark string, cells ...string) string {
		out := "<w:tr><w:trPr>" + mark + "</w:trPr>"
		for _, cell := range cells {
			out += "<w:tc>" + p(run(cell)) + "</w:tc>"
		}
		return out + "</w:tr>"
	}
	table := row("<w:tblHeader/>", "A", "B") + row(`<w:tblHeader w:val="0"/>`, "x", "y")
	_, text, _ := office(t, document.DOCX, false, body("<w:tbl>"+table+"</w:tbl>"+p(run("then"))+"<w:tbl>"+table+table+"</w:tbl>"))
	assert.Equal(t, "| A | B | / | --- | --- | / | x | y | / then / | A | B | / | --- | --- | / | x | y | / | A | B | / | x | y |", text)
	inner := "<w:tbl>" + row(`<w:tblHeader w:val="0"/>`, "in") + "</w:tbl>"
	_, text, _ = office(t, document.DOCX, false,
		body("<w:tbl>"+row("<w:tblHeader/>", "A", "B "+inner)+row("", "x", "y")+row("", "z", "0")+"</w:tbl>"))
	assert.Equal(t, "| A | B in | / | --- | --- | / | x | y | / | z | 0 |", text)
}

// A sheet may hold several tables, with empty rows between and within them.
func TestTablesOfASheetHaveTheirNames(t *testing.T) {
	rows := func(first int, values ...string) (out string) {
		for i, row := range values {
			cells := strings.ReplaceAll(row, "|", `</t></is></c><c t="inlineStr"><is><t>`)
			out += fmt.Sprintf(`<row r="%d"><c t="inlineStr"><is><t>%s</t></is></c></row>`, first+i, cells)
		}
		return out
	}
	numbers := []string{"Port|Ships", "Oslo|12", "Bergen|9", "Hamar|7"}
	const named, ports = "| A | B |\n| --- | --- |\n| x | y |", "| Port | Ships |\n| --- | --- |\n| Oslo | 12 |\n| Bergen | 9 |\n| Hamar | 7 |"
	for sheet, want := range map[string]string{
		`<pane ySplit="3" state="frozen"/>` + rows(1, "Fleet") + rows(3, "A|B", "x|y"): "| Fleet |\n" + named,
		`<pane ySplit="1" state="split"/>` + rows(1, "A|B", "x|y"):                     "| A | B |\n| x | y |",
		rows(2, "A|B", "x|y") + `<autoFilter ref="A2:B3"/>`:                            named,
		rows(9, "A|B", "x|y"):                                            named, // by the table at A9
		rows(1, "To|May") + rows(3, numbers...):                          "| To | May |\n\n" + ports,
		rows(1, "Fleet") + rows(3, numbers[0]) + rows(5, numbers[1:]...): "| Fleet |\n\n" + ports,
		rows(1, numbers...) + rows(6, "Sum|28"):                          ports + "\n| Sum | 28 |",
		rows(1, "Name|Role|Home") + rows(3, "Ada|Mate|Oslo", "Eve|Cook|Moss", "Kay|Boy|Hof", "Liv|Help|Ski"): "" +
			"| Name | Role | Home |\n| --- | --- | --- |\n| Ada | Mate | Oslo |\n| Eve | Cook | Moss |\n| Kay | Boy | Hof |\n| Liv | Help | Ski |",
		rows(1, "Ada|Mate|Oslo", "Eve|Cook|Oslo", "Kay|Mate|Hof", "Liv|Help|Ski"):// two values of the first are a row's
		"| Ada | Mate | Oslo |\n| Eve | Cook | Oslo |\n| Kay | Mate | Hof |\n| Liv | Help | Ski |",
		rows(1, numbers...) + rows(6, numbers...): ports + "\n\n" + ports,
	} {
		doc, text, err := documenttest.ReadWhole(documenttest.Zip(
			part{Name: "xl/workbook.xml", Content: `<w><sheet name="S" r:id="a"/></w>`}, rels("xl/workbook.xml", "a", "worksheet", "s.xml"),
			part{Name: "xl/s.xml", Content: "<w>" + sheet + "</w>"}, rels("xl/s.xml", "a", "table", "t.xml", "b", "table", "u.xml"),
			part{Name: "xl/t.xml", Content: `<table ref="A9:B10"/>`}, part{Name: "xl/u.xml", Content: `<table`},
		), document.XLSX, "a.xlsx", document.DefaultLimits())
		assert.True(t, err == nil && doc.Missing == "", "%v, %s: a damaged part of a table has no text", err, doc.Missing)
		assert.Equal(t, "# S\n\n"+want, text)
	}
}
