package segments

import (
	"iter"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/deletions"
)

// ClassLeft is a class of a generation, and the number of its row among those of all class runs.
type ClassLeft struct {
	Place int
	ID    core.ID
	Class
}

// ChunkLeft is a chunk of a generation, and the number of its row among those of all splits.
type ChunkLeft struct {
	Place int
	ID    core.ID
	Chunk
}

// ClassesLeft yields the classes that count whose rows have at least a number, but for those that count in
// another generation by the very same row: those alone matter when a generation is removed. Its cost is that
// of the segments that no other shares and of one bit for each row of the rest.
func (t *Table) ClassesLeft(place int, others []*Table) iter.Seq[ClassLeft] {
	return func(yield func(ClassLeft) bool) {
		base := 0
		for number, file := range t.Runs {
			shared := t.findSharing(t.listed.Runs[number].SHA256, others)
			for row := max(0, place-base); row < len(file.Rows); row++ {
				if !t.classCounts(number, row) || shared.isCounted(row) {
					continue
				}
				if !yield(ClassLeft{base + row, file.Rows[row].ID, classOf(&file.Rows[row])}) {
					return
				}
			}
			base += len(file.Rows)
		}
	}
}

// ChunksLeft does what ClassesLeft does, for chunks.
func (t *Table) ChunksLeft(place int, others []*Table) iter.Seq[ChunkLeft] {
	return func(yield func(ChunkLeft) bool) {
		base := 0
		for number, file := range t.Splits {
			shared := t.findSharing(t.listed.Splits[number].SHA256, others)
			for row := max(0, place-base); row < len(file.Chunks); row++ {
				found := &file.Chunks[row]
				if !t.documentCounts(number, int(found.Document)) || shared.isCounted(int(found.Document)) {
					continue
				}
				if !yield(ChunkLeft{base + row, found.ID, chunkOf(found)}) {
					return
				}
			}
			base += len(file.Chunks)
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

// listsFile reports whether a split or a class run is listed.
func listsFile(listed core.Segments, sha string) bool {
	return slices.ContainsFunc(listed.Splits, func(one core.Split) bool { return one.SHA256 == sha }) ||
		slices.ContainsFunc(listed.Runs, func(one core.Run) bool { return one.SHA256 == sha })
}
