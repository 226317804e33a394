package office

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usualFormats are those that have a number of their own. Dates in the form of the reader's country are ISO 8601 here.
var usualFormats = map[int]string{
	1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 14: isoDay, 15: "d-mmm-yy",
	16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: isoDay + " hh:mm",
	27: isoDay, 28: isoDay, 29: isoDay, 30: isoDay, 31: isoDay, 32: "h:mm", 33: "h:mm:ss", 34: "h:mm", 35: "h:mm:ss",
	36: isoDay, 37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)",
	41: "#,##0;(#,##0);-", 42: "$#,##0;$(#,##0);-", 43: "#,##0.00;(#,##0.00);-", 44: "$#,##0.00;$(#,##0.00);-",
	45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 50: isoDay, 51: isoDay, 52: isoDay, 53: isoDay,
	54: isoDay, 55: "h:mm", 56: "h:mm:ss", 57: isoDay, 58: isoDay,
}

const isoDay = "yyyy-mm-dd"

// maxFormat is the length of the longest code of a format.
const maxFormat = 255

// formatPiece finds the pieces of a code: texts, what a bracket says, dates and times, places of digits.
var formatPiece = regexp.MustCompile(
	`(?i)^(?:"[^"]*"|\\.|_.|\*.|\[[^\]]*\]|general|am/pm|a/p|y+|m+|d+|h+|s+(?:\.0+)?|e[+-]|.)`)

// numberFormat is how numbers are shown: its parts for what is above zero, below, zero, and texts, each in pieces. One
// without parts shows them as they are.
type numberFormat [][]string

// readFormat reads the code of a format.
func readFormat(code string) numberFormat {
	if code == "" || code == "@" || strings.EqualFold(code, "general") {
		return nil
	}
	out := numberFormat{nil}
	for code != "" {
		piece := formatPiece.FindString(code)
		if piece == "" {
			piece = code // a line end, which no format has
		}
		code = code[len(piece):]
		if piece == ";" {
			out = append(out, nil)
			continue
		}
		out[len(out)-1] = append(out[len(out)-1], piece)
	}
	return out
}

// formatNumber shows a number; ok is false where the format says nothing of it.
func (f numberFormat) formatNumber(number float64, since time.Time) (shown string, ok bool) {
	if len(f) == 0 {
		return "", false
	}
	pieces, signed := f.chooseSection(number)
	if signed {
		number = math.Abs(number)
	}
	dated, counted := false, false
	for i, piece := range pieces {
		if strings.EqualFold(piece, "general") || piece == "/" && i > 0 && strings.ContainsAny(pieces[i-1], "?#0") {
			return "", false // or a fraction
		}
		dated = dated || isMoment(piece)
		counted = counted || strings.ContainsAny(piece[:1], "0#?")
	}
	switch {
	case dated && (number < 0 || number >= lastDay),
		dated && since.Year() < 1900 && math.Floor(number) == leapDay && dayOf(pieces):
		return "", false
	case dated:
		return strings.TrimSpace(formatMoment(number, pieces, since)), true
	case counted:
		return strings.TrimSpace(formatDigits(number, pieces)), true
	}
	for _, piece := range pieces {
		shown += literalOf(piece)
	}
	return strings.TrimSpace(shown), true
}

var condition = regexp.MustCompile(`^\[(<=|>=|<>|<|>|=)(-?[0-9.]+)\]$`)

// chooseSection gives the part that a number is shown by, and whether that part says its sign.
func (f numberFormat) chooseSection(number float64) (pieces []string, signed bool) {
	for i, section := range f {
		for _, piece := range section {
			if found := condition.FindStringSubmatch(piece); found != nil {
				bound, _ := strconv.ParseFloat(found[2], 64)
				if map[string]bool{
					"<": number < bound, ">": number > bound, "=": number == bound, "<>": number != bound,
					"<=": number <= bound, ">=": number >= bound,
				}[found[1]] {
					return section, i > 0
				}
				if i+1 < len(f) {
					return f[i+1], true
				}
			}
		}
	}
	switch {
	case len(f) > 1 && number < 0:
		return f[1], true
	case len(f) > 2 && number == 0:
		return f[2], false
	}
	return f[0], false
}

