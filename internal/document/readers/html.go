package readers

import (
	"bytes"
	"cmp"
	"regexp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

// nodeBytes is what an element takes in memory, with the text behind it.
const nodeBytes = 256

// parseHTML reads a page, decoded already, as a browser with scripts shows it.
func parseHTML(raw []byte, object string, limits document.Limits) (document.Doc, error) {
	if int64(bytes.Count(raw, []byte("<")))*nodeBytes+2*int64(len(raw)) > limits.Memory {
		return document.Doc{}, document.OverMax(object, "memory", limits.Memory, "its elements take more bytes")
	}
	tree, err := html.Parse(bytes.NewReader(closeElements(raw)))
	if err != nil {
		if strings.Contains(err.Error(), "open stack of elements exceeds") { // the library's own bound
			return document.Doc{}, document.OverMax(object, "nesting", limits.Nesting,
				"its elements are nested more deeply, or by more than 512")
		}
		return document.Doc{}, fault.Unreadable.At("read", object).Because(err).
			Advise("save the file again: it is not readable HTML")
	}
	shown := page{object: object, limits: limits}
	if err := shown.writeNode(tree, 0, false); err != nil {
		return document.Doc{}, err
	}
	text, err := shown.finishPage()
	if err != nil {
		return document.Doc{}, err
	}
	title, meta := htmlHead(tree, limits)
	return document.Doc{Title: title, Meta: meta, Text: strings.NewReader(text)}, nil
}

var (
	xhtml = regexp.MustCompile(`^\s*<\?xml\s|<html[^>]*\sxmlns\s*=`)
	// selfClosed is an element that XHTML closes where it opens. To HTML it is open, and a title or script like that takes
	// in the whole page.
	selfClosed = regexp.MustCompile(`<([a-zA-Z][a-zA-Z0-9]*)((?:\s[^<>]*)?)/>`)
	// characters are text of XHTML that is no markup, and innerTypes are what a page declares in its first line. HTML has
	// neither: it takes the one for a comment, and shows the end of the other.
	characters = regexp.MustCompile(`(?s)<!\[CDATA\[(.*?)\]\]>`)
	innerTypes = regexp.MustCompile(`(?is)(<!DOCTYPE[^\[>]*)\[.*?\]\s*>`)
	voidNames  = regexp.MustCompile(`(?i)^(area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)$`)
)

// closeElements writes the elements of XHTML that have no content, and its text that is no markup, as HTML needs them.
func closeElements(raw []byte) []byte {
	if !xhtml.Match(raw[:min(len(raw), 4<<10)]) {
		return raw
	}
	raw = innerTypes.ReplaceAll(raw, []byte("$1>"))
	raw = selfClosed.ReplaceAllFunc(raw, func(tag []byte) []byte {
		parts := selfClosed.FindSubmatch(tag)
		if voidNames.Match(parts[1]) {
			return tag
		}
		return []byte("<" + string(parts[1]) + string(parts[2]) + "></" + string(parts[1]) + ">")
	})
	return characters.ReplaceAllFunc(raw, func(section []byte) []byte {
		return []byte(html.EscapeString(string(characters.FindSubmatch(section)[1])))
	})
}

// metaNames are what the head of a page says of it, by the names that are used for it.
var metaNames = map[string]string{
	"author": "author", "keywords": "keywords", "description": "description", "date": "date", "dcterms.date": "date",
	"article:published_time": "date", "article:author": "author", "og:title": "title", "dcterms.title": "title",
}

// htmlHead returns the title of a page and what else its head says: the first of each.
func htmlHead(tree *html.Node, limits document.Limits) (title string, meta map[string]string) {
	meta = map[string]string{}
	set := func(name, value string) {
		value = value[:min(len(value), document.TitleBytes(limits))]
		value = document.CutTitle(strings.Join(strings.Fields(strings.ToValidUTF8(value, "")), " "), limits.Title)
		if name != "" && value != "" && meta[name] == "" {
			meta[name] = value
		}
	}
	for node := range tree.Descendants() {
		switch {
		case node.DataAtom == atom.Title && node.Namespace == "" && node.FirstChild != nil:
			set("page title", node.FirstChild.Data)
		case node.DataAtom == atom.Meta && node.Parent.DataAtom == atom.Head:
			name := attributeOf(node, "name")
			if name == "" {
				name = attributeOf(node, "property")
			}
			set(metaNames[strings.ToLower(name[:min(len(name), 64)])], attributeOf(node, "content"))
		}
	}
	title = cmp.Or(meta["page title"], meta["title"])
	delete(meta, "page title")
	delete(meta, "title")
	if len(meta) == 0 {
		meta = nil
	}
	return title, meta
}

func attributeOf(node *html.Node, key string) string {
	for _, attribute := range node.Attr {
		if attribute.Key == key && attribute.Namespace == "" {
			return attribute.Val
		}
	}
	return ""
}
