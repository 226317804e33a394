package extract

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/markup"
)

// Kinds of pieces.
const (
	sentence = iota
	row      // of a table or a list, or a line of code
	head
	header // of a table
	debris
)

type piece struct {
	text  string
	kind  int
	start int // bytes of the passage
	end   int
	apart bool // a blank line stands before it, or it goes on from nothing
	cells bool // one of many rows of a table, lines of a list or entries of a log
	alone bool // a line that may be read by itself: one of several without a sign at the end
}

const ends = ".!?…。！？؟।॥"

// hanging is a long line with the indentation of the next one, which hides from Statements that the line goes on.
var hanging = regexp.MustCompile(`([^\n]{60})\n([ \t]+)`)

// cutPassage returns the sentences, rows, lines and headings of a passage without markup.
func cutPassage(language *text.Language, passage Passage) []piece {
	content := passage.Text
	lines, within := markup.Find(content)
	split := language.Statements(hanging.ReplaceAllString(markup.Blank(content, markup.Join(within)), "$1$2\n"))
	hidden := markup.Join(append(lines, within...))
	code := text.NotProse(content)
	var out []piece
	at, apart, open := 0, false, false
	for _, statement := range split {
		start, end := at, at+len(statement)
		at = end
		shown := markup.Strip(content, hidden, start, end)
		trimmed := strings.TrimSpace(statement)
		behind := statement[len(strings.TrimRightFunc(statement, unicode.IsSpace)):]
		rest := content[end-len(behind):]
		gap := rest[:len(rest)-len(strings.TrimLeftFunc(rest, unicode.IsSpace))]
		blank := strings.Count(gap, "\n") > 1
		next := piece{text: shown, start: start, end: end - len(behind)}
		stamped := text.IsStamped(trimmed)
		next.cells, next.apart = stamped || strings.HasPrefix(trimmed, "|"), apart || stamped
		last := strings.TrimRight(trimmed, "\"'”’»)*_]`")
		ended := last != "" && (strings.ContainsRune(ends, lastRune(last)) || unicode.In(lastRune(last), unsigned...))
		silent := slices.ContainsFunc(code, func(line [2]int) bool {
			return line[0] < end && start < line[1]
		})
		switch {
		case !text.HasContent(shown), salutation.MatchString(shown):
			if n := len(out); n > 0 && out[n-1].kind == row && strings.Trim(trimmed, "|:- ") == "" && len(trimmed) > 1 {
				out[n-1].kind = header
			}
			apart = apart || blank || shown != ""
			continue
		case stamped:
			next.kind = sentence
		case strings.HasPrefix(trimmed, "#"), markup.Titling.MatchString(trimmed), shown == passage.Title,
			slices.Contains(passage.Heading, shown):
			next.kind = head
		case next.cells || silent && !ended:
			next.kind = row
		case ended:
			next.kind = sentence
			next.text = trimBullet(next.text)
		case isListItem(trimmed) || isKeyValue(shown):
			next.kind = row
			next.text = trimBullet(next.text)
		case blank && utf8.RuneCountInString(shown) < longestLine:
			next.kind = head
		default:
			next.kind = debris
		}
		next.alone = next.kind != sentence && !next.cells && (isKeyValue(shown) || isThought(language, trimmed))
		if n := len(out); n > 0 && next.alone && out[n-1].alone && !next.apart {
			next.kind, out[n-1].kind = row, row
			next.cells, out[n-1].cells = !isKeyValue(shown), !isKeyValue(out[n-1].text)
		}
		if open && next.kind == sentence && !next.apart && out[len(out)-1].kind == debris && !isListItem(trimmed) {
			out[len(out)-1].text += chooseSeparator(out[len(out)-1].text, next.text) + next.text
			out[len(out)-1].kind, out[len(out)-1].end = sentence, next.end
		} else {
			out = append(out, next)
		}
		open = next.kind == debris
		apart = blank
	}
	for i := 1; i+1 < len(out); i++ { // a first row of words above one of figures
		if out[i].cells && !out[i-1].cells && out[i+1].cells && strings.Count(out[i].text, " · ") > 1 &&
			!strings.ContainsFunc(out[i].text, unicode.IsDigit) && strings.ContainsFunc(out[i+1].text, unicode.IsDigit) {
			out[i].kind = header
		}
	}
	return out
}

// salutation is a line that opens a letter.
var salutation = regexp.MustCompile(`^(?i:dear|hi|hello|hallo|liebe|lieber|sehr geehrte|guten tag|bonjour|chère?|` +
	`estimad[oa]s?|hola|querid[oa]s?|prezad[oa]s?|olá)[ ,][^.?]{0,40}[,:!]?$`)

// longestLine is the length below which a line without a sign at its end may be a heading, or one of a list.
const longestLine = 80

// isThought reports whether a statement is a short line without a sign at its end that does not go on in the next one.
func isThought(language *text.Language, line string) bool {
	if strings.Contains(line, "\n") || strings.HasPrefix(line, "#") || utf8.RuneCountInString(line) >= longestLine {
		return false
	}
	last := line[strings.LastIndexByte(line, ' ')+1:]
	return !strings.ContainsRune(",:;-", lastRune(last)) && goingOn[language.PlainForm(last)] == 0
}

// goingOn are words that end a line only where the next one goes on with it.
var goingOn = wordsOf(map[uint64]string{1: `the a an of by and or with from for to is was der die das den dem des ein
eine einen einem einer von vom und oder mit fur im zum zur ist le la les du de et ou el los las y o do da e um uma`})

// shortHead is the length below which a line without an end, before one that begins with a capital, is its heading.
const shortHead = 50

// chooseSeparator returns what stands between a line that does not end and the next one.
func chooseSeparator(line, next string) string {
	first, _ := utf8.DecodeRuneInString(next)
	if unicode.IsUpper(first) && utf8.RuneCountInString(line) < shortHead && unicode.IsLetter(lastRune(line)) {
		return ": "
	}
	return " "
}

// unsigned are scripts whose sentences end with no sign.
var unsigned = []*unicode.RangeTable{unicode.Thai, unicode.Lao, unicode.Khmer}

func lastRune(s string) rune { r, _ := utf8.DecodeLastRuneInString(s); return r }

func isListItem(line string) bool {
	return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || strings.HasPrefix(line, "+ ")
}

func trimBullet(s string) string {
	if isListItem(s) {
		return s[2:]
	}
	return s
}

// isKeyValue reports whether a line is a key with its value.
func isKeyValue(line string) bool {
	key, value, found := strings.Cut(line, ": ")
	return found && len(strings.Fields(key)) <= 4 && strings.TrimSpace(value) != ""
}
