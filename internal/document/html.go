package document

import (
	"bytes"
	"strconv"
	"strings"

	md "github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/unweaver/unweaver/internal/fault"
)

// Tables are padded to the width of their columns, but for those that would be mostly padding.
var padded, unpadded = newConverter(table.CellPaddingBehaviorAligned), newConverter(table.CellPaddingBehaviorMinimal)

func newConverter(padding table.CellPaddingBehavior) *md.Converter {
	return md.NewConverter(md.WithPlugins(
		base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithCellPaddingBehavior(padding)),
	))
}

const (
	nodeBytes  = 256     // what an element takes in memory, with the text behind it
	maxPadding = 8 << 20 // bytes of padded tables; a document with more is not padded
	// maxQuotes is the depth from which on quotations and lists are plain blocks: each level copies what is in it, and
	// begins every line with a mark of its own.
	maxQuotes = 64
)

func parseHTML(raw []byte, object string, limits Limits) (Doc, error) {
	if int64(bytes.Count(raw, []byte("<")))*nodeBytes+2*int64(len(raw)) > limits.Memory {
		return Doc{}, over(object, "memory", limits.Memory, "its elements take more bytes")
	}
	tree, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		if strings.Contains(err.Error(), "open stack of elements exceeds") { // the library's own bound
			return Doc{}, over(object, "nesting", limits.Nesting, "its elements are nested more deeply, or by more than 512")
		}
		return Doc{}, fault.Unreadable.At("read", object).Because(err).Advise("the file is no readable HTML")
	}
	look := tables{limits: limits}
	if err := look.tree(tree, object); err != nil {
		return Doc{}, err
	}
	converter := padded
	if look.padding > maxPadding {
		converter = unpadded
	}
	out, err := converter.ConvertNode(tree)
	if err != nil {
		return Doc{}, fault.Unreadable.At("read", object).Because(err).Advise("the file is no readable HTML")
	}
	if int64(len(out)) > limits.Text {
		return Doc{}, limits.overText(object)
	}
	title, meta := htmlHead(raw, limits)
	return Doc{Title: title, Meta: meta, Text: bytes.NewReader(out)}, nil
}

// metaNames are what the head of a page says of it, by the names that are used for it.
var metaNames = map[string]string{
	"author": "author", "keywords": "keywords", "description": "description", "date": "date", "dcterms.date": "date",
	"article:published_time": "date", "article:author": "author", "og:title": "title", "dcterms.title": "title",
}

// htmlHead gives the title of a page and what else its head says: the first of each.
func htmlHead(raw []byte, limits Limits) (title string, meta map[string]string) {
	found := map[string]string{}
	line := func(text []byte) string {
		text = text[:min(len(text), titleBytes(limits))]
		return cutTitle(strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "")), " "), limits.Title)
	}
	tokenizer := html.NewTokenizer(bytes.NewReader(raw))
	for in := true; in; {
		kind := tokenizer.Next()
		if kind == html.ErrorToken {
			break
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		switch name, more := tokenizer.TagName(); string(name) {
		case "title":
			if title == "" && tokenizer.Next() == html.TextToken {
				title = line(tokenizer.Text())
			}
		case "meta":
			if name, content := metaOf(tokenizer, more); name != "" && found[name] == "" {
				found[name] = line(content)
			}
		case "body", "h1", "p", "div", "table":
			in = false
		}
	}
	if title == "" {
		title = found["title"]
	}
	delete(found, "title")
	for name, value := range found {
		if value == "" {
			delete(found, name)
		}
	}
	if len(found) == 0 {
		return title, nil
	}
	return title, found
}

// metaOf gives what a meta element is about, as metaNames say, and what it says.
func metaOf(tokenizer *html.Tokenizer, more bool) (name string, content []byte) {
	for more {
		var key, value []byte
		key, value, more = tokenizer.TagAttr()
		switch string(key) {
		case "name", "property":
			if known := metaNames[strings.ToLower(string(value[:min(len(value), 64)]))]; known != "" {
				name = known
			}
		case "content":
			content = bytes.Clone(value)
		}
	}
	return name, content
}

// tables looks at a tree before it is converted: what its tables span, and how much of them would be padding.
type tables struct {
	limits  Limits
	cells   int64 // that spans make, of all tables, once for each quotation around them
	padding int64
}

