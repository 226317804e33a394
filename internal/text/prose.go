package text

import (
	"regexp"
	"strings"
	"unicode"
)

const (
	// wordy is the least share of letters, marks and digits among the signs of a line of prose that are no space. Prose
	// has 0.9 and more, whatever its language; code has half of its signs between names.
	wordy = 0.75
	// value is how many words stand behind a key at most: what is longer is a sentence that a word introduces.
	value = 4
)

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	keyed      = regexp.MustCompile(`^(?:[-*] )?["']?[\w./-]+["']? ?[:=](?: (.*))?$`)
	option     = regexp.MustCompile(`(?:^| )--?[A-Za-z]`)
)

// NotProse gives the lines of a text that say nothing in sentences, as places in bytes, in order, without their line
// breaks: headings and rows of tables of Markdown, fenced code and its fences, shell commands, keys with a short
// value, and lines of which less than three quarters are letters and digits. Code between backticks does
// not count within a line that says more. It is for rules that make sentences of sentences; a line in doubt is prose.
func NotProse(s string) [][2]int {
	var out [][2]int
	fenced := false
	for at := 0; at < len(s); {
		line, _, _ := strings.Cut(s[at:], "\n")
		trimmed := strings.TrimSpace(line)
		fence := strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")
		if fence {
			fenced = !fenced
		}
		if fence || fenced || !proseLine(trimmed) {
			out = append(out, [2]int{at, at + len(line)})
		}
		at += len(line) + 1
	}
	return out
}

func proseLine(line string) bool {
	if line == "" {
		return true
	}
	if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "$ ") ||
		strings.Count(line, " | ") > 1 {
		return false
	}
	if code := inlineCode.ReplaceAllString(line, ""); code != line {
		if !strings.ContainsFunc(code, unicode.IsLetter) {
			return false
		}
		line = inlineCode.ReplaceAllString(line, "code")
	}
	ended := strings.ContainsAny(line[len(line)-1:], ".!?") || strings.HasSuffix(line, "。")
	if !ended {
		if option.MatchString(line) || strings.ContainsAny(line[len(line)-1:], "{}") {
			return false
		}
		if found := keyed.FindStringSubmatch(line); found != nil && len(strings.Fields(found[1])) <= value {
			return false
		}
	}
	words, signs := 0, 0
	for _, r := range line {
		switch {
		case unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r):
			words++
			signs++
		case !unicode.IsSpace(r):
			signs++
		}
	}
	return float64(words) >= wordy*float64(signs)
}

// KeepProse returns a text with blank lines in place of those of NotProse, so that no sentence goes on over them.
func KeepProse(s string) string {
	var out strings.Builder
	at := 0
	for _, place := range NotProse(s) {
		out.WriteString(s[at:place[0]])
		out.WriteString("\n")
		at = place[1]
	}
	out.WriteString(s[at:])
	return out.String()
}
