package document_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
		"lines of which few are full": {placed(12, "bolt||M8|", "|steel||", "---", "nut|||new", "|brass||", "---", "pin||M4|",
			"|wood||", "---", "cap|||old", "|cork||"),
			"| bolt | steel | M8 |\n| nut | brass |  | new |\n| pin | wood | M4 |\n| cap | cork |  | old |\n\f\n"},
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
		"leaders":     {"1.|Introduction .....|3", "2.|Methods ......|12", "3.|Results .....|40"},
		"a list":      {"1.|Open the valve", "2.|Close the lid", "3.|Wait"},
		"a form":      {"Name:|Ada|Born:|1815", "Town:|Vale|Street:|Mill 3", "State:|open|Since:|1999"},
		"a program":   {"int a;|// count|x", "int b;|// sum|y", "int c;|// mean|z"},
		"names alone": {"Ada|Eve", "Kim|Lee", "Jo|Max"},
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
