package document

import "time"

// Limits bound what one document may cost, whatever it says of itself. They are the worker's (configuration,
// limits.document), never a caller's. What is above them is an error with a code of its own, but for titles, which are
// cut.
type Limits struct {
	Bytes   int64         // of an object that must be read whole, and of each part of it, unpacked
	Ratio   int64         // unpacked bytes to packed ones, once more than a mebibyte came out
	Text    int64         // bytes of text that come out of one document
	Title   int           // runes of a title
	Row     int64         // bytes of one row of a .jsonl or .csv
	Spans   int           // cells that the tables of a document span
	Nesting int           // depth of elements, values, or objects in one another
	Pages   int           // of a PDF
	Time    time.Duration // of parsing one document, on the clock and of the processor
	Memory  int64         // bytes that parsing one document may take
}

// DefaultLimits are what is used where nothing is configured.
func DefaultLimits() Limits {
	return Limits{
		Bytes: 256 << 20, Ratio: 200, Text: 256 << 20, Title: 1000, Row: 16 << 20, Spans: 1_000_000,
		Nesting: 1000, Pages: 20_000, Time: time.Minute, Memory: 1 << 30,
	}
}
