package office

import (
	"encoding/xml"
	"regexp"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
)

// wordStyle is what a style says of its paragraphs, or of its runs.
type wordStyle struct {
	level  int // of the heading that it is
	base   string
	hidden bool
	number string
	depth  int
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

// readStyles learns which styles are headings, of lists, or hide: ids are written in the language of the program, names
// are not.
func (w *wordReader) readStyles(part string) error {
	id, count := "", 0
	return w.parts.walkTokens(part, func(token xml.Token, _ int) error {
		start, ok := token.(xml.StartElement)
		if !ok {
			return nil
		}
		value, style := attrOf(start, "val"), w.styles[id]
		switch start.Name.Local {
		case "style":
			if count++; count > maxStyles {
				return document.OverMax(w.parts.object, "memory", w.parts.limits.Memory, "it has too many styles")
			}
			id = attrOf(start, "styleId")
			return nil
		case "name":
			if level := levelOf(value); level != 0 {
				style.level = level
			}
		case "basedOn":
			style.base = value
		case "vanish":
			style.hidden = isTrue(value)
		case "numId":
			style.number = value
		case "ilvl":
			style.depth, _ = strconv.Atoi(value)
		case "outlineLvl":
			if level, err := strconv.Atoi(value); err == nil && level >= 0 && level < 9 && style.level == 0 {
				style.level = level + 1
			}
		}
		if id != "" {
			w.styles[id] = style
		}
		return nil
	})
}

// styleOf returns a style with what it has of those that it is based on.
func (w *wordReader) styleOf(id string) wordStyle {
	style, known := w.styles[id]
	if !known {
		style.level = levelOf(id)
	}
	base := style.base
	for range 10 {
		above, known := w.styles[base]
		if !known {
			break
		}
		if style.level == 0 && above.level > 0 {
			style.level = above.level
		}
		if style.number == "" {
			style.number, style.depth = above.number, max(style.depth, above.depth)
		}
		style.hidden = style.hidden || above.hidden
		base = above.base
	}
	return style
}

func (w *wordReader) applyStyle(id string) {
	style := w.styleOf(id)
	w.styled = style.hidden
	switch {
	case style.level == titleLevel:
		w.level, w.titled = 1, true
	case style.level > 0:
		w.level = style.level
	case strings.HasPrefix(id, "ListBullet"), strings.HasPrefix(id, "ListNumber"):
		w.list = 1
	}
	if style.number != "" && style.number != "0" {
		w.number, w.list = style.number, 1+min(max(style.depth, 0), 8)
	}
}
