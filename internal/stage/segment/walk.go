package segment

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/ledger/embed"
)

// splitWalk reads documents of a split of an earlier generation.
type splitWalk struct {
	index     artifact.Index
	sha       string
	file      *split.File
	rows      []core.Segment // documents, by part
	texts     []core.Segment
	reader    *textseg.Reader // of the part that was read last
	readerFor uint32
}

func openSplit(index artifact.Index, listed core.Segments, number int, file *split.File) (*splitWalk, error) {
	one := listed.Splits[number]
	w := &splitWalk{index: index, sha: one.SHA256, file: file}
	var err error
	if w.rows, err = segments.SelectParts(listed.Documents, "documents", one.Text, one.Texts); err != nil {
		return nil, err
	}
	w.texts, err = segments.SelectParts(listed.Text, "texts", one.Text, one.Texts)
	return w, err
}

func (w *splitWalk) toFault(why string) error {
	return fault.SegmentDamage.At("read split", w.index.SegmentKey(w.sha)).Because(why).Advise(w.index.AdviseRebuild())
}

// standing is a document of such a split.
type standing struct {
	rows.Document
	key    string
	row    int // in the split
	chunks []split.Chunk
}

// streamDocuments reads those of some keys, which increase; the split has them all.
func (w *splitWalk) streamDocuments(ctx context.Context, keys []string) iter.Seq2[standing, error] {
	return func(yield func(standing, error) bool) {
		for part, segment := range w.rows {
			if len(keys) == 0 {
				return
			}
			of := w.ofPart(part, keys)
			keys = keys[len(of):]
			if len(of) == 0 {
				continue
			}
			key := w.index.SegmentKey(segment.SHA256)
			for row, err := range artifact.RowsUnder(ctx, w.index.Store, key, segment.Bytes, slices.Values(of)) {
				var found standing
				if err == nil {
					found, err = w.decodeStanding(row)
				}
				if !yield(found, err) || err != nil {
					return
				}
			}
		}
	}
}

// ofPart gives those of keys that lie in a part: documents of parts follow each other in the order of keys.
func (w *splitWalk) ofPart(part int, keys []string) []string {
	end := sort.Search(len(keys), func(i int) bool {
		row := w.file.DocumentFrom(keys[i])
		return row == len(w.file.Documents) || int(w.file.Documents[row].Part) > part
	})
	return keys[:end]
}

// decodeStanding decodes the row of a document, and finds its chunks in the split.
func (w *splitWalk) decodeStanding(row artifact.Row) (standing, error) {
	found := standing{key: string(row.Key), row: w.file.DocumentFrom(string(row.Key))}
	var err error
	if found.Document, err = rows.DecodeDocument(row.Value); err != nil {
		return found, err
	}
	if found.row == len(w.file.Documents) || string(w.file.KeyBytes(found.row)) != found.key {
		return found, w.toFault("it does not have document " + fault.QuoteName(found.key))
	}
	known := w.file.Documents[found.row]
	if len(found.Chunks) != int(known.Count) {
		return found, w.toFault(fmt.Sprintf("it has %d chunks of document %s, its row %d", known.Count,
			fault.QuoteName(found.key), len(found.Chunks)))
	}
	found.chunks = w.file.Chunks[known.Chunks : known.Chunks+known.Count]
	return found, nil
}

// readPassage returns the text of a chunk.
func (w *splitWalk) readPassage(ctx context.Context, document standing, chunk split.Chunk) (string, error) {
	reader, err := w.openText(ctx, chunk.Text)
	if err != nil {
		return "", err
	}
	return reader.Slice(ctx, document.key, int(chunk.TextFrame), int(chunk.Start), int(chunk.End))
}

// openText opens the texts of a part.
func (w *splitWalk) openText(ctx context.Context, part uint32) (*textseg.Reader, error) {
	if w.reader != nil && w.readerFor == part {
		return w.reader, nil
	}
	if int(part) >= len(w.texts) {
		return nil, w.toFault(fmt.Sprintf("it names part %d of %d of its texts", part, len(w.texts)))
	}
	segment := w.texts[part]
	reader, err := textseg.OpenOf(ctx, w.index.Store, w.index.SegmentKey(segment.SHA256), segment.Bytes)
	if err != nil {
		return nil, err
	}
	w.reader, w.readerFor = reader, part
	return reader, nil
}

// passageText returns the text whose terms are searched.
func passageText(spec core.Spec, title, passage string) string {
	if spec.Parity {
		title = ""
	}
	return embed.ChunkText(title, passage)
}
