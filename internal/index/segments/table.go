package segments

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/stream/merge"
)

// Table says what counts in a generation, by id.
type Table struct {
	*Files
	listed core.Segments
}

// Class is the entry of a class: the digests that name its vector and its record, the former as far as a key has it.
type Class struct {
	Vector core.DigestPrefix
	Record core.Digest
}

// Chunk is the entry of a chunk: the digest of what is embedded of it, in so many windows.
type Chunk struct {
	Digest  core.Digest
	Windows int
}

// Place is where a row lies: in which of the manifest's splits or class runs, and where there.
type Place struct{ Segment, Row int }

// OpenTable copies and maps what it needs; the caller releases it. It looks up no word: generations of other languages,
// and those made by an older analyser, open as any.
func OpenTable(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, manifest *core.Manifest,
) (*Table, error) {
	if len(manifest.Segments.Splits) == 0 {
		return nil, fault.SegmentDamage.At("open generation", manifest.Generation).
			Because("its manifest names no split").
			Advise("publish another generation, or " + index.AdviseRebuild())
	}
	return openTable(ctx, cache, index, manifest.Segments)
}

func openTable(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, listed core.Segments,
) (*Table, error) {
	files, err := Open(ctx, cache, index, listed, "")
	if err != nil {
		return nil, err
	}
	return &Table{listed: listed, Files: files}, nil
}

// OpenClasses does what OpenTable does, for callers that need classes alone: no split is needed for them.
func OpenClasses(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, manifest *core.Manifest,
) (*Table, error) {
	side := core.Segments{Runs: manifest.Segments.Runs}
	side.Tombs = tombsOf(side, manifest.Segments.Tombs)
	return openTable(ctx, cache, index, side)
}

// OpenChunks does what OpenTable does, for callers that need documents and chunks alone.
func OpenChunks(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, manifest *core.Manifest,
) (*Table, error) {
	side := core.Segments{Splits: manifest.Segments.Splits}
	side.Tombs = tombsOf(side, manifest.Segments.Tombs)
	return openTable(ctx, cache, index, side)
}

// tombsOf returns those that are of the segments which are listed.
func tombsOf(listed core.Segments, tombs []core.Tomb) []core.Tomb {
	return slices.DeleteFunc(slices.Clone(tombs), func(one core.Tomb) bool { return !listsFile(listed, one.Of) })
}

// Release lets go of what is mapped. A nil table has nothing.
func (t *Table) Release() {
	if t != nil {
		t.Files.Release()
	}
}

// FindChunk finds a chunk that counts.
func (t *Table) FindChunk(id core.ID) (Chunk, bool) {
	if _, found := t.chunkRow(id); found != nil {
		return chunkOf(found), true
	}
	return Chunk{}, false
}

// FindExtraction returns where the extraction of a chunk lies that counts: the part of the extract segments, and the
// frame there.
func (t *Table) FindExtraction(id core.ID) (part, frame int, counts bool) {
	number, found := t.chunkRow(id)
	if found == nil {
		return 0, 0, false
	}
	return t.listed.Splits[number].Extract + int(found.Extract), int(found.ExtFrame), true
}

// chunkRow returns the row of a chunk that counts, and its split; nil: there is none.
func (t *Table) chunkRow(id core.ID) (number int, row *split.Chunk) {
	for i, file := range t.Splits {
		at := sort.Search(len(file.ByID), func(n int) bool {
			return bytes.Compare(file.Chunks[file.ByID[n]].ID[:], id[:]) >= 0
		})
		if at == len(file.ByID) {
			continue
		}
		if found := &file.Chunks[file.ByID[at]]; found.ID == id && t.documentCounts(i, int(found.Document)) {
			return i, found
		}
	}
	return 0, nil
}

func chunkOf(found *split.Chunk) Chunk { return Chunk{found.Digest, int(found.Windows)} }

// FindClass finds a class that counts.
func (t *Table) FindClass(id core.ID) (Class, bool) {
	place, ok := t.ClassRow(id)
	if !ok {
		return Class{}, false
	}
	return classOf(&t.Runs[place.Segment].Rows[place.Row]), true
}

func classOf(row *classrun.Row) Class { return Class{row.Vector, row.Record} }

