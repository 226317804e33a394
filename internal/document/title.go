package document

import (
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// ownTitle is the title that a program wrote into a document, or nothing where it is that of a template or a file.
func ownTitle(title string) string {
	title = strings.TrimSpace(title)
	low := strings.ToLower(title)
	for _, none := range []string{"untitled", "microsoft word - ", "microsoft powerpoint - ", "powerpoint presentation",
		"word document", "document1", "slide 1", "(anonymous)", "none"} {
		if low == strings.TrimSpace(none) || strings.HasSuffix(none, "- ") && strings.HasPrefix(low, none) {
			return ""
		}
	}
	if strings.ContainsAny(title, `\/`) && !strings.Contains(title, " ") || fileName.MatchString(low) {
		return ""
	}
	return title
}

// fileName is a name with the extension of a type of document, and no blank.
var fileName = regexp.MustCompile(`^[^ ]+\.(docx?|pptx?|xlsx?|odt|pdf|rtf|txt|tex|dvi|html?|indd|qxd|p65|cdr|eps|ps)$`)

// pageMark is what a page prints of itself; it names no document.
var pageMark = regexp.MustCompile(`(?i)^(page )?[0-9]+( of [0-9]+)?$`)

// maxTitleLine is the longest first line that counts as a title (docs/contract.md, Class text and titles).
const maxTitleLine = 150

// TitleOf gives a document its title: the given one, else the first heading, else the first line that is apart from
// what follows and no sentence (of a record: that is short), else the file's name. head is the start of the decoded
// text. Whatever it is, it is one line of at most limits.Title runes.
func TitleOf(given, head string, kind Kind, object string, limits Limits) string {
	limits = limits.Whole()
	if title := cutTitle(given, limits.Title); title != "" {
		return title
	}
	return cutTitle(titleFrom(head, kind, object), limits.Title)
}

func titleFrom(head string, kind Kind, object string) string {
	outline := NewOutline(kind)
	outline.Add(head)
	if headings, _ := outline.End(); len(headings) > 0 {
		return headings[0].Text
	}
	if line := firstLine(head, kind.HasRows() || kind == JSON); line != "" {
		return line
	}
	return path.Base(object)
}

// A line of a paragraph that goes on is hardly shorter than this, in runes, or than so much of the next line.
const (
	shortLine      = 40
	shortLineShare = 0.6
)

// firstLine is the first line of a text where it looks like a title: no sentence, and apart from what follows, by an
// empty line or by being short. Of a record any short line is one: as its fields are named, its text is no page.
func firstLine(head string, record bool) string {
	lines := strings.Split(head, "\n")
	for i, line := range lines {
		line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "# "))
		if line == "" || pageMark.MatchString(line) {
			continue
		}
		length, next := utf8.RuneCountInString(line), 0
		if i+1 < len(lines) {
			next = utf8.RuneCountInString(strings.TrimSpace(lines[i+1]))
		}
		if record && length <= maxTitleLine {
			return line
		}
		goesOn := next > 0 && length > shortLine && float64(length) > shortLineShare*float64(next)
		if goesOn || length > maxTitleLine || strings.ContainsRune(".;:,", rune(line[len(line)-1])) {
			return ""
		}
		return plainHeading(line)
	}
	return ""
}
