package segments

import (
	"iter"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/deletions"
)

// ClassLeft is a class of a generation.
type ClassLeft struct {
	ID core.ID
	Class
}

// ChunkLeft is a chunk of a generation.
type ChunkLeft struct {
	ID core.ID
	Chunk
}

// ClassesLeft yields the classes that count, but for those that count in another generation by the very same row: those
// alone matter when a generation is removed. Its cost is that of the segments that no other shares and of one bit for
// each row of the rest.
func (t *Table) ClassesLeft(others []*Table) iter.Seq[ClassLeft] {
	return func(yield func(ClassLeft) bool) {
		for number, file := range t.Runs {
			shared := t.findSharing(t.listed.Runs[number].SHA256, others)
			for row := range file.Rows {
				if !t.classCounts(number, row) || shared.isCounted(row) {
					continue
				}
				if !yield(ClassLeft{file.Rows[row].ID, classOf(&file.Rows[row])}) {
					return
				}
			}
		}
	}
}

// ChunksLeft does what ClassesLeft does, for chunks.
func (t *Table) ChunksLeft(others []*Table) iter.Seq[ChunkLeft] {
	return func(yield func(ChunkLeft) bool) {
		for number, file := range t.Splits {
			shared := t.findSharing(t.listed.Splits[number].SHA256, others)
			for row := range file.Chunks {
				found := &file.Chunks[row]
				if !t.documentCounts(number, int(found.Document)) || shared.isCounted(int(found.Document)) {
					continue
				}
				if !yield(ChunkLeft{found.ID, chunkOf(found)}) {
					return
				}
			}
		}
	}
}

// sharing are generations that list the same segment; nil stands for one in which no row of it is dead.
type sharing []*deletions.File

func (t *Table) findSharing(sha string, others []*Table) (out sharing) {
	for _, other := range others {
		if listsFile(other.listed, sha) {
			out = append(out, other.FindTomb(sha))
		}
	}
	return out
}

// isCounted reports whether a row counts in one of them.
func (s sharing) isCounted(row int) bool {
	for _, dead := range s {
		if dead == nil || !dead.IsDead(row) {
			return true
		}
	}
	return false
}

// listsFile reports whether a list has a split or class run of that content.
func listsFile(listed core.Segments, sha string) bool {
	return slices.ContainsFunc(listed.Splits, func(one core.Split) bool { return one.SHA256 == sha }) ||
		slices.ContainsFunc(listed.Runs, func(one core.Run) bool { return one.SHA256 == sha })
}
