package office

import (
	"encoding/xml"
	"regexp"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/tables"
)

// drawing reads what the shapes of a part say, of a slide, its notes, a diagram, or what is drawn on a sheet: title,
// paragraphs, tables, charts and diagrams in their order.
type drawing struct {
	parts   *parts
	related relations
	notes   bool
	once    map[string]bool // footers that were read; nil: there are none

	holder    string // type of the shape's place holder
	title     []string
	lines     []string
	bytes     int
	paragraph strings.Builder
	text      bool
	depth     int    // of the paragraph in its list
	number    string // how it is numbered; empty: it is not
	from      int    // the first number
	counts    [listLevels]int
	table     mergedRows
	cell      []string
	cells     int  // in one another
	left      bool // the cell goes on from the one to its left
	below     bool // or above it
	skip      int  // depth of a shape that is hidden; 0: none
	hidden    bool // the whole part is
}

// readDrawing reads a part and those that it names.
func (p *parts) readDrawing(name string, d *drawing) error {
	related, err := p.readRelations(name)
	if err != nil {
		return err
	}
	d.parts, d.related = p, related
	return p.walkShown(name, d.takeToken)
}

func (d *drawing) takeToken(token xml.Token, depth int) error {
	if d.hidden {
		return nil
	}
	switch x := token.(type) {
	case xml.StartElement:
		if d.skip == 0 {
			return d.startElement(x, depth)
		}
	case xml.EndElement:
		if d.skip > 0 {
			if depth <= d.skip {
				d.skip = 0
			}
			return nil
		}
		d.endElement(x.Name.Local)
	case xml.CharData:
		if d.text && d.skip == 0 {
			d.paragraph.Write(x)
			d.bytes += len(x)
		}
	}
	return d.parts.tooLong(d.bytes)
}

func (d *drawing) startElement(x xml.StartElement, depth int) error {
	switch x.Name.Local {
	case "sld":
		if attrOf(x, "show") == "0" || attrOf(x, "show") == "false" {
			d.hidden = d.parts.skipsHidden("slides")
		}
	case "sp", "graphicFrame", "pic", "cxnSp", "grpSp":
		d.holder, d.counts = "", [listLevels]int{}
	case "cNvPr":
		if value := attrOf(x, "hidden"); value != "" && isTrue(value) && d.parts.skipsHidden("shapes") {
			d.skip = depth - 2 // the shape, around its properties
		}
	case "ph":
		if d.holder = attrOf(x, "type"); d.holder == "" {
			d.holder = "body"
		}
	case "pPr":
		if level, err := strconv.Atoi(attrOf(x, "lvl")); err == nil {
			d.depth = min(max(level, 0), 8)
		}
	case "buAutoNum":
		d.number = attrOf(x, "type")
		if d.from, _ = strconv.Atoi(attrOf(x, "startAt")); d.from < 1 {
			d.from = 1
		}
	case "t":
		d.text = true
	case "br":
		d.paragraph.WriteByte(' ')
	case "tc":
		d.cells++
		d.left, d.below = attrOf(x, "hMerge") == "1", attrOf(x, "vMerge") == "1"
	case "chart", "relIds":
		return d.related.readGraphic(d.parts, x, d.addLine)
	}
	return nil
}

func (d *drawing) endElement(name string) {
	switch name {
	case "t":
		d.text = false
	case "p":
		d.endParagraph()
	case "tc":
		text := strings.Join(d.cell, " ")
		if at := len(d.table.row); d.left && at > 0 && len(d.table.row[at-1]) <= maxRepeated {
			text = d.table.row[at-1]
		}
		d.table.add(text, 1, d.below)
		d.cell = nil
		d.cells--
	case "tr":
		row := d.table.finishRow()
		d.bytes += len(row)
		d.addLine(row)
	case "tbl":
		d.table = mergedRows{}
	}
}

func (d *drawing) endParagraph() {
	text := strings.Join(strings.Fields(unescapeText(d.paragraph.String())), " ")
	depth, mark := d.depth, ""
	d.paragraph.Reset()
	if d.depth = 0; text != "" {
		mark = d.numberParagraph(depth)
	}
	d.number = ""
	switch {
	case text == "":
	case d.cells > 0:
		d.cell = append(d.cell, text)
	case d.holder == "sldNum", d.notes && (d.holder == "sldImg" || d.holder == "hdr" || d.holder == "dt" ||
		d.holder == "ftr"): // numbers of pages, and what every page of notes says
	case d.holder == "title", d.holder == "ctrTitle":
		d.title = append(d.title, text)
	case d.holder == "dt", d.holder == "ftr", d.holder == "hdr":
		if !d.once[text] && d.once != nil {
			d.once[text] = true
			d.addLine(escapeHeadings(text))
		}
	case mark != "":
		d.addLine(strings.Repeat("  ", depth) + mark + text)
	case depth > 0:
		d.addLine(strings.Repeat("  ", depth) + "- " + text)
	default:
		d.addLine(escapeHeadings(text))
	}
}