func isMoment(piece string) bool {
	if strings.HasPrefix(piece, "[") {
		return elapsed.MatchString(piece)
	}
	return strings.ContainsAny(piece[:1], "yYmMdDhHsS") || len(piece) > 1 && strings.ContainsAny(piece[:1], "aA")
}

var elapsed = regexp.MustCompile(`(?i)^\[(h+|m+|s+)\]$`)

// literalOf returns what a piece shows that stands for no part of a number.
func literalOf(piece string) string {
	switch piece[0] {
	case '"':
		return strings.Trim(piece, `"`)
	case '\\':
		return piece[1:]
	case '_':
		return " "
	case '*':
		return ""
	case '[':
		if currency, ok := strings.CutPrefix(piece, "[$"); ok {
			currency, _, _ = strings.Cut(strings.TrimSuffix(currency, "]"), "-")
			return currency
		}
		return ""
	}
	return piece
}

// leapDay is the number of the 29 February 1900, which spreadsheets count though it never was.
const leapDay = 60

// dayOf reports whether a format shows a day.
func dayOf(pieces []string) bool {
	return slices.ContainsFunc(pieces, func(piece string) bool { return strings.ContainsAny(piece[:1], "dDyY") })
}

// formatMoment shows a number of days as a date, a time, or time that went by.
func formatMoment(number float64, pieces []string, since time.Time) string {
	day, part := math.Modf(number)
	if day < leapDay && since.Year() < 1900 {
		since = since.AddDate(0, 0, 1)
	}
	fraction := time.Duration(math.Round(part*86_400_000)) * time.Millisecond
	moment := since.AddDate(0, 0, int(day)).Add(fraction)
	if !strings.Contains(strings.Join(pieces, ""), ".0") {
		moment = moment.Round(time.Second)
	}
	passed := time.Duration(day)*24*time.Hour + fraction.Round(time.Second)
	half := false
	for _, piece := range pieces {
		half = half || strings.EqualFold(piece, "am/pm") || strings.EqualFold(piece, "a/p")
	}
	out, behind := "", "" // behind is the unit before
	for i, piece := range pieces {
		unit := strings.ToLower(piece)
		if !isMoment(piece) {
			out += literalOf(piece)
			continue
		}
		switch unit[0] {
		case 'm':
			if behind == "h" || len(unit) <= 2 && nextUnit(pieces[i+1:]) == "s" {
				out += fmt.Sprintf("%0*d", len(unit), moment.Minute())
			} else {
				out += moment.Format(map[int]string{1: "1", 2: "01", 3: "Jan", 4: "January", 5: "Jan"}[min(len(unit), 5)])
			}
		case 'y':
			out += moment.Format(map[bool]string{true: "06", false: "2006"}[len(unit) <= 2])
		case 'd':
			out += moment.Format(map[int]string{1: "2", 2: "02", 3: "Mon", 4: "Monday"}[min(len(unit), 4)])
		case 'h':
			hour := moment.Hour()
			if half {
				hour = (hour+11)%12 + 1
			}
			out += fmt.Sprintf("%0*d", len(unit), hour)
		case 's':
			whole, rest, _ := strings.Cut(unit, ".")
			if out += fmt.Sprintf("%0*d", len(whole), moment.Second()); rest != "" {
				out += fmt.Sprintf(".%03d", moment.Nanosecond()/1_000_000)[:1+min(len(rest), 3)]
			}
		case 'a':
			out += moment.Format("PM")
		case '[':
			each := map[byte]time.Duration{'h': time.Hour, 'm': time.Minute, 's': time.Second}[unit[1]]
			out += fmt.Sprintf("%0*d", len(unit)-2, passed/each)
			unit = unit[1:]
		}
		behind = unit[:1]
	}
	return out
}

