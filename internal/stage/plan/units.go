package plan

import "github.com/unweaver/unweaver/internal/document"

// A unit is about this much work: small enough to be repeated after a crash, large enough to be few. What counts is
// the text that is expected of its documents, as a unit's chunks become shards: one cut by the size of its files made
// shards of two hundred chunks of a corpus of PDF files.
const (
	unitText      = 16 << 20 // bytes, some 3,000 chunks
	unitDocuments = 5000

	// unitSource bounds what a unit reads, where the files hold little text: the time of a unit is that of its bytes. It
	// grows with the corpus, so that a large one has hundreds of units, and a small one enough for every worker.
	unitSource     = 16 << 20
	unitSourceMost = 512 << 20
	enoughUnits    = 512
)

// textShare is how much text, in bytes, a byte of a file of that type is expected to hold. PDF and JSON were measured
// (accident reports with photographs; records, written out with their keys), the others are what such files are made
// of. It decides sizes only, and where the generation before has the document, its own figure counts.
var textShare = map[document.Kind]float64{
	document.HTML: 0.4, document.PDF: 0.06, document.DOCX: 0.25, document.PPTX: 0.05, document.XLSX: 1.5,
	document.EPUB: 1, document.EML: 0.6, document.JSON: 1.8,
}

const gzipShare = 3 // bytes of text in a byte of it packed

// expectedText returns how much text a document is expected to have, in bytes.
func (doc planned) expectedText() int64 {
	size := doc.row.Size
	if doc.known && doc.old.Runes > 0 && doc.old.Size > 0 {
		return int64(float64(size) / float64(doc.old.Size) * float64(doc.old.Runes))
	}
	share, ok := textShare[document.Kind(doc.row.Kind)]
	if !ok || doc.row.Line > 0 {
		share = 1
	}
	if doc.row.Gzip && !doc.row.IsNested() {
		share *= gzipShare
	}
	return int64(share * float64(size))
}

// cutter cuts what is planned into units.
type cutter struct {
	source int64 // bytes that a unit may read
	unit   Unit
}

// newCutter makes one for a corpus of so many bytes, as it is listed.
func newCutter(listed int64) *cutter {
	return &cutter{source: min(max(unitSource, listed/enoughUnits), unitSourceMost)}
}

// isFull reports whether the next document belongs to another unit.
func (c *cutter) isFull() bool {
	return c.unit.Documents >= unitDocuments || c.unit.Text >= unitText || c.unit.Bytes >= c.source
}

// addDocument enters a document whose row is in the given frame.
func (c *cutter) addDocument(doc planned, frame int) {
	c.unit.To = frame + 1
	c.unit.Documents++
	c.unit.Bytes += doc.row.Size
	c.unit.Text += doc.expectedText()
}

// next begins a unit behind the one that it gives.
func (c *cutter) next() Unit {
	done := c.unit
	c.unit = Unit{From: done.To}
	return done
}