// numberParagraph returns the number of a paragraph with a blank behind it; empty: it has none.
func (d *drawing) numberParagraph(depth int) string {
	for below := depth + 1; below < listLevels; below++ {
		d.counts[below] = 0
	}
	if d.number == "" {
		d.counts[depth] = 0
		return ""
	}
	d.counts[depth]++
	format := "decimal"
	for prefix, known := range map[string]string{
		"alphaLc": "lowerLetter", "alphaUc": "upperLetter", "romanLc": "lowerRoman", "romanUc": "upperRoman",
	} {
		if strings.HasPrefix(d.number, prefix) {
			format = known
		}
	}
	number := document.FormatCounter(d.counts[depth]+d.from-1, format)
	switch {
	case strings.HasSuffix(d.number, "ParenBoth"):
		return "(" + number + ") "
	case strings.HasSuffix(d.number, "ParenR"):
		return number + ") "
	case strings.HasSuffix(d.number, "Plain"):
		return number + " "
	}
	return number + ". "
}

func (d *drawing) addLine(text string) {
	if text != "" {
		d.lines = append(d.lines, text)
	}
}

// readGraphic reads a chart or a diagram that an element names.
func (r relations) readGraphic(parts *parts, element xml.StartElement, line func(string)) error {
	if element.Name.Local == "chart" {
		target := r.targetOf(attrOf(element, "id"))
		if target == "" {
			return nil
		}
		chart := chartReader{parts: parts, line: line}
		return parts.skipDamaged(target, parts.walkShown(target, chart.takeToken))
	}
	target := r.targetOf(attrOf(element, "dm"))
	if target == "" {
		return nil
	}
	points := drawing{}
	if err := parts.skipDamaged(target, parts.readDrawing(target, &points)); err != nil {
		return err
	}
	for _, text := range points.lines {
		line(text)
	}
	return nil
}

// chartReader reads the titles of a chart, and its series with their names and values as rows.
type chartReader struct {
	parts *parts
	line  func(string)
	text  strings.Builder
	in    int
	row   []string
	title []string
	last  string // row of categories, which every series has
	bytes int
}

func (c *chartReader) takeToken(token xml.Token, _ int) error {
	switch x := token.(type) {
	case xml.StartElement:
		switch x.Name.Local {
		case "t", "v", "pt":
			c.in++
		}
	case xml.EndElement:
		switch x.Name.Local {
		case "t", "v", "pt":
			c.in--
			if text := strings.Join(strings.Fields(c.text.String()), " "); text != "" && x.Name.Local == "t" {
				c.title = append(c.title, text)
			} else if text != "" && len(c.row) < tables.MostColumns {
				c.row = append(c.row, shortNumber(text))
			}
			c.text.Reset()
		case "p":
			c.line(escapeHeadings(strings.Join(c.title, " ")))
			c.title = nil
		case "tx", "cat", "val", "xVal", "yVal", "bubbleSize", "strDim", "numDim", "txData":
			row := tables.FormatRow(c.row)
			if categories := x.Name.Local == "cat" || x.Name.Local == "xVal"; !categories || row != c.last {
				c.line(row)
				if categories {
					c.last = row
				}
			}
			c.row = nil
		}
	case xml.CharData:
		if c.in > 0 {
			c.text.Write(x)
			c.bytes += len(x)
		}
	}
	return c.parts.tooLong(c.bytes)
}

// readComments returns what a part of comments says, each behind the cell that it is about, where it names one.
func (p *parts) readComments(name string) (lines []string, err error) {
	var text strings.Builder
	in, about, bytes := 0, "Comment: ", 0
	err = p.walkShown(name, func(token xml.Token, _ int) error {
		switch x := token.(type) {
		case xml.StartElement:
			switch x.Name.Local {
			case "comment", "threadedComment":
				if cell := attrOf(x, "ref"); cell != "" {
					about = "Comment on " + cell + ": "
				}
			case "t", "text":
				in++
			}
		case xml.EndElement:
			switch x.Name.Local {
			case "t", "text":
				in--
			case "p", "comment", "threadedComment", "cm":
				if said := strings.Join(strings.Fields(unescapeText(text.String())), " "); said != "" {
					lines = append(lines, about+said)
				}
				text.Reset()
			}
		case xml.CharData:
			if in > 0 {
				text.Write(x)
				bytes += len(x)
			}
		}
		return p.tooLong(bytes)
	})
	return lines, p.skipDamaged(name, err)
}

// escaped is a character that XML may not have, as spreadsheets and slides write it.
var escaped = regexp.MustCompile(`_x[0-9A-Fa-f]{4}_`)

// unescapeText writes such characters as they are, those for control as blanks.
func unescapeText(text string) string {
	if !strings.Contains(text, "_x") {
		return text
	}
	return escaped.ReplaceAllStringFunc(text, func(code string) string {
		value, err := strconv.ParseUint(code[2:6], 16, 32)
		switch {
		case err != nil, value >= 0xd800 && value < 0xe000:
			return code
		case value == '\n':
			return "\n"
		case value < ' ', value == 0x7f, value >= 0xfffe:
			return " "
		}
		return string(rune(value))
	})
}
