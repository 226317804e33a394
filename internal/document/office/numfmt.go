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

// usualFormats are those that have a number of their own.
var usualFormats = map[int]string{
	1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 14: "d", 15: "d", 16: "d",
	17: "d", 18: "h", 19: "h:s", 20: "h", 21: "h:s", 22: "d h", 27: "d", 28: "d", 29: "d", 30: "d", 31: "d", 32: "h",
	33: "h:s", 34: "h", 35: "h:s", 36: "d", 37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)",
	40: "#,##0.00;(#,##0.00)", 41: "#,##0;(#,##0);-", 42: "$#,##0;$(#,##0);-", 43: "#,##0.00;(#,##0.00);-",
	44: "$#,##0.00;$(#,##0.00);-", 45: "h:s", 46: "[h]:s", 47: "h:s", 48: "0.0E+0", 50: "d", 51: "d", 52: "d",
	53: "d", 54: "d", 55: "h", 56: "h:s", 57: "d", 58: "d",
}

// maxFormat is the length of the longest code of a format.
const maxFormat = 255

// formatPiece finds the pieces of a code: texts, what a bracket says, dates and times, places of digits.
var formatPiece = regexp.MustCompile(
	`(?is)"[^"]*"|\\.|_.|\*.|\[[^\]]*\]|general|am/pm|a/p|y+|m+|d+|h+|s+(?:\.0+)?|e[+-]|.`)

// numberFormat is how numbers are shown: its sections for what is above zero, below, and zero. One without sections
// shows them as they are.
type numberFormat []formatSection

// formatSection is a section of the code of a format.
type formatSection struct {
	plain bool // it says more than is read here: the format shows numbers as they are

	month, day, clock, seconds, elapsed bool // parts of a date or time, or time that went by

	digits, point, grouped, exponent bool
	whole, least, most               int    // digits before the point, and behind it
	percent, scale                   int    // hundreds that are shown, and thousands that are not
	before, behind                   string // texts around the number
}

// readFormat reads the code of a format.
func readFormat(code string) (out numberFormat) {
	if code == "" || code == "@" || strings.EqualFold(code, "general") {
		return nil
	}
	part := formatSection{}
	for _, piece := range formatPiece.FindAllString(code, -1) {
		if piece == ";" {
			out, part = append(out, part), formatSection{}
			continue
		}
		part.addPiece(strings.ToLower(piece), piece)
	}
	if out = append(out, part); slices.ContainsFunc(out, func(s formatSection) bool { return s.plain }) {
		return nil // sections with conditions are not chosen by the sign
	}
	return out
}

// addPiece takes the next piece; low is the same in small letters.
func (s *formatSection) addPiece(low, piece string) {
	switch begins := low[0]; {
	case low == "general", low == "/" && s.digits: // or a fraction
		s.plain = true
	case begins == 'y', begins == 'd':
		s.day = true
	case begins == 'm':
		s.month = true
	case begins == 'h', len(low) > 1 && begins == 'a':
		s.clock = true
	case begins == 's':
		s.clock, s.seconds = true, true
	case begins == '0', begins == '#', begins == '?':
		s.addDigit(begins == '0')
	case low == ".":
		s.point = true
	case low == "," && s.digits:
		s.scale++ // unless digits follow
	case low == ",", low == "[": // one that nothing closes
	case len(low) == 2 && begins == 'e':
		s.exponent = true
	case low == "%":
		s.percent++
		s.addText(piece)
	case begins == '[':
		unit := strings.Trim(low, "[hms]")
		s.elapsed = s.elapsed || unit == ""
		s.seconds = s.seconds || low[1] == 's'
		s.plain = s.plain || strings.ContainsAny(unit, "<>=") // a condition
		currency, _, _ := strings.Cut(strings.TrimPrefix(strings.Trim(piece, "[]"), "$"), "-")
		if strings.HasPrefix(unit, "$") {
			s.addText(currency)
		}
	case begins == '"':
		s.addText(strings.Trim(piece, `"`))
	case len(low) > 1 && begins == '\\':
		s.addText(piece[1:])
	case len(low) > 1 && begins == '_':
		s.addText(" ")
	case len(low) > 1 && begins == '*':
	default:
		s.addText(piece)
	}
}

