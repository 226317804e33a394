package office

import (
	"cmp"
	"encoding/xml"
	"errors"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/tables"
)

// ParseDOCX reads a document of Word.
func ParseDOCX(raw []byte, object string, limits document.Limits) (document.Doc, error) {
	parts, err := openParts(raw, document.DOCX, object, limits)
	if err != nil {
		return document.Doc{}, err
	}
	word := wordReader{parts: parts, styles: map[string]wordStyle{}, notes: map[string][]string{}}
	if err := word.readDocument(); err != nil {
		return document.Doc{}, parts.wrapFault(err)
	}
	doc := document.Doc{}
	if doc.Title, doc.Meta, err = parts.readCore(); err != nil {
		return document.Doc{}, parts.wrapFault(err)
	}
	text := strings.Trim(manyBlank.ReplaceAllString(word.out.String(), "\n\n"), "\n")
	if text == "" {
		return document.Doc{}, parts.reportEmpty("word/document.xml")
	}
	if doc.Title == "" {
		doc.Title = document.CutTitle(word.title, limits.Title)
	}
	doc.Text, doc.Missing = strings.NewReader(text), parts.describeMissing()
	return doc, nil
}

// wordReader writes the parts of a WordprocessingML document as Markdown: headings, lists, rows of tables, and an empty
// line behind every other paragraph. What is tied to a paragraph (notes, comments, boxes, charts) stands behind it.
type wordReader struct {
	parts   *parts
	related relations // of the part that is read
	styles  map[string]wordStyle
	numbers numbering
	notes   map[string][]string // paragraphs of notes and comments by their kind and id
	order   []string            // of notes
	note    string              // that is read; empty: none
	out     strings.Builder
	listed  bool
	title   string // of the first paragraph in the style Title
	bytes   int    // of all texts that were read

	*frame
	frames []*frame // around it
}

// frame is a flow of paragraphs: that of the document, or of a box in a paragraph.
type frame struct {
	out       []string // finished paragraphs of a box or a note; those of the document are written at once
	paragraph strings.Builder
	after     []string // paragraphs that stand behind it
	text      bool     // inside of a run's text
	font      string   // of the run; empty: that of its paragraph
	level     int      // of the heading that the paragraph is, 0: none
	titled    bool
	list      int // depth of the list that it is an item of, 0: none
	number    string
	marked    bool // properties of a paragraph, which hold those of its mark
	hiding    bool // the run is hidden, or its paragraph's style is
	styled    bool // the paragraph's style hides it
	lost      bool // text of the run was left out
	row       bool // the row of the table is hidden
	header    bool // the row of the table is marked as names of its columns
	tables    int  // in one another
	table     mergedRows
	head      tables.Head
	cell      []string
	span      int
	below     bool
	base      strings.Builder // of ruby
	reading   strings.Builder
	ruby      int    // 0: none, 1: its base, 2: its reading
	fields    []bool // around the run: its code is read, and not yet what it shows
}

// readDocument reads all parts of the document that it shows.
func (w *wordReader) readDocument() error {
	body, err := w.parts.main("officeDocument", "word/document.xml")
	if err != nil {
		return err
	}
	related, err := w.parts.readRelations(body)
	if err != nil {
		return err
	}
	folder := path.Dir(body)
	if err := w.readStyles(related.partOf("styles", path.Join(folder, "styles.xml"))); err != nil {
		return err
	}
	if err := w.numbers.read(w.parts, related.partOf("numbering", path.Join(folder, "numbering.xml"))); err != nil {
		return err
	}
	for _, kind := range []string{"footnotes", "endnotes", "comments"} {
		for _, name := range related.targetsOf(kind) {
			if err := w.parts.skipDamaged(name, w.readPart(name)); err != nil {
				return err
			}
			w.note = ""
		}
	}
	if err := w.readPart(body); err != nil {
		return err
	}
	for _, key := range w.order { // nothing refers to these
		w.writeLines(w.notes[key])
	}
	seen := map[string]bool{}
	for _, kind := range []string{"header", "footer"} {
		for _, name := range related.targetsOf(kind) {
			w.note = kind // its paragraphs are kept
			if err := w.parts.skipDamaged(name, w.readPart(name)); err != nil {
				return err
			}
			texts := w.notes[kind]
			w.note, w.notes[kind] = "", nil
			for _, text := range texts {
				if !seen[text] && !document.PageMark.MatchString(text) {
					seen[text] = true
					w.writeLine(strings.ToUpper(kind[:1])+kind[1:]+": "+text, false)
				}
			}
		}
	}
	return nil
}

func (w *wordReader) readPart(name string) (err error) {
	if w.related, err = w.parts.readRelations(name); err != nil {
		return err
	}
	w.frame, w.frames = &frame{}, nil
	defer func() {
		if len(w.frames) > 0 {
			w.frame, w.frames = w.frames[0], nil
		}
		w.writeRows(w.endTable()) // of a table that breaks off
	}()
	return w.parts.walkShown(name, w.takeToken)
}