// ClassRow returns where the row of a class lies that counts.
func (t *Table) ClassRow(id core.ID) (Place, bool) {
	for i := len(t.Runs) - 1; i >= 0; i-- { // the newest is asked first: what changed changes again
		rows := t.Runs[i].Rows
		at := sort.Search(len(rows), func(n int) bool { return bytes.Compare(rows[n].ID[:], id[:]) >= 0 })
		if at < len(rows) && rows[at].ID == id && t.classCounts(i, at) {
			return Place{i, at}, true
		}
	}
	return Place{}, false
}

// Mentions counts the chunks that mention a class, and how often they do.
func (t *Table) Mentions(id core.ID) (chunks, mentions int64) {
	for i, file := range t.Splits {
		class := file.ClassFrom(id)
		if class == len(file.ClassIDs) || file.ClassIDs[class] != id {
			continue
		}
		mentions += file.MentionsOf(class, func(chunk uint32) bool {
			counts := t.documentCounts(i, int(file.Chunks[chunk].Document))
			if counts {
				chunks++
			}
			return counts
		})
	}
	return chunks, mentions
}

// FindDocument returns where the document of a key lies that counts.
func (t *Table) FindDocument(key string) (Place, bool) {
	for i, file := range t.Splits {
		at := file.DocumentFrom(key)
		if at < len(file.Documents) && string(file.KeyBytes(at)) == key && t.documentCounts(i, at) {
			return Place{i, at}, true
		}
	}
	return Place{}, false
}

func (t *Table) documentCounts(number, row int) bool {
	dead := t.FindTomb(t.listed.Splits[number].SHA256)
	return dead == nil || !dead.IsDead(row)
}

func (t *Table) classCounts(number, row int) bool {
	dead := t.FindTomb(t.listed.Runs[number].SHA256)
	return dead == nil || !dead.IsDead(row)
}

// CountDocuments returns how many documents count.
func (t *Table) CountDocuments() (count int64) {
	for i, file := range t.Splits {
		count += int64(len(file.Documents))
		if dead := t.FindTomb(t.listed.Splits[i].SHA256); dead != nil {
			count -= int64(dead.CountDead())
		}
	}
	return count
}

// ClassesIn yields the classes that count whose raw ids lie in [from, to), where an empty to means the end, in
// the order of ids.
func (t *Table) ClassesIn(from, to string) iter.Seq2[core.ID, Class] {
	var first core.ID
	copy(first[:], from)
	return func(yield func(core.ID, Class) bool) {
		for class, err := range t.streamClasses(first, nil) {
			beyond := to != "" && bytes.Compare(class.ID[:], []byte(to)) >= 0
			if err != nil || beyond || !yield(class.ID, class.Class) { // tables in memory have no errors
				return
			}
		}
	}
}

// streamClasses yields the classes that count, from an id on, but for those that count in other generations by the very
// same row, in the order of ids.
func (t *Table) streamClasses(first core.ID, others []*Table) iter.Seq2[ClassLeft, error] {
	sources := make([]merge.Next[ClassLeft], len(t.Runs))
	for number, file := range t.Runs {
		shared := t.findSharing(t.listed.Runs[number].SHA256, others)
		row := sort.Search(len(file.Rows), func(i int) bool { return bytes.Compare(file.Rows[i].ID[:], first[:]) >= 0 })
		sources[number] = func() (ClassLeft, bool, error) {
			for ; row < len(file.Rows); row++ {
				if found := &file.Rows[row]; t.classCounts(number, row) && !shared.isCounted(row) {
					row++
					return ClassLeft{ID: found.ID, Class: classOf(found)}, true, nil
				}
			}
			return ClassLeft{}, false, nil
		}
	}
	return merge.MergeSorted(func(a, b ClassLeft) int { return bytes.Compare(a.ID[:], b.ID[:]) }, sources...)
}

// Placed is a chunk with its place in its document, in code points.
type Placed struct {
	ID         core.ID
	Start, End int
}

// ChunksOf gives the chunks of a document, in order; false where it does not count.
func (t *Table) ChunksOf(key string) (chunks []Placed, counts bool) {
	place, counts := t.FindDocument(key)
	if !counts {
		return nil, false
	}
	file := t.Splits[place.Segment]
	document := file.Documents[place.Row]
	for _, chunk := range file.Chunks[document.Chunks : document.Chunks+document.Count] {
		chunks = append(chunks, Placed{chunk.ID, int(chunk.Start), int(chunk.End)})
	}
	return chunks, true
}
