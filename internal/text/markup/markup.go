// Package markup finds what of a text no reader is shown: the marks of Markdown and reStructuredText, tags, and
// commands of roff and LaTeX.
package markup

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/text"
)

// inline are the marks of Markdown within a line, and the tags that stay in it, by the character that each begins with.
// The groups of a form are what is hidden; one without groups is hidden whole.
var inline = map[byte]*regexp.Regexp{
	'<': newForm(`<!--.*?-->|</?(?i:a|abbr|b|blockquote|br|center|code|dd|del|details|div|dl|dt|em|font|h[1-6]|hr|i|img|` +
		`ins|kbd|li|ol|p|picture|pre|s|small|source|span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul)` +
		`(?:[ \t]+[^<>]*)?/?>`),
	'&': newForm(`&nbsp;?`),
	'!': newForm(`!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])`),
	'[': newForm(`(\[)[ \t]*!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])[ \t]*(\](?:\([^)]*\)|\[[^\]]*\]))|` +
		`(\[)(?:[^\[\]]|\[[^\[\]]*\])*(\]\([^()]*(?:\([^()]*\)[^()]*)*\))`),
	'\\': newForm("(\\\\)[\\\\`*_{}\\[\\]()#+.!|<>~-]"),
	'`':  newForm("(`)[^`<>]+?( *<[^<>`]*>`__?)|(`+)[^`]+(`+(?:__?\\b)?)"), // of RST a link ends with an underscore
	':':  newForm("(:[a-z][a-z:-]*:`)[^`<>]+?((?: *<[^<>`]*>)?`)"),         // a role of RST
	'*':  newForm(strong),
	'_':  newForm(strong),
}

const (
	strong   = `(\*\*|__)[^\s*_](?:.*?[^\s])?(\*\*|__)`
	emphasis = `([*_])[^\s*_](?:[^*_]*[^\s*_])?([*_])(?:$|[\s),.;:!?])`
)

var (
	strongOrEmphasis = newForm(strong + "|" + emphasis)
	spacedEmphasis   = newForm(`[\s(]` + emphasis) // other than at the start, it stands behind a space or a bracket
)

// referring is a link whose address is defined elsewhere; where a word stands before it, it is an index of code.
// definition is where that is, in Markdown, and target in reStructuredText.
var (
	referring  = newForm(`(\[)[^\[\]]+(\]\[[^\[\]]*\])`)
	definition = newForm(` {0,3}\[[^\[\]^][^\[\]]*\]:[ \t]*(?:<[^<>]*>|(?:[#/]|\S*[/#:@]\S|\S*\.\w)\S*)` +
		`(?:[ \t]+(?:"[^"]*"|'[^']*'|\([^()]*\)))?[ \t]*\r?$`)
	target = newForm(`[ \t]*\.\. _[^:]+:(?:[ \t].*)?\r?$`)
)

func newForm(expression string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + expression + `)`) }

// patience is how many bytes may be looked at for marks, for each byte of a text: the ends of some forms are looked for
// from each of their beginnings, as far as the line goes.
const patience = 8

// reach returns about how many bytes are looked at for a mark at the beginning of a text: found, or in vain.
func reach(rest string, found []int) int {
	end := "]"
	switch mark := rest[0]; {
	case found != nil:
		return found[1] - found[0]
	case strings.HasPrefix(rest, "<!--"):
		end = "-->"
	case strings.HasPrefix(rest, "**"), strings.HasPrefix(rest, "__"):
		if len(rest) == 2 || strings.IndexByte(" \t*_", rest[2]) >= 0 { // it opens nothing
			return 0
		}
		return len(rest)
	case mark == '`':
		behind := strings.TrimLeft(rest, "`")
		if i := strings.IndexByte(behind, '`'); i >= 0 {
			return len(rest) - len(behind) + i
		}
		return len(rest)
	case mark == ':':
		return len(rest) - len(strings.TrimLeft(rest, ":abcdefghijklmnopqrstuvwxyz-"))
	case mark != '[' && !strings.HasPrefix(rest, "!["):
		return 0
	}
	i := strings.Index(rest, end)
	if i < 0 || strings.HasPrefix(rest[i:], "](") {
		return len(rest)
	}
	return i
}

