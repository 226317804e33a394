// Package office reads documents that are a zip of XML: Word, slides, sheets, and books of EPUB.
package office

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

// entryBytes is what one entry of a zip takes in memory.
const entryBytes = 512

// ParseFunc reads a document within another one.
type ParseFunc func(reader io.Reader, kind document.Kind, object string, limits document.Limits) (document.Doc, error)

// parts are those of a document that is a zip of XML. What all of them unpack to is bounded together.
type parts struct {
	object string
	kind   document.Kind
	limits document.Limits
	packed int64                // bytes of the whole file: no part has more
	files  map[string]*zip.File // by their folded names
	read   int64                // bytes that came out of all parts so far
	left   []string             // what is left out, each once
	counts map[string]int       // how often
}

func openParts(raw []byte, kind document.Kind, object string, limits document.Limits) (*parts, error) {
	p := &parts{
		object: object, kind: kind, limits: limits, packed: int64(len(raw)), files: map[string]*zip.File{},
		counts: map[string]int{},
	}
	if bytes.HasPrefix(raw, []byte{0xd0, 0xcf, 0x11, 0xe0}) { // a compound file: encrypted, or of the type before
		return nil, fault.Encrypted.At("read", object).
			Because("the document is password-protected or in the old format from before ." + string(kind)).
			Advise("save it without a password as ." + string(kind))
	}
	if int64(bytes.Count(raw, []byte("PK\x01\x02")))*entryBytes > limits.Memory/2 {
		return nil, document.OverMax(object, "memory", limits.Memory, "its parts take more than half the bytes")
	}
	reader, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, p.wrapFault(err)
	}
	for _, file := range reader.File { // of several with one name, the last counts, and only that is unpacked
		p.files[foldName(file.Name)] = file
	}
	return p, nil
}

