package document

import (
	"fmt"
	"strconv"
	"strings"
)

// mostListed is how many ranges of pages a sentence lists.
const mostListed = 50

// NamePages names pages: "page 3 has", "pages 3, 7-9 have".
func NamePages(pages []int, one, many string) string {
	listed, rest := listRanges(pages)
	switch {
	case rest > 0:
		return fmt.Sprintf("pages %s and %d more %s", listed, rest, many)
	case len(pages) == 1:
		return "page " + listed + " " + one
	}
	return "pages " + listed + " " + many
}

// ListPages lists pages as metadata has them: "3, 7-9". Those behind the first ranges become one range.
func ListPages(pages []int) string {
	listed, rest := listRanges(pages)
	if rest > 0 {
		listed += fmt.Sprintf(", %d-%d", pages[len(pages)-rest], pages[len(pages)-1])
	}
	return listed
}

// listRanges lists the first ranges of pages, and says how many pages it leaves out.
func listRanges(pages []int) (listed string, rest int) {
	var ranges []string
	for from := 0; from < len(pages); {
		until := from
		for until+1 < len(pages) && pages[until+1] == pages[until]+1 {
			until++
		}
		if len(ranges) == mostListed {
			return strings.Join(ranges, ", "), len(pages) - from
		}
		text := strconv.Itoa(pages[from])
		if until > from {
			text += "-" + strconv.Itoa(pages[until])
		}
		ranges = append(ranges, text)
		from = until + 1
	}
	return strings.Join(ranges, ", "), 0
}

// FormatCounter returns a number as a list shows it.
func FormatCounter(number int, format string) string {
	switch format {
	case "none":
		return ""
	case "decimalZero":
		if number < 10 {
			return "0" + strconv.Itoa(number)
		}
	case "lowerLetter", "upperLetter":
		if number < 1 || number > 26*26 {
			break
		}
		first := 'a'
		if format == "upperLetter" {
			first = 'A'
		}
		return strings.Repeat(string(first+rune((number-1)%26)), 1+(number-1)/26)
	case "lowerRoman":
		return strings.ToLower(toRoman(number))
	case "upperRoman":
		return toRoman(number)
	}
	return strconv.Itoa(number)
}

func toRoman(number int) string {
	if number < 1 || number > 3999 {
		return strconv.Itoa(number)
	}
	out := ""
	for i, value := range []int{1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1} {
		for ; number >= value; number -= value {
			out += []string{"M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"}[i]
		}
	}
	return out
}
