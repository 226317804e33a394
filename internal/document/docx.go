package document

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
)

// entryBytes is what one entry of a zip takes in memory.
const entryBytes = 512

func parseDOCX(raw []byte, object string, limits Limits) (Doc, error) {
	bad := func(err error) error {
		if fault.As(err) != nil {
			return err
		}
		return fault.Unreadable.At("read", object).Because(err).Advise("the file is no readable .docx: save it anew")
	}
	if bytes.HasPrefix(raw, []byte{0xd0, 0xcf, 0x11, 0xe0}) { // a compound file: an encrypted .docx, or an old .doc
		return Doc{}, fault.Encrypted.At("read", object).
			Because("the document is protected by a password or of the old .doc type").
			Advise("save it as plain .docx")
	}
	if int64(bytes.Count(raw, []byte("PK\x01\x02")))*entryBytes > limits.Memory/2 {
		return Doc{}, over(object, "memory", limits.Memory, "its parts take more than half the bytes")
	}
	reader, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return Doc{}, bad(err)
	}
	parts := map[string]*zip.File{} // of several with one name, the last counts, and only that is unpacked
	for _, file := range reader.File {
		parts[file.Name] = file
	}
	doc := Doc{Meta: map[string]string{}}
	p := partReader{object: object, limits: limits, packed: int64(len(raw))}
	body := ""
	if file := parts["word/document.xml"]; file != nil {
		if body, err = p.text(file); err != nil {
			return Doc{}, bad(err)
		}
	}
	if file := parts["docProps/core.xml"]; file != nil {
		if doc.Title, err = p.title(file); err != nil {
			return Doc{}, bad(err)
		}
	}
	if body == "" {
		return Doc{}, bad(errors.New("it has no word/document.xml with text"))
	}
	doc.Text = strings.NewReader(body)
	return doc, nil
}

// partReader reads the XML parts of one .docx.
type partReader struct {
	object string
	limits Limits
	packed int64 // bytes of the whole file: no part has more
}

// tokens calls each with every token of a part and the depth of the elements around it; a start or an end is within
// its own element.
func (p partReader) tokens(file *zip.File, each func(token xml.Token, depth int) error) error {
	part, err := file.Open()
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	packed := min(int64(min(file.CompressedSize64, 1<<62)), p.packed)
	reader := io.Reader(&unpacked{
		reader: part, packed: func() int64 { return packed }, limits: p.limits, object: p.object,
	})
	reader = &bounded{reader, p.limits.Bytes, over(p.object, "bytes", p.limits.Bytes, "a part of it has more bytes")}
	reader = &runs{reader: reader, limits: p.limits, object: p.object}
	decoder := xml.NewDecoder(reader)
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

// text reads the runs of a WordprocessingML part; a paragraph ends with an empty line, a cell with a tab.
func (p partReader) text(file *zip.File) (string, error) {
	var out strings.Builder
	in := false
	err := p.tokens(file, func(token xml.Token, _ int) error {
		switch x := token.(type) {
		case xml.StartElement:
			switch x.Name.Local {
			case "t":
				in = true
			case "tab":
				out.WriteByte('\t')
			case "br":
				out.WriteByte('\n')
			}
		case xml.EndElement:
			switch x.Name.Local {
			case "t":
				in = false
			case "p":
				out.WriteString("\n\n")
			case "tc":
				out.WriteByte('\t')
			}
		case xml.CharData:
			if in {
				out.Write(x)
			}
		}
		if int64(out.Len()) > p.limits.Text {
			return p.limits.overText(p.object)
		}
		return nil
	})
	return strings.TrimSpace(manyBlank.ReplaceAllString(out.String(), "\n\n")), err
}

// title is that of the core properties.
func (p partReader) title(file *zip.File) (string, error) {
	title, in := "", false
	err := p.tokens(file, func(token xml.Token, depth int) error {
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
	return cutTitle(strings.TrimSpace(strings.ToValidUTF8(title, "")), p.limits.Title), err
}

// titleBytes is more than a title has before it is cut, white space around it included.
func titleBytes(limits Limits) int { return 64<<10 + 4*limits.Title }
