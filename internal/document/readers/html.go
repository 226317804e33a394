package readers

import (
	"bytes"
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/tables"
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

// dataRows returns the rows of a table of data, nil for one that lays out a page: with a table, a heading or a block of
// code in it.
func dataRows(table *html.Node) []*html.Node {
	rows := []*html.Node{}
	if role := attributeOf(table, "role"); role == "presentation" || role == "none" {
		return nil
	}
	for node := range table.Descendants() {
		switch node.DataAtom {
		case atom.Table, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Pre:
			return nil
		case atom.Tr:
			rows = append(rows, node)
		}
	}
	return rows
}

// maxSpan of columns is what HTML allows.
const maxSpan = 1000

// writeTable writes each row as a line. A cell that spans several rows or columns leaves the others of them empty.
func (p *page) writeTable(node *html.Node, rows []*html.Node, depth int) error {
	for child := node.FirstChild; child != nil; child = child.NextSibling {
		if child.DataAtom == atom.Caption || child.Type == html.TextNode {
			if err := p.writeNode(child, depth+1, false); err != nil {
				return err
			}
		}
	}
	grid, head := grid{page: p, rows: len(rows), depth: depth}, tables.Head{}
	for _, row := range rows {
		cells, err := grid.readRow(row)
		if err != nil {
			return err
		}
		if isDisplayed(row) && isDisplayed(row.Parent) {
			p.writeRows(head.AddRow(cells, isHeader(row)))
		}
	}
	p.writeRows(head.Finish())
	return p.err
}

func (p *page) writeRows(lines []string) {
	for _, line := range lines {
		p.endLines(1)
		p.beginWord()
		p.line.WriteString(line)
	}
}

// isHeader reports whether a page marks a row as names of columns: it is in a thead, or two or more of its cells are th
// and no other has text.
func isHeader(row *html.Node) bool {
	if row.Parent.DataAtom == atom.Thead {
		return true
	}
	names := 0
	for cell := row.FirstChild; cell != nil; cell = cell.NextSibling {
		switch cell.DataAtom {
		case atom.Th:
			names++
		case atom.Td:
			for node := range cell.Descendants() {
				if node.Type == html.TextNode && strings.TrimSpace(node.Data) != "" {
					return false
				}
			}
		}
	}
	return names > 1
}

// isDisplayed reports whether an element takes part in what is shown.
func isDisplayed(node *html.Node) bool {
	display, visibility := styleOf(node)
	return display != "none" && visibility != "hidden" && !hasAttribute(node, "hidden")
}

// grid places the cells of a table.
type grid struct {
	page        *page
	rows, depth int
	taken       []int // rows that are left of the cell above, by column
}

// readRow returns the cells of a row. What a cell spans beside itself is empty.
func (g *grid) readRow(row *html.Node) (cells []string, err error) {
	fill := func() { // columns that a cell above takes
		for len(cells) < len(g.taken) && g.taken[len(cells)] > 0 {
			g.taken[len(cells)]--
			cells = append(cells, "")
			g.page.cells++
		}
	}
	for cell := row.FirstChild; cell != nil; cell = cell.NextSibling {
		if cell.DataAtom != atom.Td && cell.DataAtom != atom.Th {
			continue
		}
		fill()
		across, down := spanOf(cell, "colspan", maxSpan), spanOf(cell, "rowspan", g.rows)
		if g.page.cells += across - 1; g.page.cells > g.page.limits.Spans {
			return nil, document.OverMax(g.page.object, "spans", g.page.limits.Spans, "its tables span more cells")
		}
		text := ""
		if isDisplayed(cell) {
			text = g.page.renderInline(cell, g.depth)
		}
		for range across {
			at := len(cells)
			for len(g.taken) <= at {
				g.taken = append(g.taken, 0)
			}
			g.taken[at] = down - 1
			cells, text = append(cells, text), ""
		}
	}
	fill()
	return cells, g.page.err
}

// spanOf returns a colspan or rowspan.
func spanOf(cell *html.Node, key string, most int) int {
	number, err := strconv.Atoi(strings.TrimSpace(attributeOf(cell, key)))
	if err != nil || number < 1 {
		return 1
	}
	return min(number, most)
}
