package vector

import (
	"strconv"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// mostDimensions is more than any embedder has.
const mostDimensions = 1 << 16

// Of says what the vectors of a file are.
type Of struct {
	Embedder  string // its fingerprint; empty, where a file is opened: any, for who compares no vector
	Dimension int    // of each vector; where a file is opened it counts only with an embedder
}

// Read returns what the vectors of a mapped file are, and whether it says so. A file of other vectors than asked for is
// fault.FormatUnknown.
func Read(file *mapped.File, path string, asked Of) (of Of, ok bool, err error) {
	dimension, unread := strconv.Atoi(file.Meta("dimension"))
	of = Of{file.Meta("embedder"), dimension}
	if unread != nil || of.FindMistake() != "" {
		return of, false, nil
	}
	if asked.Embedder != "" && of != asked {
		err = fault.FormatUnknown.At("open segment", path).
			Because("its vectors are of embedder " + of.Embedder + ", dimension " + strconv.Itoa(of.Dimension) +
				", asked for are those of " + asked.Embedder + ", dimension " + strconv.Itoa(asked.Dimension)).
			Advise("build the index again with: unweaver index")
	}
	return of, true, err
}

// Meta returns what a mapped file says of its vectors.
func (of Of) Meta() map[string]string {
	return map[string]string{"embedder": of.Embedder, "dimension": strconv.Itoa(of.Dimension)}
}

// FindMistake says what no vectors are of, if anything.
func (of Of) FindMistake() string {
	switch {
	case of.Embedder == "":
		return "its vectors are of no embedder"
	case of.Dimension < 1 || of.Dimension > mostDimensions:
		return "its vectors are of dimension " + strconv.Itoa(of.Dimension)
	}
	return ""
}
