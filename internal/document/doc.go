package document

import (
	"io"

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

// EmptyFile returns the error of an object without a byte.
func EmptyFile(object string) error {
	return fault.Unreadable.At("read", object).Because("the file is empty").Advise("add content, or remove the file")
}

// NoteEncoding notes an encoding that was guessed in the metadata.
func (d Doc) NoteEncoding(guess string) Doc {
	if guess != "" {
		if d.Meta == nil {
			d.Meta = map[string]string{}
		}
		d.Meta["encoding"] = guess
	}
	return d
}

// ParseText reads a text, whose types stream.
func ParseText(reader io.Reader, kind Kind, object string, limits Limits) (Doc, error) {
	decoded, guess, err := decodeText(reader, object, false)
	if err != nil {
		return Doc{}, err
	}
	doc := Doc{Text: limits.ofText(decoded, object)}
	if kind == Markdown {
		doc.splitFront()
	}
	return doc.NoteEncoding(guess), nil
}
