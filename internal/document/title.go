package document

import (
	"html"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OwnTitle returns the title that a program wrote into a document, or nothing where it is that of a template or a file,
// or the number under which a filing was taken in.
func OwnTitle(title string) string {
	title = strings.TrimSpace(title)
	low := strings.ToLower(title)
	for _, none := range []string{"untitled", "microsoft word - ", "microsoft powerpoint - ", "powerpoint presentation",
		"word document", "document1", "slide 1", "(anonymous)", "none"} {
		if low == strings.TrimSpace(none) || strings.HasSuffix(none, "- ") && strings.HasPrefix(low, none) {
			return ""
		}
	}
	if strings.ContainsAny(title, `\/`) && !strings.Contains(title, " ") || wholePath.MatchString(low) ||
		fileName.MatchString(low) || filingNumber.MatchString(title) {
		return ""
	}
	return title
}

// fileName is a name with the extension of a type of document; blanks stand only in one of an office program.
var fileName = regexp.MustCompile(`[^ ]\.(docx?|docm|pptx?|xlsx?|odt|wpd|wps|indd|qxd)$|` +
	`^[^ ]+\.(pdf|rtf|txt|tex|dvi|html?|p65|cdr|eps|ps)$`)

// wholePath begins with the drive or the server that a file was on when its program named it.
var wholePath = regexp.MustCompile(`^(?:[a-z]:[\\/]|\\\\|file:)`)

// filingNumber is a number too long for a year, as registers give to what they take in.
var filingNumber = regexp.MustCompile(`^[0-9][0-9._-]{5,}$`)

// PageMark is what a page prints of itself; it names no document.
var PageMark = regexp.MustCompile(`(?i)^(page )?[0-9]+( of [0-9]+)?$`)

// maxTitleLine is the longest first line that counts as a title (docs/reference/formats.md, Class text and titles).
const maxTitleLine = 150

// TitleOf returns the title of a document: the given one, else the first heading, else the first line that is apart
// from what follows and no sentence (of a record: that is short), else the file's name without its extension. None is
// without a letter or digit, but a name. head is the start of the decoded text. Whatever it is, it is one line of at
// most limits.Title runes.
func TitleOf(given, head string, kind Kind, object string, limits Limits) string {
	limits = limits.WithDefaults()
	title := CutTitle(given, limits.Title)
	if !saysSomething(title) {
		title = CutTitle(titleFrom(head, kind, object), limits.Title)
	}
	if kind.asShown() {
		return title
	}
	return CutTitle(entityOf.ReplaceAllStringFunc(title, html.UnescapeString), limits.Title)
}

// entityOf is a character as pages and programs that make records of them write it.
var entityOf = regexp.MustCompile(`&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});`)

// saysSomething reports whether a title has a letter or a digit.
func saysSomething(title string) bool {
	return strings.ContainsFunc(title, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}

func titleFrom(head string, kind Kind, object string) string {
	if kind == Markdown {
		head = commentOf.ReplaceAllString(head, "")
	}
	outline := NewOutline(kind)
	outline.Add(head)
	headings, _ := outline.End()
	parts := false // the headings that follow are of parts, behind paragraphs without one: each names that part alone
	for _, heading := range headings {
		if !saysSomething(heading.Text) {
			continue
		}
		if kind == Markdown && heading.Level > 1 && !parts {
			before := string([]rune(head)[:heading.Start])
			parts = utf8.RuneCountInString(plainHeading(before)) > maxTitleLine
		}
		if heading.Level == 1 || !parts {
			return heading.Text
		}
	}
	name := path.Base(object)
	_, packed, known := TypeOf(name)
	// The first line of a program or a configuration names nothing.
	if line := firstLine(head, kind); line != "" && (kind != Text || known || path.Ext(name) == "") {
		return line
	}
	if known {
		if packed {
			name = name[:len(name)-len(".gz")]
		}
		name = strings.TrimSuffix(name, path.Ext(name))
	} else if packed {
		name = name[:len(name)-len(".gz")]
	}
	if saysSomething(name) {
		return name
	}
	return path.Base(object)
}

// A line of a paragraph that goes on is hardly shorter than this, in runes, or than so much of the next line.
const (
	shortLine      = 40
	shortLineShare = 0.6
)

// noTitle are lines that say what a program needs: comments, directives, marks of templates, headers of mail.
var noTitle = regexp.MustCompile(`^(?:<!|<\?|//|/\*|\*/|\.\. |#!|\{[%{#]|\x60{3}|~{3}|:[A-Za-z-]+:)|` +
	`^(?:---|\+\+\+)\w*$|(?i)^(?:archive-name|posting-frequency|last-modified|version|url|maintainer|` +
	`from|to|cc|bcc|date|sent|reply-to|return-path|received|message-id|mime-version|` +
	`content-[a-z-]+|x-[a-z-]+):|` +
	`^From [^ ]+@[^ ]+ `)

// addressOf is the address of a person behind a name; modeOf says how an editor shows a file; rulesOf are lines drawn
// around a title.
var (
	addressOf = regexp.MustCompile(`<[^\s<>@]+@[^\s<>@]+>`)
	modeOf    = regexp.MustCompile(`\s*-\*-.*-\*-\s*`)
	rulesOf   = regexp.MustCompile(`^[=~*#_-]{3,}\s+|\s+[=~*#_-]{3,}$`)
)

// subject is the header of a mail, or of a text with its own, that names it.
var subject = regexp.MustCompile(`(?i)^(?:subject|title):\s*`)

// noName is a line of a record that does not name it: the path of a value in a list, as in towns[0].name, a value
// without letters, what a program calls it.
var noName = regexp.MustCompile(`^[^\s:]*\[\d+\][^\s:]*: |^[\w$@. -]{1,40}: \PL*$|` +
	`(?i)^[\w@$-]*(?:\b|_)(?:id|uuid|guid|type|kind|schema|context|version|status|lang|language|url|href): `)

// namedValue begins a line with the path of a value, of which a whole file of them has no more telling one.
var namedValue = regexp.MustCompile(`^[^\s":][^":]{0,60}: `)

// badgeOf is a picture that leads somewhere, as pages of projects begin with.
var badgeOf = regexp.MustCompile(`\[!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])\](?:\([^)]*\)|\[[^\]]*\])`)

// firstLine returns the first line of a text where it looks like a title: no sentence, and apart from what follows, by
// an empty line or by being short. Of a record any short line is one: as its fields are named, its text is no page.
func firstLine(head string, kind Kind) string {
	record := kind.HasRows() || kind == JSON
	lines := strings.Split(head, "\n")
	for i, line := range lines {
		line = titleLine(line, kind)
		if !saysSomething(line) || PageMark.MatchString(line) {
			continue
		}
		if addressOf.MatchString(line) {
			return "" // it lists people
		}
		length, next := utf8.RuneCountInString(line), 0
		if i+1 < len(lines) {
			next = utf8.RuneCountInString(strings.TrimSpace(lines[i+1]))
		}
		if record && noName.MatchString(line) || kind == JSON && namedValue.MatchString(line) {
			continue
		}
		if record && length <= maxTitleLine {
			return line
		}
		goesOn := next > 0 && length > shortLine && float64(length) > shortLineShare*float64(next)
		if goesOn || length > maxTitleLine || strings.ContainsRune(".;:,", rune(line[len(line)-1])) {
			return ""
		}
		return line
	}
	return ""
}

// titleLine returns a line without its marks; empty where it is none that a person would read first.
func titleLine(line string, kind Kind) string {
	line = strings.TrimSpace(line)
	if noTitle.MatchString(line) {
		return ""
	}
	if addressOf.MatchString(line) {
		return line // with its address
	}
	line = rulesOf.ReplaceAllString(modeOf.ReplaceAllString(line, ""), "")
	line = strings.Trim(strings.TrimLeft(subject.ReplaceAllString(line, ""), "# "), "| \t")
	if kind.asShown() {
		return line
	}
	if line = badgeOf.ReplaceAllString(line, ""); len(line) > maxHeadingLine {
		return line // too long for one, whatever it holds
	}
	return plainHeading(line)
}