// addDigit takes a place of a digit, which is always filled or not.
func (s *formatSection) addDigit(filled bool) {
	s.plain = s.plain || strings.TrimSpace(s.behind) != "" // digits with text between them
	switch {
	case s.exponent:
	case s.point:
		if s.most++; filled {
			s.least = s.most
		}
	case filled:
		s.whole++
	}
	s.grouped = s.grouped || s.scale > 0
	s.digits, s.scale = true, 0
}

func (s *formatSection) addText(text string) {
	if s.digits {
		s.behind += text
	} else {
		s.before += text
	}
}

// formatNumber shows a number; ok is false where the format says nothing of it.
func (f numberFormat) formatNumber(number float64, since time.Time) (shown string, ok bool) {
	if len(f) == 0 {
		return "", false
	}
	part, size := f[0], math.Abs(number)
	sign := ""
	switch {
	case len(f) > 1 && number < 0:
		part = f[1]
	case len(f) > 2 && number == 0:
		part = f[2]
	case number < 0:
		sign = "-"
	}
	switch {
	case part.month || part.day || part.clock || part.elapsed:
		return part.formatMoment(number, since)
	case part.digits:
		digits := part.formatDigits(size * math.Pow(100, float64(part.percent)) / math.Pow(1000, float64(part.scale)))
		if strings.Trim(digits, "0.,") == "" {
			sign = ""
		}
		shown = sign + part.before + digits + part.behind
	default:
		shown = part.before
	}
	return strings.TrimSpace(shown), true
}

// leapDay is the number of the 29 February 1900, which spreadsheets count though it never was; lastDay, the last one
// that a date can have: the end of the year 9999.
const (
	leapDay = 60
	lastDay = 2_958_466
)

// formatMoment shows a number of days as a date and a time in the form of ISO 8601, or as time that went by.
func (s formatSection) formatMoment(number float64, since time.Time) (shown string, ok bool) {
	dated := s.day || s.month && !s.clock && !s.elapsed
	if number < 0 || number >= lastDay || dated && since.Year() < 1900 && math.Floor(number) == leapDay {
		return "", false
	}
	seconds := int(math.Round(number * 86_400))
	if s.elapsed {
		if shown = fmt.Sprintf("%d:%02d", seconds/3600, seconds/60%60); s.seconds {
			shown += fmt.Sprintf(":%02d", seconds%60)
		}
		return shown, true
	}
	if number < leapDay && since.Year() < 1900 {
		since = since.AddDate(0, 0, 1)
	}
	moment := since.AddDate(0, 0, seconds/86_400).Add(time.Duration(seconds%86_400) * time.Second)
	layout := ""
	if dated {
		layout = time.DateOnly + " "
	}
	if s.clock {
		layout += "15:04"
	}
	if s.seconds {
		layout += ":05"
	}
	return moment.Format(strings.TrimSpace(layout)), true
}

// formatDigits shows a number that is not below zero with its decimals and thousands.
func (s formatSection) formatDigits(number float64) string {
	if s.exponent {
		return strconv.FormatFloat(number, 'E', s.most, 64)
	}
	if ten := math.Pow(10, float64(s.most)); number*ten < 1e15 { // halves are rounded as people do it
		number = math.Round(number*ten*(1+1e-15)) / ten
	}
	digits, decimals, _ := strings.Cut(strconv.FormatFloat(number, 'f', s.most, 64), ".")
	for len(decimals) > s.least && strings.HasSuffix(decimals, "0") {
		decimals = decimals[:len(decimals)-1]
	}
	digits = strings.TrimLeft(digits, "0")
	digits = strings.Repeat("0", max(0, s.whole-len(digits))) + digits
	for at := len(digits) - 3; s.grouped && at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	if decimals != "" {
		decimals = "." + decimals
	}
	return digits + decimals
}