// firstMark returns the places of the first mark of a line, and of its groups; nil where there is none, or nothing is
// left of what may be looked at.
func firstMark(line string, left *int) []int {
	for at := 0; at < len(line) && *left > 0; at++ {
		next := strings.IndexAny(line[at:], "<&![\\`*_:")
		if next < 0 {
			return nil
		}
		at += next
		found := markAt(line, at)
		if *left -= reach(line[at:], found); found != nil {
			return found
		}
	}
	return nil
}

// markAt returns the places of a mark that begins at a place, and of its groups; nil where none does. It tries the
// forms that begin with the character there.
func markAt(line string, at int) []int {
	mark, emphatic := inline[line[at]], line[at] == '*' || line[at] == '_'
	if emphatic && at == 0 {
		mark = strongOrEmphasis
	} else if emphatic {
		if found := spacedEmphasis.FindStringSubmatchIndex(line[at-1:]); found != nil {
			return shiftPlaces(found, at-1)
		}
	}
	if found := mark.FindStringSubmatchIndex(line[at:]); found != nil {
		return shiftPlaces(found, at)
	}
	if line[at] == '[' && (at == 0 || strings.IndexByte(" \t(*_|\"'", line[at-1]) >= 0) {
		if found := referring.FindStringSubmatchIndex(line[at:]); found != nil {
			return shiftPlaces(found, at)
		}
	}
	return nil
}

func shiftPlaces(places []int, by int) []int {
	for i := range places {
		if places[i] >= 0 {
			places[i] += by
		}
	}
	return places
}

// Titling begins a heading of roff or LaTeX, setting a line of roff in another font: of their lines these have text.
var (
	Titling = newForm(`\.S[HS][ \t]+|\\(?:chapter|(?:sub)*section|title)\*?\{`)
	setting = newForm(`\.(?:[BIR][BIR]?|IP)[ \t]+`)
)

// field is a line of RST that names a setting alone.
var field = newForm(`:[a-z-]+:$`)

// parting is a tag that begins or ends a line.
var parting = regexp.MustCompile(`^</?(?i:blockquote|br|center|dd|details|div|dl|dt|h[1-6]|hr|li|ol|p|pre|summary|` +
	`table|tbody|td|th|thead|tr|ul)\b`)

// Find returns the places of a text, in bytes, that are marks of Markdown or tags: what a reader is not shown.
// lines are those that begin or part lines, the others stand within. Of fenced code the fences alone are marks.
func Find(content string) (lines, within [][2]int) {
	fenced, commented, left := false, true, 64<<10+patience*len(content)
	for at := 0; at < len(content); {
		line, _, _ := strings.Cut(content[at:], "\n")
		trimmed := strings.TrimSpace(line)
		if !fenced && commented && strings.HasPrefix(trimmed, "<!--") {
			end := strings.Index(content[at:], "-->")
			if commented = end >= 0; end > len(line) {
				lines = append(lines, [2]int{at, at + end + len("-->")})
				at += end + len("-->")
				continue
			}
		}
		fence := strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")
		if fence {
			fenced = !fenced
		}
		switch {
		case fence || !fenced && (field.MatchString(trimmed) || definition.MatchString(line) || target.MatchString(line) ||
			len(trimmed) > 2 && strings.Trim(trimmed, "|:-=*_ \t") == ""):
			lines = append(lines, [2]int{at, at + len(line)})
		case !fenced:
			lines = append(lines, findLineMarks(line, at)...)
			if strings.ContainsAny(line, "<&[\\`*_") {
				within = append(within, findInnerMarks(line, at, &left)...)
			}
		}
		at += len(line) + 1
	}
	return lines, within
}

