package document

import (
	"bytes"
	"io"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Doc is a parsed document. Text streams; nothing may be read from it after its source is closed.
type Doc struct {
	Title string // empty: taken from the text by TitleOf
	Meta  map[string]string
	Text  io.Reader
}

// Parse reads one object of a type without rows. What is above the limits is fault.TooLarge, of the types that stream
// when the text is read.
func Parse(reader io.Reader, kind Kind, object string, limits Limits) (Doc, error) {
	limits = limits.Whole()
	if kind == Text || kind == Markdown {
		t, err := Decode(reader, object)
		if err != nil {
			return Doc{}, err
		}
		return Doc{Text: limits.ofText(t, object)}, nil
	}
	raw, err := io.ReadAll(&bounded{reader, limits.Bytes, over(object, "bytes", limits.Bytes, "it has more bytes")})
	if err != nil {
		return Doc{}, unreadable("read", object, err)
	}
	switch kind {
	case PDF:
		return parsePDF(raw, object, limits)
	case DOCX:
		return parseDOCX(raw, object, limits)
	}
	t, err := Decode(bytes.NewReader(raw), object)
	if err != nil {
		return Doc{}, err
	}
	s, err := io.ReadAll(t)
	if err != nil {
		return Doc{}, unreadable("decode", object, err)
	}
	if kind == HTML {
		return parseHTML(s, object, limits)
	}
	return parseJSON(s, object, limits)
}

// manyBlank are empty lines of which one is enough.
var manyBlank = regexp.MustCompile(`\n[ \t]*\n(?:[ \t]*\n)+`)

// pageMark is what a page prints of itself; it names no document.
var pageMark = regexp.MustCompile(`(?i)^(page )?[0-9]+( of [0-9]+)?$`)

// maxTitleLine is the longest first line that counts as a title (docs/contract.md, Class text and titles).
const maxTitleLine = 150

// TitleOf gives a document its title: the given one, else the first heading of Markdown, else the first non-empty line
// if it is short, else the file's name. head is the start of the decoded text. Whatever it is, it is one line of at
// most limits.Title runes.
func TitleOf(given, head string, kind Kind, object string, limits Limits) string {
	limits = limits.Whole()
	if title := cutTitle(given, limits.Title); title != "" {
		return title
	}
	return cutTitle(titleFrom(head, kind, object), limits.Title)
}

func titleFrom(head string, kind Kind, object string) string {
	first := ""
	for _, l := range strings.Split(head, "\n") {
		l = strings.TrimSpace(l)
		if l == "" || pageMark.MatchString(l) {
			continue
		}
		if h := strings.TrimLeft(l, "#"); h != l && strings.HasPrefix(h, " ") && (kind == Markdown || kind == HTML) {
			return strings.TrimSpace(h)
		}
		if first == "" {
			first = l
			if kind != Markdown && kind != HTML {
				break
			}
		}
	}
	if first != "" && utf8.RuneCountInString(first) <= maxTitleLine {
		return strings.TrimSpace(strings.TrimLeft(first, "# "))
	}
	return path.Base(object)
}