// foldName returns a name of a part as it is compared: programs differ in case, escapes, slashes and composed letters.
func foldName(name string) string {
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	return strings.TrimPrefix(strings.ToLower(norm.NFC.String(path.Clean(strings.ReplaceAll(name, `\`, "/")))), "/")
}

// findFile returns the part of a name, nil where there is none.
func (p *parts) findFile(name string) *zip.File { return p.files[foldName(name)] }

// wrapFault names a document whose parts are not what they should be.
func (p *parts) wrapFault(err error) error {
	if fault.As(err) != nil {
		return err
	}
	return fault.Unreadable.At("read", p.object).Because(err).
		Advise("the file is no readable ." + string(p.kind) + ": save it again")
}

// openPart unpacks a part under the limits.
func (p *parts) openPart(file *zip.File) (io.ReadCloser, error) {
	part, err := file.Open()
	if err != nil {
		return nil, err
	}
	packed := min(int64(min(file.CompressedSize64, 1<<62)), p.packed)
	reader := p.limits.BoundRatio(part, func() int64 { return packed }, p.object)
	above := document.OverMax(p.object, "bytes", p.limits.Bytes, "a part of it has more bytes")
	reader = document.BoundReader(reader, p.limits.Bytes, above)
	return struct {
		io.Reader
		io.Closer
	}{&allParts{reader, p}, part}, nil
}

// allParts counts what comes out of all parts of a document.
type allParts struct {
	reader io.Reader
	parts  *parts
}

func (a *allParts) Read(raw []byte) (int, error) {
	n, err := a.reader.Read(raw)
	if a.parts.read += int64(n); a.parts.read > a.parts.limits.Bytes {
		return 0, document.OverMax(a.parts.object, "bytes", a.parts.limits.Bytes, "its parts have more bytes together")
	}
	return n, err
}

// walkTokens calls each with every token of a part and the depth of the elements around it; a start or an end is within
// its own element. A part that is not there has none.
func (p *parts) walkTokens(name string, each func(token xml.Token, depth int) error) error {
	file := p.findFile(name)
	if file == nil {
		return nil
	}
	part, err := p.openPart(file)
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	plain, wide := toUTF8(part)
	decoder := xml.NewDecoder(&runs{reader: plain, limits: p.limits, object: p.object})
	decoder.CharsetReader = func(label string, input io.Reader) (io.Reader, error) {
		if wide {
			return input, nil
		}
		return charset.NewReaderLabel(label, input)
	}
	depth := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, start := token.(xml.StartElement); start {
			if depth++; depth > p.limits.Nesting {
				return document.OverMax(p.object, "nesting", p.limits.Nesting, "its elements are nested more deeply")
			}
		}
		if err := each(token, depth); err != nil {
			return err
		}
		if _, end := token.(xml.EndElement); end {
			depth--
		}
	}
}

// toUTF8 gives XML that is written in UTF-16 as UTF-8, and any other as it is.
func toUTF8(reader io.Reader) (plain io.Reader, wide bool) {
	in := bufio.NewReader(reader)
	head, _ := in.Peek(2) // what breaks here breaks again when it is read
	var order unicode.Endianness
	switch string(head) {
	case "\xff\xfe", "<\x00":
		order = unicode.LittleEndian
	case "\xfe\xff", "\x00<":
		order = unicode.BigEndian
	default:
		return in, false
	}
	return transform.NewReader(in, unicode.UTF16(order, unicode.UseBOM).NewDecoder()), true
}

// knownForm is the namespace of what programs of Office show.
var knownForm = regexp.MustCompile(`^https?://(?:schemas\.(?:microsoft\.com|openxmlformats\.org)|purl\.oclc\.org)/|` +
	`^urn:schemas-microsoft`)

// walkShown calls each with the tokens of a part that its program shows: of the forms of one thing the first that needs
// no extension of another program, and nothing that a tracked change took away.
func (p *parts) walkShown(name string, each func(token xml.Token, depth int) error) error {
	skip, chosen := 0, []bool(nil) // of each thing with several forms around: one was there
	foreign := map[string]bool{}   // prefixes of extensions of other programs
	unknown := func(prefix string) bool { return foreign[prefix] }
	return p.walkTokens(name, func(token xml.Token, depth int) error {
		switch x := token.(type) {
		case xml.StartElement:
			last := len(chosen) - 1
			for _, attr := range x.Attr {
				if attr.Name.Space == "xmlns" && len(foreign) < maxStyles {
					foreign[attr.Name.Local] = !knownForm.MatchString(attr.Value)
				}
			}
			switch name := x.Name.Local; {
			case skip > 0:
				return nil
			case name == "AlternateContent":
				chosen = append(chosen, false)
			case (name == "Choice" || name == "Fallback") && last >= 0 && chosen[last],
				name == "Choice" && slices.ContainsFunc(strings.Fields(attrOf(x, "Requires")), unknown),
				name == "moveFrom", name == "del":
				skip = depth
				return nil
			case name == "Choice" && last >= 0:
				chosen[last] = true
			}
		case xml.EndElement:
			switch {
			case skip == depth:
				skip = 0
				return nil
			case skip == 0 && x.Name.Local == "AlternateContent" && len(chosen) > 0:
				chosen = chosen[:len(chosen)-1]
			}
		}
		if skip > 0 {
			return nil
		}
		return each(token, depth)
	})
}

// runs refuses XML that goes on for too long without a new tag: the decoder holds it until then.
type runs struct {
	reader io.Reader
	limits document.Limits
	object string
	length int64
}

func (r *runs) Read(raw []byte) (int, error) {
	n, err := r.reader.Read(raw)
	if last := bytes.LastIndexByte(raw[:n], '<'); last >= 0 {
		r.length = int64(n - last)
	} else {
		r.length += int64(n)
	}
	if r.length > r.limits.Row {
		return 0, document.OverMax(r.object, "row", r.limits.Row, "more bytes stand between two of its tags")
	}
	return n, err
}

// attrOf returns an attribute of an element by its local name, or nothing.
func attrOf(element xml.StartElement, name string) string {
	for _, attr := range element.Attr {
		if attr.Name.Local == name {
			return attr.Value
		}
	}
	return ""
}

// isTrue reads a property that an element switches on, unless it says otherwise.
func isTrue(value string) bool {
	return value != "0" && value != "false" && value != "off" && value != "none"
}

// coreNames are the properties of a file that become metadata, by the names of their elements.
var coreNames = map[string]string{
	"creator": "author", "created": "created", "modified": "modified", "subject": "subject", "keywords": "keywords",
}

// readCore returns the title and the metadata of the core properties.
func (p *parts) readCore() (title string, meta map[string]string, err error) {
	in, values := "", map[string]string{}
	core, err := p.main("core-properties", "docProps/core.xml")
	if err != nil {
		return "", nil, err
	}
	err = p.walkTokens(core, func(token xml.Token, depth int) error {
		switch x := token.(type) {
		case xml.StartElement:
			if depth == 2 {
				in = x.Name.Local
				delete(values, in) // the last one counts
			}
		case xml.EndElement:
			if depth == 2 {
				in = ""
			}
		case xml.CharData:
			known := in == "title" || coreNames[in] != ""
			if known && depth == 2 && len(values[in]) <= document.TitleBytes(p.limits) {
				values[in] += string(x[:min(len(x), document.TitleBytes(p.limits))])
			}
		}
		return nil
	})
	for element, name := range coreNames {
		meta = document.AddProperty(meta, name, values[element])
	}
	title = strings.TrimSpace(strings.ToValidUTF8(values["title"], ""))
	return document.OwnTitle(document.CutTitle(title, p.limits.Title)), meta, err
}

// maxRelations of a part are read.
const maxRelations = 50_000

// relation is a part that another one names.
type relation struct{ id, kind, target string }

// readRelations returns the relations of a part, in order; targets are names of parts.
func (p *parts) readRelations(of string) (relations, error) {
	var out relations
	folder, base := path.Split(of)
	err := p.walkTokens(folder+"_rels/"+base+".rels", func(token xml.Token, _ int) error {
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "Relationship" || attrOf(start, "TargetMode") == "External" {
			return nil
		}
		target := strings.ReplaceAll(attrOf(start, "Target"), `\`, "/")
		if strings.HasPrefix(target, "/") {
			target = path.Clean(target[1:])
		} else {
			target = path.Join(folder, target)
		}
		if out = append(out, relation{attrOf(start, "Id"), path.Base(attrOf(start, "Type")), target}); len(out) >
			maxRelations {
			return document.OverMax(p.object, "memory", p.limits.Memory, "it names too many parts")
		}
		return nil
	})
	return out, err
}

type relations []relation

// targetOf returns the part of an id, or nothing.
func (r relations) targetOf(id string) string {
	for _, one := range r {
		if one.id == id {
			return one.target
		}
	}
	return ""
}

// targetsOf returns the parts of a kind.
func (r relations) targetsOf(kind string) []string {
	var out []string
	for _, one := range r {
		if one.kind == kind {
			out = append(out, one.target)
		}
	}
	return out
}

// main returns the part of a kind that the document itself names, or what is usual where it names none.
func (p *parts) main(kind, usual string) (string, error) {
	related, err := p.readRelations("")
	if err != nil {
		return "", err
	}
	for _, name := range related.targetsOf(kind) {
		if p.findFile(name) != nil {
			return name, nil
		}
	}
	return usual, nil
}

// partOf returns the part of a kind that another part names, or what is usual where it names none.
func (r relations) partOf(kind, usual string) string {
	if found := r.targetsOf(kind); len(found) > 0 {
		return found[0]
	}
	return usual
}

// skipsHidden reports whether something hidden is left out, and counts it.
func (p *parts) skipsHidden(what string) bool {
	if !p.limits.Hidden {
		p.leaveOut("hidden " + what)
	}
	return !p.limits.Hidden
}

// leaveOut counts something that is not read.
func (p *parts) leaveOut(what string) {
	if p.counts[what]++; p.counts[what] == 1 {
		p.left = append(p.left, what)
	}
}

// skipDamaged lets a document be read without a part that is damaged, which is counted; it returns what ends the
// reading.
func (p *parts) skipDamaged(part string, err error) error {
	if err == nil || fault.Is(err, fault.TooLarge) {
		return err
	}
	p.leaveOut(fmt.Sprintf("part %s, which is damaged (%v)", part, err))
	return nil
}

// hasPart reports whether a part is there, and counts one that is not.
func (p *parts) hasPart(part string) bool {
	if p.findFile(part) == nil {
		p.leaveOut("part " + part + ", which is not in the file")
		return false
	}
	return true
}

// maxLeft kinds of what is left out are named.
const maxLeft = 10

// describeMissing says what is left out, what is hidden first; empty: nothing is.
func (p *parts) describeMissing() string {
	var hidden, others []string
	for _, what := range p.left[:min(maxLeft, len(p.left))] {
		named := fmt.Sprintf("%s: %d", what, p.counts[what])
		if strings.HasPrefix(what, "hidden ") {
			hidden = append(hidden, named)
		} else {
			others = append(others, named)
		}
	}
	if len(p.left) == 0 {
		return ""
	}
	if len(hidden) > 0 {
		hidden[len(hidden)-1] += " (documents.hidden: include reads them)"
	}
	if more := len(p.left) - maxLeft; more > 0 {
		others = append(others, fmt.Sprintf("others: %d", more))
	}
	return "left out: " + strings.Join(append(hidden, others...), ", ")
}

// tooLong bounds the text of a document while it is written.
func (p *parts) tooLong(length int) error {
	if int64(length) > p.limits.Text {
		return p.limits.OverText(p.object)
	}
	return nil
}

// escapeHeadings keeps lines of a text from being read as headings.
func escapeHeadings(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line != "" && document.ReadsAsHeading(line) {
			lines[i] = document.Indent + line
		}
	}
	return strings.Join(lines, "\n")
}

// reportEmpty returns the error of a document without text, which says what is left out of it; main is its usual first
// part.
func (p *parts) reportEmpty(main string) error {
	if name, err := p.main("officeDocument", main); err != nil || p.findFile(name) == nil {
		return p.wrapFault(errors.Join(err, errors.New("it has no "+main)))
	}
	why := "it has no text"
	if missing := p.describeMissing(); missing != "" {
		why += "; " + missing
	}
	return fault.EmptyDocument.At("read", p.object).Because(why).Advise("write something into it, or take it away")
}
