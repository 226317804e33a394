// Package readers reads the file types of a corpus without rows: Parse picks the reader of a type. HTML, mail and
// notebooks of Jupyter are read here, PDF in package pdf, Word, slides, sheets and books of EPUB in package office.
package readers

import (
	"bytes"
	"io"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/office"
	"github.com/unweaver/unweaver/internal/document/pdf"
	"github.com/unweaver/unweaver/internal/fault"
)

// Parse reads one object of a type without rows. What is above the limits is fault.TooLarge, of the types that stream
// when the text is read.
func Parse(reader io.Reader, kind document.Kind, object string, limits document.Limits) (document.Doc, error) {
	limits = limits.WithDefaults()
	if kind == document.Text || kind == document.Markdown || kind == document.RST {
		return document.ParseText(reader, kind, object, limits)
	}
	raw, err := io.ReadAll(document.BoundReader(reader, limits.Bytes, limits.OverBytes(object)))
	if err != nil {
		return document.Doc{}, document.WrapUnreadable("read", object, err)
	}
	if len(raw) == 0 && kind != document.HTML && kind != document.EML { // those may say nothing
		return document.Doc{}, document.EmptyFile(object)
	}
	switch kind {
	case document.PDF:
		return parsePDF(raw, object, limits)
	case document.DOCX:
		return office.ParseDOCX(raw, object, limits)
	case document.PPTX:
		return office.ParsePPTX(raw, object, limits)
	case document.XLSX:
		return office.ParseXLSX(raw, object, limits)
	case document.EPUB:
		return office.ParseEPUB(raw, object, limits, Parse)
	case document.EML:
		return parseEML(raw, object, limits)
	}
	if kind == document.HTML {
		return readHTML(raw, object, limits)
	}
	text, guess, err := document.DecodeLabelled(raw, "", object)
	if err != nil {
		return document.Doc{}, err
	}
	read := document.ParseJSON
	if kind == document.Notebook {
		read = parseNotebook
	}
	doc, err := read(text, object, limits)
	return doc.NoteEncoding(guess), err
}

// readHTML decodes a page and reads it.
func readHTML(raw []byte, object string, limits document.Limits) (document.Doc, error) {
	text, guess, err := document.DecodeMarkup(raw, object)
	if err != nil {
		return document.Doc{}, err
	}
	doc, err := parseHTML(text, object, limits)
	return doc.NoteEncoding(guess), err
}

// parsePDF reads a PDF, or what is attached to it.
func parsePDF(raw []byte, object string, limits document.Limits) (document.Doc, error) {
	files := document.Attachments{Object: object, Limits: limits}
	doc, err := pdf.Read(raw, &files)
	if err == nil && limits.SkipsText() {
		return chooseDocument(&files)
	}
	return doc, err
}

// chooseDocument returns the list of what is attached, or the document of the attachment that is asked for.
func chooseDocument(a *document.Attachments) (document.Doc, error) {
	if a.Limits.List {
		return document.Doc{Text: strings.NewReader(""), Attached: a.Found}, nil
	}
	part := a.Limits.Part
	at := -1
	for i, one := range a.Found {
		if one.Name == part.Name && (part.Version.IsZero() || one.Version == part.Version) {
			at = i
		}
	}
	if at < 0 {
		return document.Doc{}, fault.DocumentChanged.At("read", a.Object).Because("the attachment was removed or replaced")
	}
	inner := a.Limits
	inner.List, inner.Part, inner.Attached = false, document.Attachment{}, false // that is named
	_, gz, _ := document.TypeOf(part.Name)
	plain, err := document.Gunzip(bytes.NewReader(a.Part), gz, a.Object, inner)
	if err != nil {
		return document.Doc{}, err
	}
	doc, err := Parse(plain, a.Found[at].Kind, a.Object, inner)
	doc.Attached = a.Found[at : at+1]
	return doc, err
}
