package document

import (
	"encoding/xml"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

const wordBody = "word/document.xml"

func parseDOCX(raw []byte, object string, limits Limits) (Doc, error) {
	parts, err := openParts(raw, DOCX, object, limits)
	if err != nil {
		return Doc{}, err
	}
	word := wordReader{parts: parts, styles: map[string]int{}}
	if err := word.readStyles(); err != nil {
		return Doc{}, parts.bad(err)
	}
	if err := parts.tokens(wordBody, word.token); err != nil {
		return Doc{}, parts.bad(err)
	}
	doc := Doc{Meta: map[string]string{}}
	if doc.Title, err = parts.title(); err != nil {
		return Doc{}, parts.bad(err)
	}
	text := strings.TrimSpace(manyBlank.ReplaceAllString(word.out.String(), "\n\n"))
	if text == "" {
		return Doc{}, parts.bad(errors.New("it has no word/document.xml with text"))
	}
	if doc.Title == "" {
		doc.Title = cutTitle(word.title, limits.Title)
	}
	doc.Text = strings.NewReader(text)
	return doc, nil
}

// wordReader writes a WordprocessingML part as Markdown: headings, lists, rows of tables, and an empty line behind
// every other paragraph.
type wordReader struct {
	parts  *parts
	styles map[string]int // styles of paragraphs that are headings, by id: their level
	out    strings.Builder
	title  string // of the first paragraph in the style Title

	paragraph strings.Builder
	text      bool // inside of a run's text
	level     int  // of the heading that the paragraph is, 0: none
	titled    bool
	list      int // depth of the list that it is an item of, 0: none
	listed    bool
	tables    int // in one another
	cells     []string
	cell      []string
	skipped   int // elements that are written a second time, in one another
}

// titleLevel is the level of the style of a document's title.
const titleLevel = -1

var headingStyle = regexp.MustCompile(`(?i)^heading ?([1-9])$`)

func levelOf(style string) int {
	if strings.EqualFold(style, "title") {
		return titleLevel
	}
	if found := headingStyle.FindStringSubmatch(style); found != nil {
		return int(found[1][0] - '0')
	}
	return 0
}

// maxStyles of a document are read.
const maxStyles = 20_000

// readStyles learns which styles are headings: ids are written in the language of the program, names are not.
func (w *wordReader) readStyles() error {
	id, count := "", 0
	return w.parts.tokens("word/styles.xml", func(token xml.Token, _ int) error {
		start, ok := token.(xml.StartElement)
		if !ok {
			return nil
		}
		switch start.Name.Local {
		case "style":
			if count++; count > maxStyles {
				return over(w.parts.object, "memory", w.parts.limits.Memory, "it has too many styles")
			}
			id = attribute(start, "styleId")
		case "name":
			if level := levelOf(attribute(start, "val")); level != 0 {
				w.styles[id] = level
			}
		case "outlineLvl":
			if level, err := strconv.Atoi(attribute(start, "val")); err == nil && level >= 0 && level < 9 &&
				w.styles[id] == 0 {
				w.styles[id] = level + 1
			}
		}
		return nil
	})
}

func (w *wordReader) token(token xml.Token, _ int) error {
	switch x := token.(type) {
	case xml.StartElement:
		w.start(x)
	case xml.EndElement:
		w.end(x.Name.Local)
	case xml.CharData:
		if w.text && w.skipped == 0 {
			w.paragraph.Write(x)
		}
	}
	return w.parts.tooLong(w.out.Len() + w.paragraph.Len())
}

func (w *wordReader) start(element xml.StartElement) {
	switch element.Name.Local {
	case "Fallback":
		w.skipped++
	case "t":
		w.text = true
	case "tab":
		if w.paragraph.Len() > 0 { // one in the properties is a stop
			w.paragraph.WriteByte('\t')
		}
	case "br", "cr":
		w.paragraph.WriteByte('\n')
	case "noBreakHyphen":
		w.paragraph.WriteByte('-')
	case "pStyle":
		w.style(attribute(element, "val"))
	case "outlineLvl":
		if level, err := strconv.Atoi(attribute(element, "val")); err == nil && level >= 0 && level < 9 {
			w.level = level + 1
		}
	case "ilvl":
		if depth, err := strconv.Atoi(attribute(element, "val")); err == nil {
			w.list = 1 + min(max(depth, 0), 8)
		}
	case "numId":
		if attribute(element, "val") == "0" {
			w.list = 0
		} else {
			w.list = max(w.list, 1)
		}
	case "tbl":
		w.tables++
	}
}

func (w *wordReader) style(id string) {
	level, known := w.styles[id]
	if !known {
		level = levelOf(id)
	}
	switch {
	case level == titleLevel:
		w.level, w.titled = 1, true
	case level > 0:
		w.level = level
	case strings.HasPrefix(id, "ListBullet"), strings.HasPrefix(id, "ListNumber"):
		w.list = 1
	}
}

func (w *wordReader) end(name string) {
	switch name {
	case "Fallback":
		w.skipped--
	case "t":
		w.text = false
	case "p":
		w.endParagraph()
	case "tc":
		if w.tables == 1 && len(w.cells) < mostColumns {
			w.cells, w.cell = append(w.cells, strings.Join(w.cell, " ")), nil
		}
	case "tr":
		if w.tables == 1 {
			w.line(tableRow(w.cells), true)
			w.cells = nil
		}
	case "tbl":
		if w.tables--; w.tables == 0 {
			w.out.WriteByte('\n')
			w.listed = false
		}
	}
}

func (w *wordReader) endParagraph() {
	text, level, list, titled := strings.TrimSpace(w.paragraph.String()), w.level, w.list, w.titled
	w.paragraph.Reset()
	w.level, w.list, w.titled = 0, 0, false
	switch {
	case w.tables > 0:
		if text != "" {
			w.cell = append(w.cell, strings.Join(strings.Fields(text), " "))
		}
	case text == "":
	case level > 0:
		text = strings.Join(strings.Fields(text), " ")
		if titled && w.title == "" {
			w.title = text
		}
		w.line(strings.Repeat("#", min(level, 6))+" "+text, false)
	case list > 0:
		w.line(strings.Repeat("  ", list-1)+"- "+text, true)
	default:
		w.line(unmarked(text), false)
	}
}

// line writes a paragraph; items of a list and rows of a table follow each other without an empty line.
func (w *wordReader) line(text string, close bool) {
	if text == "" {
		return
	}
	if w.listed && !close {
		w.out.WriteByte('\n')
	}
	w.out.WriteString(text)
	w.out.WriteByte('\n')
	if !close {
		w.out.WriteByte('\n')
	}
	w.listed = close
}