// findLineMarks returns the sign of a heading, a quotation or a command, and the bars of a row of a table.
func findLineMarks(line string, at int) (out [][2]int) {
	body := strings.TrimLeft(line, " \t")
	start := len(line) - len(body)
	mark := Titling.FindString(body) + setting.FindString(body)
	switch {
	case body == "":
	case mark != "" || text.IsDirective(body):
		out = append(out, [2]int{at, at + start + len(cmp.Or(mark, body))})
		if strings.HasSuffix(mark, "{") {
			out = append(out, [2]int{at + max(start+len(mark), strings.LastIndexByte(line, '}')), at + len(line)})
		}
	case body[0] == '#':
		if rest := strings.TrimLeft(body, "#"); strings.HasPrefix(rest, " ") {
			out = append(out, [2]int{at, at + len(line) - len(strings.TrimLeft(rest, " "))})
		}
	case body[0] == '>':
		out = append(out, [2]int{at + start, at + len(line) - len(strings.TrimLeft(body, "> \t"))})
	case body[0] == '|':
		for i := start; i < len(line); i++ {
			if line[i] == '|' && (i == 0 || line[i-1] != '\\') {
				out = append(out, [2]int{at + i, at + i + 1})
			}
		}
		out[0][1] += len(body[1:]) - len(strings.TrimLeft(body[1:], " \t"))
		if last := len(out) - 1; last > 0 && out[last][1] == at+len(strings.TrimRight(line, " \t\r")) {
			out[last][0] = at + len(strings.TrimRight(line[:out[last][0]-at], " \t"))
			out[last][1] = at + len(line)
		}
	}
	return out
}

// findInnerMarks returns the marks within a line. It goes on behind a first mark, as there may be others before the
// second.
func findInnerMarks(line string, at int, left *int) (out [][2]int) {
	for from := 0; from < len(line); {
		found := firstMark(line[from:], left)
		if found == nil {
			break
		}
		next := found[1]
		whole := true
		for g := 2; g < len(found); g += 2 {
			if found[g] >= 0 {
				out = append(out, [2]int{at + from + found[g], at + from + found[g+1]})
				if whole {
					next, whole = found[g+1], false
				}
			}
		}
		switch {
		case whole:
			out = append(out, [2]int{at + from + found[0], at + from + found[1]})
		case line[from+next-1] == '\\':
			next++ // what it stands before is no mark
		case line[from+next-1] == '`':
			next = found[1] // nor is code
		}
		from += next
	}
	return out
}

// Join sorts places and joins those that overlap. Those that only touch stay apart.
func Join(places [][2]int) [][2]int {
	slices.SortFunc(places, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], b[1]-a[1]) })
	var out [][2]int
	for _, place := range places {
		if n := len(out); n > 0 && place[0] < out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], place[1])
		} else if place[0] < place[1] {
			out = append(out, place)
		}
	}
	return out
}

// List returns every mark of a text, in bytes.
func List(content string) [][2]int {
	lines, within := Find(content)
	return append(lines, within...)
}

// Blank returns a text with spaces in place of what is hidden.
func Blank(content string, hidden [][2]int) string {
	out := []byte(content)
	for _, place := range hidden {
		for i := place[0]; i < place[1]; i++ {
			out[i] = ' '
		}
	}
	return string(out)
}

// Strip returns a part of a text, in bytes, without its markup and in one line. Cells of a table are parted by
// dots.
func Strip(content string, hidden [][2]int, start, end int) string {
	var out strings.Builder
	first, _ := slices.BinarySearchFunc(hidden, start+1, func(place [2]int, at int) int { return place[1] - at })
	for _, place := range hidden[first:] {
		if place[0] >= end {
			break
		}
		if place[0] > start {
			out.WriteString(content[start:place[0]])
		}
		if mark := content[place[0]:place[1]]; mark == "|" {
			out.WriteString("·")
		} else if parting.MatchString(mark) {
			out.WriteString(" ")
		}
		start = min(place[1], end)
	}
	out.WriteString(content[start:end])
	return strings.Join(strings.Fields(out.String()), " ")
}

// Text returns a text without its markup, in one line.
func Text(content string) string { return Strip(content, Join(List(content)), 0, len(content)) }

// bullets begin an item of a list.
var bullets = regexp.MustCompile(`(?m)^[ \t]*[-*+] +`)

// Prose returns a text without its markup and the bullets of its lists, in one line.
func Prose(content string) string { return Text(bullets.ReplaceAllString(content, "")) }