// tree walks all elements. Its depth is at most some hundreds, as the parser bounds it.
func (t *tables) tree(root *html.Node, object string) error {
	var walk func(node *html.Node, depth, quotes int) error
	walk = func(node *html.Node, depth, quotes int) error {
		if depth > t.limits.Nesting {
			return over(object, "nesting", t.limits.Nesting, "its elements are nested more deeply")
		}
		switch node.DataAtom {
		case atom.Blockquote, atom.Ul, atom.Ol, atom.Li:
			if quotes++; quotes > maxQuotes {
				node.DataAtom, node.Data = atom.Div, "div"
			}
		case atom.Table:
			if err := t.table(node, object, min(quotes, maxQuotes)); err != nil {
				return err
			}
		}
		for child := node.FirstChild; child != nil; child = child.NextSibling {
			if err := walk(child, depth+1, quotes); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(root, 0, 0)
}

// grid is a table as the converter lays it out: cells by row, and the widest cell by column.
type grid struct {
	rows   []int64 // cells of each
	widest []int64 // bytes of text, by column
}

func (g *grid) add(row int, cells int64) {
	for len(g.rows) <= row {
		g.rows = append(g.rows, 0)
	}
	g.rows[row] += cells
}

// table measures one table, in so many quotations and lists: each copies the rows that spans make. A table with another
// inside is no table to the converter.
func (t *tables) table(node *html.Node, object string, quotes int) error {
	var g grid
	rows := rowsIn(node)
	if rows == nil {
		return nil
	}
	for at, row := range rows {
		column := 0
		for _, cell := range cellsIn(row) {
			across, down := span(cell, "colspan"), span(cell, "rowspan")
			spanned := (across*down - 1) * int64(1+quotes)
			if across > int64(t.limits.Spans) || down > int64(t.limits.Spans) ||
				t.cells+spanned > int64(t.limits.Spans) {
				return t.overSpans(object)
			}
			t.cells += spanned
			g.add(at, across)
			for below := 1; below < int(down); below++ {
				g.add(at+below, across)
			}
			g.width(column, textBytes(cell))
			column++
		}
	}
	widest := int64(0)
	for _, cells := range g.rows {
		widest = max(widest, cells)
	}
	if real := int64(len(g.rows)) * widest; real > t.area(rows)+int64(t.limits.Spans) {
		return t.overSpans(object)
	}
	line := int64(0)
	for _, bytes := range g.widest {
		line += bytes
	}
	t.padding += line * int64(len(g.rows))
	return nil
}

// area is what a table would have without spans, and may have whatever the limit: it was written out cell by cell.
func (t *tables) area(rows []*html.Node) int64 {
	cells := int64(0)
	for _, row := range rows {
		cells += int64(len(cellsIn(row)))
	}
	return cells
}

func (t *tables) overSpans(object string) error {
	return over(object, "spans", t.limits.Spans, "its tables span more cells")
}

func (g *grid) width(column int, bytes int64) {
	for len(g.widest) <= column {
		g.widest = append(g.widest, 0)
	}
	g.widest[column] = max(g.widest[column], bytes)
}

// rowsIn finds the rows of a table, nil where it holds another table.
func rowsIn(table *html.Node) []*html.Node {
	rows := []*html.Node{}
	for node := range table.Descendants() {
		switch node.DataAtom {
		case atom.Table:
			return nil
		case atom.Tr:
			rows = append(rows, node)
		}
	}
	return rows
}

func cellsIn(row *html.Node) []*html.Node {
	var cells []*html.Node
	for node := range row.Descendants() {
		if node.DataAtom == atom.Td || node.DataAtom == atom.Th {
			cells = append(cells, node)
		}
	}
	return cells
}

func textBytes(cell *html.Node) int64 {
	bytes := int64(0)
	for node := range cell.Descendants() {
		if node.Type == html.TextNode {
			bytes += int64(len(node.Data))
		}
		for _, attribute := range node.Attr {
			bytes += int64(len(attribute.Val)) // of a link, or of a picture's description
		}
	}
	return bytes
}

// span is a colspan or rowspan as the converter reads it.
func span(cell *html.Node, key string) int64 {
	for _, attribute := range cell.Attr {
		if attribute.Key == key {
			if number, err := strconv.Atoi(attribute.Val); err == nil && number >= 1 {
				return int64(min(number, maxSpan))
			}
			return 1
		}
	}
	return 1
}

// maxSpan keeps products of two spans and the depth of quotations within an int64; it is above every limit.
const maxSpan = 1 << 28
