package extract

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/retrieve/snippet"
)

// Forms of Markdown and of the tags that stay in it. The groups of a pattern are what is hidden; one without groups is
// hidden whole.
var (
	lineMarks = []*regexp.Regexp{
		regexp.MustCompile(`(?m)^[ \t]*(#{1,6}[ \t]+|(?:>[ \t]?)+)`),
		regexp.MustCompile(`(?m)^[ \t]*(\|[ \t]*)`),
		regexp.MustCompile(`(?m)([ \t]*\|)[ \t]*$`),
		regexp.MustCompile(`(?m)^[ \t]*(?:\|?[ \t]*:?-+:?[ \t]*)+\|?[ \t]*$`),
		regexp.MustCompile(`(?m)^[ \t]*(?:={3,}|\*{3,}|_{3,})[ \t]*$`),
	}
	inlineMarks = []*regexp.Regexp{
		regexp.MustCompile(`<!--[\s\S]*?-->|&nbsp;?`),
		regexp.MustCompile(`(?i)</?(?:a|abbr|b|blockquote|br|center|code|dd|del|details|div|dl|dt|em|font|h[1-6]|hr|i|img|ins|kbd|` +
			`li|ol|p|picture|pre|s|small|source|span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul)(?:[ \t\n]+[^<>]*)?/?>`),
		regexp.MustCompile(`!\[[^\]\n]*\](?:\([^)\n]*\)|\[[^\]\n]*\])`),
		regexp.MustCompile(`(\[)[^\[\]\n]*(\]\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\))`),
		regexp.MustCompile(`(\[)[ \t]*!\[[^\]\n]*\](?:\([^)\n]*\)|\[[^\]\n]*\])[ \t]*(\](?:\([^)\n]*\)|\[[^\]\n]*\]))`),
		regexp.MustCompile("(\\\\)[\\\\`*_{}\\[\\]()#+.!|<>~-]"),
		regexp.MustCompile(`(\*\*|__)[^\s*_](?:[^\n]*?[^\s])?(\*\*|__)`),
		regexp.MustCompile(`(?m)(?:^|[\s(])([*_])[^\s*_](?:[^*_\n]*[^\s*_])?([*_])(?:$|[\s),.;:!?])`),
		regexp.MustCompile("(`+)[^`\n]+(`+)"),
		regexp.MustCompile(`[^\s|][ \t]*(\|)[ \t]*[^\s|]`),
	}
	fenced = regexp.MustCompile("(?m)^[ \t]*(?:```|~~~)[^\n]*$")
)

// markup returns the places of a text, in bytes, that are marks of Markdown or tags: what a reader is not shown. Within
// fenced code only the fences are.
func markup(content string) [][2]int {
	var out [][2]int
	fences := fenced.FindAllStringIndex(content, -1)
	at := 0
	for i := 0; i <= len(fences); i += 2 {
		open, end := len(content), len(content)
		if i < len(fences) {
			open = fences[i][0]
			out = append(out, [2]int{open, fences[i][1]})
		}
		if i+1 < len(fences) {
			end = fences[i+1][1]
			out = append(out, [2]int{fences[i+1][0], end})
		}
		for _, form := range slices.Concat(lineMarks, inlineMarks) {
			for _, found := range form.FindAllStringSubmatchIndex(content[at:open], -1) {
				groups := found[2:]
				if len(groups) == 0 {
					groups = found
				}
				for g := 0; g < len(groups); g += 2 {
					out = append(out, [2]int{at + groups[g], at + groups[g+1]})
				}
			}
		}
		at = end
	}
	return joined(out)
}

// joined sorts places and joins those that overlap. Those that only touch stay apart.
func joined(places [][2]int) [][2]int {
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

// Markup returns what of a text is markup, in code points, in order. A hidden "|" parts two cells of a table.
func Markup(content string) []snippet.Span {
	var out []snippet.Span
	at, runes := 0, 0
	count := func(to int) int {
		runes += utf8.RuneCountInString(content[at:to])
		at = to
		return runes
	}
	for _, place := range markup(content) {
		out = append(out, snippet.Span{Start: count(place[0]), End: count(place[1])})
	}
	return out
}

// plain returns a part of a text, in bytes, without its markup and in one line. Cells of a table are parted by dots.
func plain(content string, hidden [][2]int, start, end int) string {
	var out strings.Builder
	for _, place := range hidden {
		if place[1] <= start || place[0] >= end {
			continue
		}
		if place[0] > start {
			out.WriteString(content[start:place[0]])
		}
		if content[place[0]:place[1]] == "|" {
			out.WriteString("·")
		}
		start = min(place[1], end)
	}
	out.WriteString(content[start:end])
	return strings.Join(strings.Fields(out.String()), " ")
}