func (w *wordReader) takeToken(token xml.Token, _ int) (err error) {
	switch x := token.(type) {
	case xml.StartElement:
		err = w.startElement(x)
	case xml.EndElement:
		w.endElement(x.Name.Local)
	case xml.CharData:
		if w.text {
			w.write(inFont(string(x), w.font))
		}
	}
	return errors.Join(err, w.parts.tooLong(max(w.out.Len(), w.bytes)))
}

// write adds to the paragraph what is shown.
func (w *wordReader) write(text string) {
	w.bytes += len(text)
	switch {
	case slices.Contains(w.fields, true): // what a code is made of
	case w.hiding && !w.parts.limits.Hidden:
		w.lost = w.lost || strings.TrimSpace(text) != ""
	case w.ruby == 2:
		w.reading.WriteString(text)
	default:
		if w.ruby == 1 {
			w.base.WriteString(text)
		}
		w.paragraph.WriteString(text)
	}
}

func (w *wordReader) startElement(element xml.StartElement) error {
	value := attrOf(element, "val")
	switch element.Name.Local {
	case "t":
		w.text = true
	case "r":
		w.hiding, w.lost, w.font = w.styled, false, ""
	case "rFonts":
		if !w.marked {
			w.font = attrOf(element, "ascii")
		}
	case "pPr":
		w.marked = true
	case "rStyle":
		if !w.marked {
			w.hiding = w.hiding || w.styleOf(value).hidden
		}
	case "vanish":
		if !w.marked {
			w.hiding = isTrue(value)
		}
	case "tab", "ptab":
		if w.paragraph.Len() > 0 && !w.marked { // one in the properties is a stop
			w.write("\t")
		}
	case "br", "cr":
		w.write("\n")
	case "noBreakHyphen":
		w.write("-")
	case "sym":
		code, err := strconv.ParseUint(attrOf(element, "char"), 16, 16)
		shown := inFont(string(rune(code)), cmp.Or(attrOf(element, "font"), w.font))
		if err == nil && !strings.ContainsFunc(shown, document.IsPrivateUse) {
			w.write(shown)
		}
	case "fldChar":
		w.followField(attrOf(element, "fldCharType"))
	case "subDoc":
		w.parts.leaveOut("a document outside of it")
	case "rubyBase":
		w.ruby = 1
	case "rt":
		w.ruby = 2
	case "txbxContent", "txBody":
		w.frames = append(w.frames, w.frame)
		w.frame = &frame{}
	case "textpath":
		w.addBehind(attrOf(element, "string"))
	case "footnote", "endnote", "comment":
		w.startNote(element)
	case "footnoteReference", "endnoteReference", "commentReference":
		key := strings.TrimSuffix(element.Name.Local, "Reference") + attrOf(element, "id")
		w.after = append(w.after, w.notes[key]...)
		delete(w.notes, key)
	case "chart", "relIds":
		return w.related.readGraphic(w.parts, element, w.addBehind)
	case "altChunk":
		w.parts.leaveOut("a document inside of it (" + path.Base(w.related.targetOf(attrOf(element, "id"))) + ")")
	default:
		w.readProperty(element, value)
	}
	return nil
}

// followField follows a field from its code to what it shows.
func (w *wordReader) followField(kind string) {
	last := len(w.fields) - 1
	switch {
	case kind == "begin":
		w.fields = append(w.fields, true)
	case kind == "separate" && last >= 0:
		w.fields[last] = false
	case kind == "end" && last >= 0:
		w.fields = w.fields[:last]
	}
}

// readProperty takes what a paragraph, or a table, says of itself.
func (w *wordReader) readProperty(element xml.StartElement, value string) {
	number, err := strconv.Atoi(value)
	switch element.Name.Local {
	case "pStyle":
		w.applyStyle(value)
	case "outlineLvl":
		if err == nil && number >= 0 && number < 9 {
			w.level = number + 1
		}
	case "ilvl":
		if err == nil {
			w.list = 1 + min(max(number, 0), 8)
		}
	case "numId":
		if w.number = value; value == "0" {
			w.list, w.number = 0, ""
		} else {
			w.list = max(w.list, 1)
		}
	case "hidden":
		w.row = isTrue(value)
	case "tblHeader":
		if w.tables == 1 {
			w.header = isTrue(value)
		}
	case "gridSpan":
		if w.tables == 1 {
			w.span = number
		}
	case "vMerge":
		w.below = w.tables == 1 && value != "restart"
	case "tbl":
		if w.tables++; w.listed && w.tables == 1 && len(w.frames) == 0 && w.note == "" {
			w.out.WriteByte('\n')
			w.listed = false
		}
	}
}

