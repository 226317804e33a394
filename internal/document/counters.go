package document

import (
	"strconv"
	"strings"
)

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
