package document

import (
	"io"
	"regexp"

	"github.com/unweaver/unweaver/internal/fault"
)

// Doc is a parsed document. Text streams; nothing may be read from it after its source is closed.
type Doc struct {
	Title string // empty: taken from the text by TitleOf
	Meta  map[string]string
	Text  io.Reader

	Missing string // a sentence about parts of the document that could not be read; empty: there are none
	Places  Places // where lines of the text stand on pages; empty: it is not known

	Scans    []int     // Reading.Scans: pages to transcribe, from 1; Missing does not name them
	Pictures []Picture // Reading.Pictures

	// Blank are fields of front matter, or of a JSON object, without one value that can be used; AnyField where front
	// matter cannot be read.
	Blank []string

	Attached []Attachment // Reading.List: what is attached and can be read; Reading.Part: that one
}

// JoinMissing returns two sentences about parts that could not be read as one; either may be empty.
func JoinMissing(one, other string) string {
	if one != "" && other != "" {
		one += "; "
	}
	return one + other
}

// Parse reads one object of a type without rows. What is above the limits is fault.TooLarge, of the types that stream
// when the text is read.
func Parse(reader io.Reader, kind Kind, object string, limits Limits) (Doc, error) {
	limits = limits.WithDefaults()
	if kind == Text || kind == Markdown || kind == RST {
		decoded, guess, err := decodeText(reader, object)
		if err != nil {
			return Doc{}, err
		}
		doc := Doc{Text: limits.ofText(decoded, object)}
		if kind == Markdown {
			doc.splitFront()
		}
		return doc.noteEncoding(guess), nil
	}
	raw, err := io.ReadAll(&bounded{reader, limits.Bytes, limits.overBytes(object)})
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
		return parseDOCX(raw, object, limits)
	case PPTX:
		return parsePPTX(raw, object, limits)
	case XLSX:
		return parseXLSX(raw, object, limits)
	case EPUB:
		return parseEPUB(raw, object, limits)
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

func emptyFile(object string) error {
	return fault.Unreadable.At("read", object).Because("the file is empty").Advise("add content, or remove the file")
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

// noteEncoding notes an encoding that was guessed in the metadata.
func (d Doc) noteEncoding(guess string) Doc {
	if guess != "" {
		if d.Meta == nil {
			d.Meta = map[string]string{}
		}
		d.Meta["encoding"] = guess
	}
	return d
}

// manyBlank are empty lines of which one is enough.
var manyBlank = regexp.MustCompile(`\n[ \t]*\n(?:[ \t]*\n)+`)
