package readers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/unweaver/unweaver/internal/document"
)

// page writes the text of a page: a line for a line that a browser ends, an empty line between blocks, number signs
// before headings as Outline finds them, rows of tables between bars.
type page struct {
	object string
	limits document.Limits

	out    strings.Builder
	line   strings.Builder
	blank  bool   // white space came, and nothing behind it yet
	breaks int    // ends of lines before what comes next
	mark   string // of a list's item or a heading, before what comes next
	lists  int    // around this place
	pre    bool   // white space counts
	margin string // of lines of code
	head   bool   // within a heading, which is one line
	// reading says that this is how characters are read, which holds no other such.
	reading bool
	cells   int // empty ones that spans make
	err     error
}

// finishPage ends the page and returns all of it.
func (p *page) finishPage() (string, error) {
	p.endLine()
	return strings.Trim(p.out.String(), "\n"), p.err
}

// endLines notes that so many lines end before what comes next: one, or two for an empty line between.
func (p *page) endLines(lines int) {
	if p.head {
		p.blank = true
		return
	}
	p.endLine()
	p.breaks = max(p.breaks, lines)
}

// lineBreak ends a line, of which one that is empty makes an empty line.
func (p *page) lineBreak() {
	switch {
	case p.head:
		p.blank = true
	case p.line.Len() == 0:
		p.breaks, p.blank = min(p.breaks+1, 2), false
	default:
		p.endLine()
	}
}

func (p *page) endLine() {
	p.blank = false
	if p.line.Len() == 0 {
		return
	}
	line := p.line.String()
	p.line.Reset()
	if strings.TrimSpace(line) == "" {
		return
	}
	if p.out.Len() > 0 {
		p.out.WriteString("\n\n"[:min(p.breaks, 2)])
	}
	if !p.head && document.ReadsAsHeading(line) {
		line = document.Indent + line
	}
	if p.out.WriteString(line); int64(p.out.Len()) > p.limits.Text && p.err == nil {
		p.err = p.limits.OverText(p.object)
	}
	p.breaks = 1
}

// write takes text as it is: white space is one blank, but for that of pre.
func (p *page) write(text string) {
	if p.pre {
		for i, line := range strings.Split(strings.ReplaceAll(text, "\r", ""), "\n") {
			if i > 0 {
				p.lineBreak()
			}
			if line != "" {
				p.beginWord()
				p.line.WriteString(line)
			}
		}
		return
	}
	for at := 0; at < len(text); {
		word := strings.IndexFunc(text[at:], func(r rune) bool { return !isBlank(r) })
		if word != 0 {
			p.blank = true
		}
		if word < 0 {
			return
		}
		at += word
		size := strings.IndexFunc(text[at:], isBlank)
		if size < 0 {
			size = len(text) - at
		}
		p.beginWord()
		p.line.WriteString(text[at : at+size])
		at += size
	}
}

