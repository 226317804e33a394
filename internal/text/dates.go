package text

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Date is a day that a text names, with its place in the text.
type Date struct {
	Place
	Day string // as 2026-06-02
}

// Months are the names of the months in English, German, French, Spanish and Portuguese, as Plain has them.
var Months = [...]string{
	"january januar janvier enero janeiro", "february februar fevrier febrero fevereiro", "march marz mars marzo marco",
	"april avril abril", "may mai mayo maio", "june juni juin junio junho", "july juli juillet julio julho",
	"august aout agosto", "september septembre septiembre setembro", "october oktober octobre octubre outubro",
	"november novembre noviembre novembro", "december dezember decembre diciembre dezembro",
}

// dated are the forms of a day with its month and year: 2 June 2026, June 2, 2026, 2026-06-02 and 02.06.2026.
var dated = regexp.MustCompile(`(?i)\b(?:` +
	`(\d{1,2})(?:\.|st|nd|rd|th|er)? (?:of |de )?(\p{L}{3,10})\.?,? (?:de )?(\d{4})\b|` +
	`(\p{L}{3,10})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})\b|(\d{4})-(\d\d)-(\d\d)|(\d{1,2})\.(\d{1,2})\.(\d{4})\b)`)

// Dates returns the days that a text names, in order.
func Dates(s string) (out []Date) {
	for _, found := range dated.FindAllStringSubmatchIndex(s, -1) {
		group := func(n int) string { return s[max(found[2*n], 0):max(found[2*n+1], 0)] }
		month := monthOf(group(2) + group(4))
		if month == 0 {
			month, _ = strconv.Atoi(group(8) + group(11))
		}
		day, _ := strconv.Atoi(group(1) + group(5) + group(9) + group(10))
		if 0 < month && month <= 12 && 0 < day && day <= 31 {
			year := group(3) + group(6) + group(7) + group(12)
			out = append(out, Date{Place{found[0], found[1]}, fmt.Sprintf("%s-%02d-%02d", year, month, day)})
		}
	}
	return out
}

// monthly are the forms of a month with its year: May 2024, 2024-05 and 05/2024.
var monthly = regexp.MustCompile(`\b(?:(\p{L}{3,10})\.?,? (?:of |de )?(\d{4})|(\d{4})-(\d\d)|(\d{1,2})/(\d{4}))\b`)

// MonthsOf returns the months that a text names with their years, by their names, as 2024-05. Those of its days count.
func MonthsOf(s string) map[string]string {
	out := map[string]string{}
	for _, date := range Dates(s) {
		out[date.Day[:len("2024-05")]] = s[date.Start:date.End]
	}
	for _, found := range monthly.FindAllStringSubmatch(s, -1) {
		month := monthOf(found[1])
		if month == 0 {
			month, _ = strconv.Atoi(found[4] + found[5])
		}
		if 0 < month && month <= 12 {
			out[fmt.Sprintf("%s-%02d", found[2]+found[3]+found[6], month)] = found[0]
		}
	}
	return out
}

// monthOf returns the month of a name or of its beginning, 0 for none.
func monthOf(name string) int {
	plain := english.PlainForm(name)
	for i, names := range Months {
		if name != "" && strings.Contains(" "+names, " "+plain) {
			return i + 1
		}
	}
	return 0
}

// WithDays returns a text with the days that it names in other forms behind it.
func WithDays(s string) string {
	out := s
	for _, date := range Dates(s) {
		if s[date.Start:date.End] != date.Day {
			out += " " + date.Day
		}
	}
	return out
}
