package document

import (
	"bytes"
	"io"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
)

// Parse reads one object of a type without rows. What is above the limits is fault.TooLarge, of the types that stream
// when the text is read.
func Parse(reader io.Reader, kind Kind, object string, limits Limits) (Doc, error) {
	limits = limits.WithDefaults()
	if kind == Text || kind == Markdown || kind == RST {
		return parseText(reader, kind, object, limits)
	}
	raw, err := io.ReadAll(boundReader(reader, limits.Bytes, limits.overBytes(object)))
	if err != nil {
		return Doc{}, wrapUnreadable("read", object, err)
	}
	if len(raw) == 0 && kind != HTML && kind != EML { // those may say nothing
		return Doc{}, emptyFile(object)
	}
	switch kind {
	case PDF:
		return parsePDF(raw, object, limits)
	case DOCX:
		return parseDOCX(raw, object, limits, Parse)
	case PPTX:
		return parsePPTX(raw, object, limits)
	case XLSX:
		return parseXLSX(raw, object, limits)
	case EPUB:
		return parseEPUB(raw, object, limits, Parse)
	case EML:
		return parseEML(raw, object, limits)
	}
	if kind == HTML {
		return readHTML(raw, object, limits)
	}
	text, guess, err := decodeLabelled(raw, "", object)
	if err != nil {
		return Doc{}, err
	}
	read := parseJSON
	if kind == Notebook {
		read = parseNotebook
	}
	doc, err := read(text, object, limits)
	return doc.noteEncoding(guess), err
}

// readHTML decodes a page and reads it.
func readHTML(raw []byte, object string, limits Limits) (Doc, error) {
	text, guess, err := decodeMarkup(raw, object)
	if err != nil {
		return Doc{}, err
	}
	doc, err := parseHTML(text, object, limits)
	return doc.noteEncoding(guess), err
}

// parsePDF reads a PDF, or what is attached to it.
func parsePDF(raw []byte, object string, limits Limits) (Doc, error) {
	files := attached{object: object, limits: limits}
	doc, err := readPDF(raw, &files)
	if err == nil && limits.skipsText() {
		return chooseDocument(&files)
	}
	return doc, err
}

// chooseDocument returns the list of what is attached, or the document of the attachment that is asked for.
func chooseDocument(a *attached) (Doc, error) {
	if a.limits.List {
		return Doc{Text: strings.NewReader(""), Attached: a.found}, nil
	}
	part := a.limits.Part
	at := -1
	for i, one := range a.found {
		if one.Name == part.Name && (part.Version.IsZero() || one.Version == part.Version) {
			at = i
		}
	}
	if at < 0 {
		return Doc{}, fault.DocumentChanged.At("read", a.object).Because("the attachment was removed or replaced")
	}
	inner := a.limits
	inner.List, inner.Part, inner.Attached = false, Attachment{}, false // that is named
	_, gz, _ := TypeOf(part.Name)
	plain, err := Gunzip(bytes.NewReader(a.part), gz, a.object, inner)
	if err != nil {
		return Doc{}, err
	}
	doc, err := Parse(plain, a.found[at].Kind, a.object, inner)
	doc.Attached = a.found[at : at+1]
	return doc, err
}
