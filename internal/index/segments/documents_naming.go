package segments

import (
	"encoding/binary"
	"iter"

	"github.com/unweaver/unweaver/internal/core"
)

// DocumentsNaming gives the keys of the documents that count and that name one of some classes: in a chunk, or in their
// title.
func (t *Table) DocumentsNaming(classes map[core.ID]bool) iter.Seq[string] {
	titles := make(map[uint64]bool, len(classes))
	for id := range classes {
		titles[binary.BigEndian.Uint64(id[:8])] = true
	}
	return func(yield func(string) bool) {
		for number, file := range t.Splits {
			named := make([]bool, len(file.Documents))
			for id := range classes {
				at := file.ClassFrom(id)
				if at == len(file.ClassIDs) || file.ClassIDs[at] != id {
					continue
				}
				for _, chunk := range file.ChunksOf(at) {
					named[file.Chunks[chunk].Document] = true
				}
			}
			for row, found := range named {
				if !found {
					title := file.Titles[row]
					found = titles[title[0]] || titles[title[1]]
				}
				if found && t.documentCounts(number, row) && !yield(string(file.KeyBytes(row))) {
					return
				}
			}
		}
	}
}
