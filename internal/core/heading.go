package core

// Bounds of what is kept, and read, of one document and of one chunk.
const (
	MaxHeadings = 10_000 // of a document
	MaxEntities = 2_000  // of a chunk
)

// Heading is a heading of a document. Start and End are code points of its text; what the heading is of begins at End.
type Heading struct {
	Start, End int
	Level      int // 1 is the highest
	Text       string
}

// Sheet is the size of the pages from Page (counted from 1) to that of the next sheet, in points, as they are shown.
type Sheet struct{ Page, Width, Height int }

// Rect is a part of a page (counted from 1), in points from the upper left corner of what is shown of it.
type Rect struct{ Page, Left, Top, Right, Bottom int }