// startNote begins a note or a comment, whose paragraphs are kept until something refers to it.
func (w *wordReader) startNote(element xml.StartElement) {
	w.note = element.Name.Local + attrOf(element, "id")
	kind := attrOf(element, "type")
	if strings.HasPrefix(kind, "separator") || strings.HasPrefix(kind, "continuation") {
		w.note = "separator"
		return
	}
	w.order = append(w.order, w.note)
	if element.Name.Local == "comment" {
		author := attrOf(element, "author")
		w.paragraph.WriteString(strings.TrimSpace("Comment by "+author) + ": ")
	}
}

// addBehind adds a line that stands behind the paragraph.
func (w *wordReader) addBehind(text string) {
	if text = strings.TrimSpace(text); text != "" {
		w.bytes += len(text)
		w.after = append(w.after, text)
	}
}

func (w *wordReader) endElement(name string) {
	switch name {
	case "t":
		w.text = false
	case "r":
		if w.lost {
			w.parts.skipsHidden("pieces of text")
		}
		w.hiding, w.lost, w.font = false, false, ""
	case "pPr":
		w.marked = false
	case "num": // of a fraction
		w.write("/")
	case "rubyBase", "rt":
		w.ruby = 0
	case "ruby":
		if w.reading.Len() > 0 {
			w.addBehind(strings.TrimSpace(w.base.String()) + " (" + strings.TrimSpace(w.reading.String()) + ")")
		}
		w.base.Reset()
		w.reading.Reset()
	case "txbxContent", "txBody":
		if last := len(w.frames) - 1; last >= 0 {
			box := w.frame
			w.frame, w.frames = w.frames[last], w.frames[:last]
			w.after = append(w.after, box.out...)
		}
	case "footnote", "endnote", "comment":
		w.note = ""
	case "p":
		w.endParagraph()
	case "tc":
		if w.tables == 1 {
			w.table.add(strings.Join(w.cell, " "), w.span, w.below)
			w.cell, w.span, w.below = nil, 0, false
		}
	case "tr":
		w.endRow()
	case "tbl":
		if w.tables--; w.tables == 0 {
			w.writeRows(w.endTable())
			if len(w.frames) == 0 && w.note == "" {
				w.out.WriteByte('\n')
				w.listed = false
			}
		}
	}
}

func (w *wordReader) endRow() {
	if w.tables != 1 {
		return
	}
	cells := slices.Clone(w.table.row)
	row, hidden, marked := w.table.finishRow(), w.row, w.header
	w.row, w.header = false, false
	if w.bytes += len(row); !hidden || row == "" || !w.parts.skipsHidden("rows") {
		w.writeRows(w.head.AddRow(cells, marked))
	}
}

// endTable returns the rows of the table that are not written yet.
func (w *wordReader) endTable() []string {
	lines := w.head.Finish()
	w.table, w.head = mergedRows{}, tables.Head{}
	return lines
}

func (w *wordReader) writeRows(lines []string) {
	for _, line := range lines {
		w.writeLine(line, true)
	}
}

func (w *wordReader) endParagraph() {
	text, after := strings.TrimSpace(w.paragraph.String()), w.after
	level, list, number, titled := w.level, w.list, w.number, w.titled
	w.paragraph.Reset()
	w.level, w.list, w.number, w.titled, w.styled, w.after = 0, 0, "", false, false, nil
	mark := ""
	if number != "" && text != "" {
		mark = w.numbers.next(number, max(list, 1)-1)
	}
	switch {
	case text == "":
	case w.tables > 0:
		text = strings.Join(strings.Fields(text), " ")
		if list > 0 && mark != "- " {
			text = mark + text
		}
		w.cell = append(w.cell, text)
	case level > 0:
		if text = strings.Join(strings.Fields(text), " "); titled && w.title == "" && w.note == "" {
			w.title = text
		}
		if mark == "- " {
			mark = ""
		}
		w.writeLine(strings.Repeat("#", min(level, 6))+" "+mark+text, false)
	case list > 0:
		if number == "" {
			mark = "- "
		}
		w.writeLine(strings.Repeat("  ", list-1)+mark+text, true)
	default:
		w.writeLine(escapeHeadings(text), false)
	}
	w.writeLines(after)
}

// writeLines writes paragraphs that stand behind another.
func (w *wordReader) writeLines(all []string) {
	for _, text := range all {
		if w.tables > 0 {
			w.cell = append(w.cell, strings.Join(strings.Fields(text), " "))
		} else {
			w.writeLine(text, false)
		}
	}
}

// writeLine writes a paragraph; items of a list and rows of a table follow each other without an empty line.
func (w *wordReader) writeLine(text string, close bool) {
	switch {
	case text == "":
		return
	case len(w.frames) > 0:
		w.frame.out = append(w.frame.out, text)
		return
	case w.note != "":
		w.notes[w.note] = append(w.notes[w.note], text)
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

// manyBlank are empty lines of which one is enough.
var manyBlank = regexp.MustCompile(`\n[ \t]*\n(?:[ \t]*\n)+`)