func nextUnit(pieces []string) string {
	for _, piece := range pieces {
		if isMoment(piece) {
			return strings.ToLower(strings.TrimPrefix(piece, "["))[:1]
		}
	}
	return ""
}

// formatDigits shows a number with its decimals, thousands, percent and what stands around it.
func formatDigits(number float64, pieces []string) string {
	var whole, part, scientific int // places that are always filled
	var most, scale int             // of decimals; thousands that are not shown
	point, grouped, exponent, first := false, false, false, -1
	for i, piece := range pieces {
		switch piece[0] {
		case '0', '#', '?':
			switch {
			case exponent:
				scientific++
			case point:
				if most++; piece == "0" {
					part = most
				}
			case piece == "0":
				whole++
			}
			if first < 0 {
				first = i
			}
			grouped = grouped || scale > 0
			scale = 0
		case '.':
			point, first = true, max(first, 0)
		case ',':
			if first >= 0 {
				scale++
			}
		case '%':
			number *= 100
		case 'e', 'E':
			exponent = len(piece) == 2
		}
	}
	number /= math.Pow(1000, float64(scale))
	size := math.Abs(number)
	text := strconv.FormatFloat(size, 'f', most, 64)
	switch ten := math.Pow(10, float64(most)); {
	case exponent:
		text = strconv.FormatFloat(size, 'E', most, 64)
	case size*ten < 1e15: // halves are rounded as people do it
		text = strconv.FormatFloat(math.Round(size*ten*(1+1e-15))/ten, 'f', most, 64)
	}
	text, power, _ := strings.Cut(text, "E")
	digits, decimals, _ := strings.Cut(text, ".")
	for len(decimals) > part && strings.HasSuffix(decimals, "0") {
		decimals = decimals[:len(decimals)-1]
	}
	if digits = strings.TrimLeft(digits, "0"); len(digits) < whole {
		digits = strings.Repeat("0", whole-len(digits)) + digits
	}
	return assembleDigits(pieces, shownDigits{
		digits, decimals, power, grouped, scientific, number < 0 && strings.Trim(digits+decimals, "0") != "",
	})
}

// shownDigits are those of a number, and how they are shown.
type shownDigits struct {
	whole, part, power string
	grouped            bool
	scientific         int // digits of the power
	negative           bool
}

// assembleDigits puts digits where the pieces of a code have places for them.
func assembleDigits(pieces []string, shown shownDigits) string {
	places := 0 // for digits before the point
	for _, piece := range pieces {
		if piece == "." || len(piece) == 2 && (piece[0] == 'e' || piece[0] == 'E') {
			break
		}
		if strings.ContainsAny(piece[:1], "0#?") {
			places++
		}
	}
	if shown.grouped {
		for at := len(shown.whole) - 3; at > 0; at -= 3 {
			shown.whole = shown.whole[:at] + "," + shown.whole[at:]
		}
		places = 1
	}
	out, left, part := "", shown.whole, shown.part
	if shown.negative {
		out = "-"
	}
	point, exponent := false, false
	for _, piece := range pieces {
		switch {
		case strings.ContainsAny(piece[:1], "0#?"):
			if point || exponent || places == 0 {
				continue
			}
			places--
			take := max(len(left)-places, 0)
			out, left = out+left[:take], left[take:]
		case piece == ".":
			if point = true; part != "" {
				out += "." + part
			}
		case piece == ",":
		case len(piece) == 2 && (piece[0] == 'e' || piece[0] == 'E'):
			exponent = true
			power, _ := strconv.Atoi(shown.power)
			sign := ""
			if power < 0 {
				sign = "-"
			} else if piece[1] == '+' {
				sign = "+"
			}
			out += "E" + sign + fmt.Sprintf("%0*d", shown.scientific, max(power, -power))
		default:
			out += literalOf(piece)
		}
	}
	return out
}
