package readers

import (
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/tables"
)

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
