package document

import (
	"github.com/unweaver/unweaver/internal/core"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Outline finds the headings and pages of a text as it passes, by the text alone: of a text that was kept it finds what
// it found when the text was read. Headings are those of Markdown, in which most parsers write them, or of
// reStructuredText; pages end with a line that holds a form feed only.
type Outline struct {
	kind     Kind
	line     strings.Builder // the last line, as far as it is there
	long     bool            // it goes on behind what is held of it
	runes    int             // of the last line
	at       int             // where it begins
	headings []core.Heading
	open     int // headings from here on have no end yet
	pages    []int
	broke    bool   // a page ended, and nothing stands on the next one yet
	fence    string // of a block of code that has not ended
	before   [2]textLine
	levels   []string // of reStructuredText: adornments in the order in which they came
}

// textLine is a line that may turn out to be a heading.
type textLine struct {
	text string
	at   int
}

// Bounds of what is kept of headings: so many runes of each, so many bytes of a line.
const (
	MaxHeadingText = 200
	maxHeadingLine = 2 << 10
)

// NewOutline begins a text of a type.
func NewOutline(kind Kind) *Outline { return &Outline{kind: kind} }

// HasOutline reports whether texts of the type may have headings or pages.
func (k Kind) HasOutline() bool { return k.hasHeadings() || k.HasPages() || k == RST }

func (k Kind) hasHeadings() bool {
	switch k {
	case Markdown, HTML, PDF, DOCX, PPTX, XLSX, EPUB, Notebook:
		return true
	}
	return false
}

// asShown reports whether the text of a type is what a page shows, with no mark of Markdown but those of headings.
func (k Kind) asShown() bool {
	switch k {
	case HTML, EPUB, EML, PDF, DOCX, PPTX, XLSX:
		return true
	}
	return false
}

// HasPages reports whether texts of the type have pages.
func (k Kind) HasPages() bool { return k == PDF || k == PPTX }

// Add takes the next piece of the text.
func (o *Outline) Add(piece string) {
	if !o.kind.HasOutline() {
		return
	}
	for piece != "" {
		part, rest, ended := strings.Cut(piece, "\n")
		o.runes += utf8.RuneCountInString(part)
		if room := maxHeadingLine - o.line.Len(); len(part) > room {
			o.long, part = true, strings.ToValidUTF8(part[:room], "")
		}
		o.line.WriteString(part)
		if ended {
			o.runes++
			o.takeLine()
		}
		piece = rest
	}
}

// End gives the headings and where pages begin, both in code points. It is called once, behind the last piece.
func (o *Outline) End() (headings []core.Heading, pages []int) {
	if o.runes > 0 {
		o.takeLine()
	}
	o.close(o.at)
	if o.broke && len(o.pages) > 0 { // behind the last page nothing begins
		o.pages = o.pages[:len(o.pages)-1]
	}
	return o.headings, o.pages
}

// takeLine looks at a line that is whole.
func (o *Outline) takeLine() {
	text, at, long := o.line.String(), o.at, o.long
	o.at += o.runes
	o.line.Reset()
	o.runes, o.long = 0, false
	if o.kind.HasPages() && text == PageBreak {
		if o.pages == nil {
			o.pages = []int{0}
		}
		o.pages, o.broke = append(o.pages, o.at), true
		return
	}
	trimmed := strings.TrimSpace(text)
	o.broke = o.broke && trimmed == ""
	if long {
		trimmed = trimmed[:0]
		o.close(at)
	}
	found := false
	switch {
	case long:
	case o.kind == RST:
		found = o.readRST(text, at)
	case o.kind.hasHeadings():
		found = o.readMarkdown(text, at)
	}
	if !found && trimmed != "" {
		o.close(at + utf8.RuneCountInString(text) - utf8.RuneCountInString(strings.TrimLeftFunc(text, unicode.IsSpace)))
	}
	o.before[0], o.before[1] = o.before[1], textLine{trimmed, at}
	if found {
		o.before[1].text = ""
	}
}

// close ends headings where the text below them begins.
func (o *Outline) close(at int) {
	for ; o.open < len(o.headings); o.open++ {
		o.headings[o.open].End = at
	}
}

func (o *Outline) add(at, level int, text string) bool {
	if !o.kind.asShown() {
		text = plainHeading(text)
	}
	text = CutTitle(text, MaxHeadingText)
	if text == "" || len(o.headings) >= core.MaxHeadings {
		return false
	}
	o.close(at)
	o.headings = append(o.headings, core.Heading{Start: at, Level: level, Text: text})
	return true
}

var (
	atx      = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$`)
	setext   = regexp.MustCompile(`^ {0,3}(=+|-{2,})[ \t]*$`)
	fence    = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})(.*)$")
	noPlain  = regexp.MustCompile(`^([-*+>|#]|[0-9]+[.)] |<)`) // how a line begins that is no line of a paragraph
	tagged   = regexp.MustCompile(`(?i)^ {0,3}<h([1-6])\b[^>]*>(.*)</h[1-6]>[ \t]*$`)
	imageOf  = regexp.MustCompile(`!\[([^\]]*)\]\([^)]*\)`)
	linkOf   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	tagOf    = regexp.MustCompile(`</?[a-zA-Z][^>]*>`)
	anchorOf = regexp.MustCompile(`\s*\{#[^}]*\}\s*$`)
	escapeOf = regexp.MustCompile("\\\\([!-/:-@\\[-`{-~])")
	marksOf  = strings.NewReplacer("**", "", "__", "", "`", "")
)

// plainHeading returns a heading without marks of Markdown, and without its badges where it is more than these.
func plainHeading(text string) string {
	if rest := badgeOf.ReplaceAllString(text, ""); saysSomething(tagOf.ReplaceAllString(rest, "")) {
		text = rest
	}
	text = anchorOf.ReplaceAllString(text, "")
	text = imageOf.ReplaceAllString(text, "$1")
	text = linkOf.ReplaceAllString(text, "$1")
	text = tagOf.ReplaceAllString(text, "")
	text = marksOf.Replace(text)
	if n := len(text); n > 2 && (text[0] == '*' || text[0] == '_') && text[n-1] == text[0] {
		text = text[1 : n-1]
	}
	return strings.TrimSpace(escapeOf.ReplaceAllString(text, "$1"))
}

// readMarkdown looks at a line of Markdown, and reports whether it is a heading or belongs to one.
func (o *Outline) readMarkdown(text string, at int) bool {
	if found := fence.FindStringSubmatch(text); found != nil {
		switch {
		case o.fence == "" && (found[1][0] == '~' || !strings.Contains(found[2], "`")):
			o.fence = found[1]
		case o.fence != "" && strings.HasPrefix(found[1], o.fence) && strings.TrimSpace(found[2]) == "":
			o.fence = ""
		}
		return false
	}
	if o.fence != "" {
		return false
	}
	if found := atx.FindStringSubmatch(text); found != nil {
		return o.add(at, len(found[1]), found[2])
	}
	if found := tagged.FindStringSubmatch(text); found != nil {
		return o.add(at, int(found[1][0]-'0'), found[2])
	}
	found := setext.FindStringSubmatch(text)
	if found == nil || o.before[1].text == "" || o.before[0].text != "" || noPlain.MatchString(o.before[1].text) {
		return false
	}
	level := 1
	if found[1][0] == '-' {
		level = 2
	}
	return o.add(o.before[1].at, level, o.before[1].text)
}

// readRST looks at a line of reStructuredText: a title has a line of one punctuation mark below it, of at least
// its length, and perhaps the same above it. Marks rank as they come.
func (o *Outline) readRST(text string, at int) bool {
	mark, title := adornmentOf(text), o.before[1]
	if mark == "" || title.text == "" || adornmentOf(title.text) != "" ||
		utf8.RuneCountInString(strings.TrimSpace(text)) < utf8.RuneCountInString(title.text) {
		return false
	}
	start := title.at
	if above := o.before[0]; above.text != "" {
		if adornmentOf(above.text) != mark {
			return false
		}
		start, mark = above.at, mark+mark
	}
	level := 0
	for level < len(o.levels) && o.levels[level] != mark {
		level++
	}
	if level == len(o.levels) {
		o.levels = append(o.levels, mark)
	}
	return o.add(start, level+1, title.text)
}

// adornmentOf returns the mark of which a line of reStructuredText is made, or nothing.
func adornmentOf(line string) string {
	line = strings.TrimRightFunc(line, unicode.IsSpace)
	if len(line) < 2 || !strings.ContainsRune("=-`:'\"~^_*+#<>.", rune(line[0])) || strings.Trim(line, line[:1]) != "" {
		return ""
	}
	return line[:1]
}

// Indent is what keeps a line from being read as a heading: with four blanks none is one.
const Indent = "    "

// ReadsAsHeading reports whether Outline would take a line of plain text for a heading, or for a mark of one.
func ReadsAsHeading(line string) bool {
	if strings.HasPrefix(line, Indent) || !strings.ContainsRune("#=-`~< ", rune(line[0])) {
		return false
	}
	return atx.MatchString(line) || setext.MatchString(line) || fence.MatchString(line) || tagged.MatchString(line)
}

// PageBreak ends each page of a text whose document has pages, on a line of its own: NewOutline finds pages by it.
const PageBreak = "\f"
