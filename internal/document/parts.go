package document

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
)

// entryBytes is what one entry of a zip takes in memory.
const entryBytes = 512

// parts are those of a document that is a zip of XML. What all of them unpack to is bounded together.
type parts struct {
	object string
	kind   Kind
	limits Limits
	packed int64 // bytes of the whole file: no part has more
	files  map[string]*zip.File
	read   int64 // bytes that came out of all parts so far
}

func openParts(raw []byte, kind Kind, object string, limits Limits) (*parts, error) {
	p := &parts{object: object, kind: kind, limits: limits, packed: int64(len(raw)), files: map[string]*zip.File{}}
	if bytes.HasPrefix(raw, []byte{0xd0, 0xcf, 0x11, 0xe0}) { // a compound file: encrypted, or of the type before
		return nil, fault.Encrypted.At("read", object).
			Because("the document is protected by a password or of the type before ." + string(kind)).
			Advise("save it as plain ." + string(kind))
	}
	if int64(bytes.Count(raw, []byte("PK\x01\x02")))*entryBytes > limits.Memory/2 {
		return nil, over(object, "memory", limits.Memory, "its parts take more than half the bytes")
	}
	reader, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, p.bad(err)
	}
	for _, file := range reader.File { // of several with one name, the last counts, and only that is unpacked
		p.files[file.Name] = file
	}
	return p, nil
}

// bad names a document whose parts are not what they should be.
func (p *parts) bad(err error) error {
	if fault.As(err) != nil {
		return err
	}
	return fault.Unreadable.At("read", p.object).Because(err).
		Advise("the file is no readable ." + string(p.kind) + ": save it anew")
}

// open unpacks a part under the limits.
func (p *parts) open(file *zip.File) (io.ReadCloser, error) {
	part, err := file.Open()
	if err != nil {
		return nil, err
	}
	packed := min(int64(min(file.CompressedSize64, 1<<62)), p.packed)
	reader := io.Reader(&unpacked{
		reader: part, packed: func() int64 { return packed }, limits: p.limits, object: p.object,
	})
	reader = &bounded{reader, p.limits.Bytes, over(p.object, "bytes", p.limits.Bytes, "a part of it has more bytes")}
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
		return 0, over(a.parts.object, "bytes", a.parts.limits.Bytes, "its parts have more bytes together")
	}
	return n, err
}

// tokens calls each with every token of a part and the depth of the elements around it; a start or an end is within
// its own element. A part that is not there has none.
func (p *parts) tokens(name string, each func(token xml.Token, depth int) error) error {
	file := p.files[name]
	if file == nil {
		return nil
	}
	part, err := p.open(file)
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	decoder := xml.NewDecoder(&runs{reader: part, limits: p.limits, object: p.object})
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
				return over(p.object, "nesting", p.limits.Nesting, "its elements are nested more deeply")
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

// runs refuses XML that goes on for too long without a new tag: the decoder holds it until then.
type runs struct {
	reader io.Reader
	limits Limits
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
		return 0, over(r.object, "row", r.limits.Row, "more bytes stand between two of its tags")
	}
	return n, err
}

// attribute is that of an element by its local name, or nothing.
func attribute(element xml.StartElement, name string) string {
	for _, attr := range element.Attr {
		if attr.Name.Local == name {
			return attr.Value
		}
	}
	return ""
}

// title is that of the core properties.
func (p *parts) title() (string, error) {
	title, in := "", false
	err := p.tokens("docProps/core.xml", func(token xml.Token, depth int) error {
		switch x := token.(type) {
		case xml.StartElement:
			if depth == 2 && x.Name.Local == "title" {
				title, in = "", true
			}
		case xml.EndElement:
			in = in && depth != 2
		case xml.CharData:
			if in && depth == 2 && len(title) <= titleBytes(p.limits) {
				title += string(x[:min(len(x), titleBytes(p.limits))])
			}
		}
		return nil
	})
	return ownTitle(cutTitle(strings.TrimSpace(strings.ToValidUTF8(title, "")), p.limits.Title)), err
}

// titleBytes is more than a title has before it is cut, white space around it included.
func titleBytes(limits Limits) int { return 64<<10 + 4*limits.Title }

// maxRelations of a part are read.
const maxRelations = 50_000

// relation is a part that another one names.
type relation struct{ id, kind, target string }

// relations of a part, in order; targets are names of parts.
func (p *parts) relations(of string) ([]relation, error) {
	var out []relation
	name := path.Dir(of) + "/_rels/" + path.Base(of) + ".rels"
	err := p.tokens(name, func(token xml.Token, _ int) error {
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "Relationship" || attribute(start, "TargetMode") == "External" {
			return nil
		}
		target := attribute(start, "Target")
		if strings.HasPrefix(target, "/") {
			target = target[1:]
		} else {
			target = path.Join(path.Dir(of), target)
		}
		if out = append(out, relation{attribute(start, "Id"), path.Base(attribute(start, "Type")), target}); len(out) >
			maxRelations {
			return over(p.object, "memory", p.limits.Memory, "it names too many parts")
		}
		return nil
	})
	return out, err
}

// tooLong bounds the text of a document while it is written.
func (p *parts) tooLong(length int) error {
	if int64(length) > p.limits.Text {
		return p.limits.overText(p.object)
	}
	return nil
}

// unmarked keeps a paragraph that begins with a number sign from being read as a heading.
func unmarked(text string) string {
	if strings.HasPrefix(text, "#") {
		return `\` + text
	}
	return text
}

// tableRow is a row of a table as Markdown writes it; empty where its cells are.
func tableRow(cells []string) string {
	for len(cells) > 0 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	if len(cells) == 0 {
		return ""
	}
	return "| " + strings.Join(cells, " | ") + " |"
}
