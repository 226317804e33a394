package core

// Heading is a heading of a document. Start and End are code points of its text; what the heading is of begins at End.
type Heading struct {
	Start, End int
	Level      int // 1 is the highest
	Text       string
}
