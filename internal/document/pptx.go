package document

import (
	"encoding/xml"
	"errors"
	"strconv"
	"strings"
)

const deckPart = "ppt/presentation.xml"

// parsePPTX reads slides in the order of the deck: each is a page, under its title as heading, with its notes.
func parsePPTX(raw []byte, object string, limits Limits) (Doc, error) {
	parts, err := openParts(raw, PPTX, object, limits)
	if err != nil {
		return Doc{}, err
	}
	slides, err := deckOrder(parts)
	if err != nil {
		return Doc{}, parts.bad(err)
	}
	if len(slides) > limits.Pages {
		return Doc{}, over(object, "pages", limits.Pages, "it has more slides")
	}
	var out strings.Builder
	said := false
	for _, name := range slides {
		slide := slideReader{parts: parts}
		if err := parts.tokens(name, slide.token); err != nil {
			return Doc{}, parts.bad(err)
		}
		related, err := parts.relations(name)
		if err != nil {
			return Doc{}, parts.bad(err)
		}
		notes := slideReader{parts: parts, notes: true}
		for _, relation := range related {
			if relation.kind == "notesSlide" {
				if err := parts.tokens(relation.target, notes.token); err != nil {
					return Doc{}, parts.bad(err)
				}
			}
		}
		text := slide.page(notes)
		said = said || text != ""
		out.WriteString(text + "\n" + pageBreak + "\n")
		if err := parts.tooLong(out.Len()); err != nil {
			return Doc{}, err
		}
	}
	if !said {
		return Doc{}, parts.bad(errors.New("it has no slides with text"))
	}
	title, err := parts.title()
	if err != nil {
		return Doc{}, parts.bad(err)
	}
	return Doc{Title: title, Text: strings.NewReader(out.String())}, nil
}

// deckOrder gives the parts of slides in the order in which they are shown.
func deckOrder(parts *parts) ([]string, error) {
	related, err := parts.relations(deckPart)
	if err != nil {
		return nil, err
	}
	targets := map[string]string{}
	for _, relation := range related {
		targets[relation.id] = relation.target
	}
	var slides []string
	seen := map[string]bool{}
	err = parts.tokens(deckPart, func(token xml.Token, _ int) error {
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "sldId" {
			return nil
		}
		for _, attr := range start.Attr { // beside r:id there is an id of the slide's own
			target := targets[attr.Value]
			if attr.Name.Local == "id" && target != "" && !seen[target] {
				seen[target] = true
				slides = append(slides, target)
			}
		}
		return nil
	})
	return slides, err
}

// slideReader reads what a slide, or its notes, say.
type slideReader struct {
	parts     *parts
	notes     bool
	holder    string // type of the shape's place holder
	title     []string
	lines     []string
	bytes     int
	paragraph strings.Builder
	text      bool
	depth     int // of the paragraph in its list
	cells     []string
	cell      []string
	inCell    bool
}

func (s *slideReader) token(token xml.Token, _ int) error {
	switch x := token.(type) {
	case xml.StartElement:
		switch x.Name.Local {
		case "sp", "graphicFrame":
			s.holder = ""
		case "ph":
			if s.holder = attribute(x, "type"); s.holder == "" {
				s.holder = "body"
			}
		case "pPr":
			if level, err := strconv.Atoi(attribute(x, "lvl")); err == nil {
				s.depth = min(max(level, 0), 8)
			}
		case "t":
			s.text = true
		case "br":
			s.paragraph.WriteByte(' ')
		case "tc":
			s.inCell = true
		}
	case xml.EndElement:
		switch x.Name.Local {
		case "t":
			s.text = false
		case "p":
			s.endParagraph()
		case "tc":
			if len(s.cells) < mostColumns {
				s.cells = append(s.cells, strings.Join(s.cell, " "))
			}
			s.cell, s.inCell = nil, false
		case "tr":
			s.line(tableRow(s.cells))
			s.cells = nil
		}
	case xml.CharData:
		if s.text {
			s.paragraph.Write(x)
			s.bytes += len(x)
		}
	}
	return s.parts.tooLong(s.bytes)
}

func (s *slideReader) endParagraph() {
	text := strings.Join(strings.Fields(s.paragraph.String()), " ")
	depth := s.depth
	s.paragraph.Reset()
	s.depth = 0
	switch {
	case text == "":
	case s.inCell:
		s.cell = append(s.cell, text)
	case s.notes && s.holder != "body": // the number of the page, the picture of the slide
	case s.holder == "title", s.holder == "ctrTitle":
		s.title = append(s.title, text)
	case s.holder == "sldNum", s.holder == "dt", s.holder == "ftr":
	case depth > 0:
		s.line(strings.Repeat("  ", depth) + "- " + text)
	default:
		s.line(unmarked(text))
	}
}

func (s *slideReader) line(text string) {
	if text != "" {
		s.lines = append(s.lines, text)
	}
}

// page is the text of the slide.
func (s *slideReader) page(notes slideReader) string {
	var out []string
	if len(s.title) > 0 {
		out = append(out, "# "+strings.Join(s.title, " "))
	}
	if len(s.lines) > 0 {
		out = append(out, strings.Join(s.lines, "\n"))
	}
	if len(notes.lines) > 0 {
		out = append(out, "Notes: "+strings.Join(notes.lines, "\n"))
	}
	return strings.Join(out, "\n\n")
}
