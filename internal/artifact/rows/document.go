package rows

import (
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/core"
)

// Place is a chunk's place in its document, in code points.
type Place struct {
	ID         core.ID
	Start, End int
	Rects      []core.Rect // the parts of pages on which it stands; none: they are not known
}

// Document is a row of the documents segment, keyed by document key.
//
// A stale document serves what an earlier generation had of it, because what the corpus has now cannot be used: Problem
// says why, Found, ETag and Size are of what was found, everything else is of what is served.
type Document struct {
	Object   string
	Version  core.Digest
	ETag     string
	Size     int64
	Modified time.Time
	Title    string
	Kind     string
	Meta     map[string]string
	Chunks   []Place
	Headings []core.Heading // in the order of the text
	Pages    []int          // where each page begins, the first at 0; none: the document has no pages
	Sheets   []core.Sheet   // sizes of pages, where the chunks have rectangles
	Missing  string         // a sentence about pages that could not be read; empty: there are none
	Runes    int
	Frame    int    // of its first piece in the text segment of the same part
	Problem  string // a code, where the document could not be used
	Stale    bool
	Found    core.Digest // of a stale document: version of what could not be used; zero where it could not be read

	Transcribed   []core.Digest // ledger keys of pages that a model was asked to transcribe
	Parsed        core.Digest   // ledger key of what a server made of it; zero: none did
	Untranscribed int           // 1: a model, or parser, gave nothing of it or of some pages; 2: the next run asks again
}

// ListedVersion returns the version of what the corpus had under the document's key; zero where that could not be read.
func (x Document) ListedVersion() core.Digest {
	if x.Stale {
		return x.Found
	}
	return x.Version
}

// RefusedTags ends the ETag of a document whose object has tags that the store refuses.
const RefusedTags = "\nno tags"

// LacksTags reports whether the document is without tags because the store refused them.
func (x Document) LacksTags() bool { return strings.HasSuffix(x.ETag, RefusedTags) }

// ListedMark returns what Plan.Mark was of what was found.
func (x Document) ListedMark() string { return strings.TrimSuffix(x.ETag, RefusedTags) }

// Encode gives the row's bytes.
func (x Document) Encode() []byte {
	enc := startRow()
	if putBool(&enc, x.Stale); x.Stale {
		putDigest(&enc, x.Found)
	}
	enc.S(x.Object)
	putDigest(&enc, x.Version)
	enc.S(x.ETag)
	enc.I(x.Size)
	enc.I(x.Modified.UnixMilli())
	enc.S(x.Title)
	enc.S(x.Kind)
	putMeta(&enc, x.Meta)
	enc.U(uint64(x.Runes))
	enc.U(uint64(x.Frame))
	enc.S(x.Problem)
	enc.U(uint64(len(x.Chunks)))
	for _, c := range x.Chunks {
		putID(&enc, c.ID)
		enc.U(uint64(c.Start))
		enc.U(uint64(c.End))
	}
	putOutline(&enc, x.Headings, x.Pages)
	enc.S(x.Missing)
	putRects(&enc, x.Sheets, x.Chunks)
	if len(x.Transcribed) == 0 && x.Parsed.IsZero() && x.Untranscribed == 0 {
		return enc.B
	}
	enc.U(uint64(x.Untranscribed))
	putDigest(&enc, x.Parsed)
	for _, key := range x.Transcribed { // to the end of the row
		putDigest(&enc, key)
	}
	return enc.B
}

// DecodeDocument reads one.
func DecodeDocument(b []byte) (Document, error) {
	dec := rowfile.Dec{B: b}
	if err := readVersion(&dec, "document"); err != nil {
		return Document{}, err
	}
	stale := dec.U() == 1
	var found core.Digest
	if stale {
		found = readDigest(&dec)
	}
	document := Document{
		Stale:    stale,
		Found:    found,
		Object:   dec.S(),
		Version:  readDigest(&dec),
		ETag:     dec.S(),
		Size:     dec.I(),
		Modified: time.UnixMilli(dec.I()).UTC(),
		Title:    dec.S(),
		Kind:     dec.S(),
		Meta:     readMeta(&dec),
		Runes:    int(dec.U()),
		Frame:    int(dec.U()),
		Problem:  dec.S(),
	}
	document.Chunks = readList(&dec, func() Place {
		return Place{ID: readID(&dec), Start: int(dec.U()), End: int(dec.U())}
	})
	document.Headings, document.Pages = readOutline(&dec)
	document.Missing = dec.S()
	document.Sheets = readRects(&dec, document.Chunks)
	if len(dec.B) > 0 {
		document.Untranscribed, document.Parsed = int(dec.U()), readDigest(&dec)
	}
	for len(dec.B) > 0 {
		document.Transcribed = append(document.Transcribed, readDigest(&dec))
	}
	return document, dec.End()
}