func isBlank(r rune) bool { return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\f' }

// beginWord writes what stands before the next word.
func (p *page) beginWord() {
	switch {
	case p.line.Len() > 0:
		if p.blank {
			p.line.WriteByte(' ')
		}
	default:
		p.line.WriteString(p.margin + p.mark)
		p.mark = ""
	}
	p.blank = false
}

// unseen are elements of which a browser that runs scripts shows nothing.
var unseen = map[atom.Atom]bool{
	atom.Head: true, atom.Title: true, atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true,
	atom.Noframes: true, atom.Noembed: true, atom.Iframe: true, atom.Datalist: true, atom.Rp: true, atom.Video: true,
	atom.Audio: true, atom.Canvas: true, atom.Meter: true, atom.Progress: true, atom.Desc: true, atom.Map: true,
	atom.Annotation: true, atom.AnnotationXml: true,
}

// blocks are elements with an empty line around them, or, where the number is one, on lines of their own.
var blocks = map[atom.Atom]int{
	atom.Address: 2, atom.Article: 2, atom.Aside: 2, atom.Blockquote: 2, atom.Caption: 2, atom.Center: 2, atom.Dd: 1,
	atom.Details: 2, atom.Dialog: 2, atom.Dir: 2, atom.Div: 2, atom.Dl: 2, atom.Dt: 1, atom.Fieldset: 2,
	atom.Figcaption: 2, atom.Figure: 2, atom.Footer: 2, atom.Form: 2, atom.H1: 2, atom.H2: 2, atom.H3: 2, atom.H4: 2,
	atom.H5: 2, atom.H6: 2, atom.Header: 2, atom.Hgroup: 2, atom.Hr: 2, atom.Legend: 2, atom.Li: 1, atom.Listing: 2,
	atom.Main: 2, atom.Menu: 2, atom.Nav: 2, atom.Ol: 2, atom.Optgroup: 1, atom.Option: 1, atom.P: 2, atom.Plaintext: 2,
	atom.Pre: 2, atom.Search: 2, atom.Section: 2, atom.Summary: 2, atom.Table: 2, atom.Td: 2,
	atom.Textarea: 1, atom.Th: 2, atom.Tr: 2, atom.Ul: 2, atom.Xmp: 2,
}

// writeNode writes a node and what is in it. hidden says that it is invisible, which what is in it may end.
func (p *page) writeNode(node *html.Node, depth int, hidden bool) error {
	if depth > p.limits.Nesting {
		return document.OverMax(p.object, "nesting", p.limits.Nesting, "its elements are nested more deeply")
	}
	if p.err != nil {
		return p.err
	}
	switch node.Type {
	case html.TextNode:
		if !hidden {
			p.write(node.Data)
		}
		return nil
	case html.DocumentNode:
		return p.writeChildren(node, depth, hidden)
	case html.ElementNode:
	default:
		return nil
	}
	display, visibility := styleOf(node)
	shadow := node.DataAtom == atom.Template && hasAttribute(node, "shadowrootmode")
	if unseen[node.DataAtom] && !shadow || node.Namespace == "svg" && node.Data == "metadata" || display == "none" ||
		hasAttribute(node, "hidden") || node.DataAtom == atom.Dialog && !hasAttribute(node, "open") {
		return nil
	}
	switch visibility {
	case "hidden", "collapse":
		hidden = true
	case "visible", "initial":
		hidden = false
	}
	lines := blocks[node.DataAtom]
	if node.Namespace == "svg" && node.Data == "text" {
		lines = 1
	}
	if lines > 0 {
		p.endLines(lines)
	}
	err := p.writeElement(node, depth, hidden)
	if lines > 0 {
		p.endLines(lines)
	}
	return err
}

func (p *page) writeChildren(node *html.Node, depth int, hidden bool) error {
	for child := node.FirstChild; child != nil; child = child.NextSibling {
		if err := p.writeNode(child, depth+1, hidden); err != nil {
			return err
		}
	}
	return nil
}

// writeElement writes one that is shown.
func (p *page) writeElement(node *html.Node, depth int, hidden bool) error {
	switch node.DataAtom {
	case atom.Br:
		p.lineBreak()
	case atom.Img, atom.Input, atom.Textarea, atom.Button, atom.Select, atom.Optgroup:
		return p.writeControl(node, depth, hidden)
	case atom.Q:
		if hidden {
			return p.writeChildren(node, depth, hidden)
		}
		p.beginWord()
		p.line.WriteString("“")
		err := p.writeChildren(node, depth, hidden)
		p.line.WriteString("”")
		return err
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		if p.head {
			return p.writeChildren(node, depth, hidden)
		}
		p.mark, p.head = strings.Repeat("#", int(node.Data[1]-'0'))+" ", true
		err := p.writeChildren(node, depth, hidden)
		p.endLine()
		p.mark, p.head = "", false
		return err
	case atom.Pre, atom.Listing, atom.Xmp, atom.Plaintext:
		if p.head {
			return p.writeChildren(node, depth, hidden)
		}
		was, margin := p.pre, p.margin
		p.pre, p.margin = true, document.Indent
		err := p.writeChildren(node, depth, hidden)
		p.endLine()
		p.pre, p.margin = was, margin
		return err
	case atom.Ul, atom.Ol, atom.Menu, atom.Dir:
		return p.writeList(node, depth, hidden)
	case atom.Ruby:
		if !p.reading {
			return p.writeRuby(node, depth, hidden)
		}
	case atom.Table:
		if rows := dataRows(node); rows != nil && !p.head && !hidden {
			return p.writeTable(node, rows, depth)
		}
	}
	return p.writeChildren(node, depth, hidden)
}

// styleOf returns what the style of an element says of its being shown.
func styleOf(node *html.Node) (display, visibility string) {
	style := attributeOf(node, "style")
	for style != "" {
		var one string
		one, style, _ = strings.Cut(style, ";")
		name, value, _ := strings.Cut(strings.ToLower(one), ":")
		value, _, _ = strings.Cut(value, "!")
		switch strings.TrimSpace(name) {
		case "display":
			display = strings.TrimSpace(value)
		case "visibility":
			visibility = strings.TrimSpace(value)
		}
	}
	return display, visibility
}

func hasAttribute(node *html.Node, key string) bool {
	return slices.ContainsFunc(node.Attr, func(one html.Attribute) bool { return one.Key == key })
}

// writeControl writes a picture by its description, and a field by what stands in it.
func (p *page) writeControl(node *html.Node, depth int, hidden bool) error {
	if hidden {
		return p.writeChildren(node, depth, hidden)
	}
	said := ""
	switch kind := strings.ToLower(attributeOf(node, "type")); {
	case node.DataAtom == atom.Img, node.DataAtom == atom.Input && kind == "image":
		said = attributeOf(node, "alt")
	case node.DataAtom == atom.Optgroup:
		said = attributeOf(node, "label")
	case node.DataAtom == atom.Input && slices.Contains([]string{
		"hidden", "password", "checkbox", "radio", "file", "range", "color",
	}, kind):
	case node.DataAtom == atom.Input, node.DataAtom == atom.Textarea && node.FirstChild == nil:
		if said = attributeOf(node, "value"); said == "" {
			said = attributeOf(node, "placeholder")
		}
	}
	p.blank = true
	p.write(said)
	if node.DataAtom == atom.Optgroup {
		p.endLines(1)
	}
	was := p.pre
	p.pre = p.pre || node.DataAtom == atom.Textarea && !p.head
	err := p.writeChildren(node, depth, hidden)
	p.pre = was
	p.blank = true
	return err
}

// mostIndented is the depth of lists from which on items are indented no further.
const mostIndented = 8

// writeList writes the items of a list, each behind a mark.
func (p *page) writeList(node *html.Node, depth int, hidden bool) error {
	number := 1
	if start, err := strconv.Atoi(attributeOf(node, "start")); err == nil {
		number = start
	}
	if p.lists++; p.lists > 1 && p.out.Len() > 0 {
		p.breaks = min(p.breaks, 1) // a list in a list goes on without an empty line
	}
	defer func() { p.lists-- }()
	for child := node.FirstChild; child != nil; child = child.NextSibling {
		if child.DataAtom == atom.Li {
			mark := "- "
			if node.DataAtom == atom.Ol {
				if value, err := strconv.Atoi(attributeOf(child, "value")); err == nil {
					number = value
				}
				mark = fmt.Sprintf("%d. ", number)
				number++
			}
			p.endLines(1)
			p.mark = strings.Repeat("  ", min(p.lists-1, mostIndented)) + mark
		}
		if err := p.writeNode(child, depth+1, hidden); err != nil {
			return err
		}
		p.mark = ""
	}
	return nil
}

// writeRuby writes characters, and how they are read behind all of them: a word stays whole.
func (p *page) writeRuby(node *html.Node, depth int, hidden bool) error {
	var read strings.Builder
	for child := node.FirstChild; child != nil; child = child.NextSibling {
		if child.DataAtom == atom.Rt || child.DataAtom == atom.Rtc {
			read.WriteString(p.renderInline(child, depth))
		} else if err := p.writeNode(child, depth+1, hidden); err != nil {
			return err
		}
	}
	if read.Len() > 0 && !hidden {
		p.write("(" + read.String() + ")")
	}
	return p.err
}

// renderInline returns the text of a node as one line.
func (p *page) renderInline(node *html.Node, depth int) string {
	inner := page{object: p.object, limits: p.limits, cells: p.cells, reading: node.DataAtom == atom.Rt}
	if err := inner.writeChildren(node, depth, false); err != nil && p.err == nil {
		p.err = err
	}
	text, err := inner.finishPage()
	if err != nil && p.err == nil {
		p.err = err
	}
	p.cells = inner.cells
	return strings.Join(strings.Fields(text), " ")
}
