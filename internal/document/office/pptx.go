package office

import (
	"encoding/xml"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
)

// ParsePPTX reads slides in the order of the deck: each is a page, under its title as heading, with its notes.
func ParsePPTX(raw []byte, object string, limits document.Limits) (document.Doc, error) {
	parts, err := openParts(raw, document.PPTX, object, limits)
	if err != nil {
		return document.Doc{}, err
	}
	slides, err := deckOrder(parts)
	if err != nil {
		return document.Doc{}, parts.wrapFault(err)
	}
	if len(slides) > limits.Pages {
		return document.Doc{}, document.OverMax(object, "pages", limits.Pages, "it has more slides")
	}
	var out strings.Builder
	said, footers := false, map[string]bool{}
	for _, name := range slides {
		text, err := readSlide(parts, name, footers)
		if err != nil {
			return document.Doc{}, parts.wrapFault(err)
		}
		said = said || text != ""
		out.WriteString(text + "\n" + document.PageBreak + "\n")
		if err := parts.tooLong(out.Len()); err != nil {
			return document.Doc{}, err
		}
	}
	if !said {
		return document.Doc{}, parts.reportEmpty("ppt/presentation.xml")
	}
	title, meta, err := parts.readCore()
	if err != nil {
		return document.Doc{}, parts.wrapFault(err)
	}
	return document.Doc{
		Title: title, Meta: meta, Text: strings.NewReader(out.String()), Missing: parts.describeMissing(),
	}, nil
}

// deckOrder gives the parts of slides in the order in which they are shown.
func deckOrder(parts *parts) ([]string, error) {
	deck, err := parts.main("officeDocument", "ppt/presentation.xml")
	if err != nil {
		return nil, err
	}
	related, err := parts.readRelations(deck)
	if err != nil {
		return nil, err
	}
	targets := map[string]string{}
	for _, relation := range related {
		targets[relation.id] = relation.target
	}
	var slides []string
	seen := map[string]bool{}
	err = parts.walkTokens(deck, func(token xml.Token, _ int) error {
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

// readSlide gives the text of a slide; footers are those that were read before.
func readSlide(parts *parts, name string, footers map[string]bool) (string, error) {
	slide := drawing{once: footers}
	if !parts.hasPart(name) {
		return "", nil
	}
	if err := parts.skipDamaged(name, parts.readDrawing(name, &slide)); err != nil || slide.hidden {
		return "", err
	}
	var out []string
	if len(slide.title) > 0 {
		out = append(out, "# "+strings.Join(slide.title, " "))
	}
	if len(slide.lines) > 0 {
		out = append(out, strings.Join(slide.lines, "\n"))
	}
	notes := drawing{notes: true}
	for _, target := range slide.related.targetsOf("notesSlide") {
		if err := parts.skipDamaged(target, parts.readDrawing(target, &notes)); err != nil {
			return "", err
		}
	}
	if len(notes.lines) > 0 {
		out = append(out, "Notes: "+strings.Join(notes.lines, "\n"))
	}
	for _, target := range slide.related.targetsOf("comments") {
		comments, err := parts.readComments(target)
		if err != nil {
			return "", err
		}
		out = append(out, comments...)
	}
	return strings.Join(out, "\n\n"), nil
}
