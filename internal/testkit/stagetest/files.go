// Package stagetest writes the files that stages read, and holds models that say what a test sets, so that each stage
// is tested alone.
package stagetest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
)

// Document is a document that is cut already.
type Document struct {
	Key, Title string
	Chunks     []string
}

// Numbered makes n documents of one chunk each, the texts by a format with the number in it.
func Numbered(n int, format string) []Document {
	docs := make([]Document, n)
	for i := range docs {
		text := fmt.Sprintf(format, i)
		docs[i] = Document{Key: fmt.Sprintf("d%04d.txt", i), Title: fmt.Sprintf("Title %d", i), Chunks: []string{text}}
	}
	return docs
}

// Chunks writes what the chunk stage leaves of a unit: the chunks' rows and the text segment, which it gives.
func Chunks(t testing.TB, art artifact.Index, scratch string, unit int, docs ...Document) core.Segment {
	t.Helper()
	text, chunks := newRows(t), newRows(t)
	defer text.Discard()
	defer chunks.Discard()
	for _, doc := range docs {
		at := 0
		for ordinal, chunk := range doc.Chunks {
			frame := text.Append(doc.Key, textseg.EncodePiece(at, chunk))
			end := at + utf8.RuneCountInString(chunk)
			chunks.Append(doc.Key, rows.Chunk{
				ID: core.ChunkID(doc.Key, chunk, 0), Ordinal: ordinal, Start: at, End: end, Tokens: tokens.Count(chunk),
				Frame: frame, Title: doc.Title,
			}.Encode())
			at = end
		}
	}
	segment, _, err := text.StoreSegment(t.Context(), art, unit)
	Ok(t, err)
	Ok(t, chunks.StoreScratch(t.Context(), art.Store, join.ChunksKey(scratch, unit)))
	return segment
}

// Row is a row of any file.
type Row struct{ Key, Value string }

// Rows writes a scratch file.
func Rows(t testing.TB, art artifact.Index, key string, list ...Row) {
	t.Helper()
	out := newRows(t)
	defer out.Discard()
	for _, row := range list {
		out.Append(row.Key, []byte(row.Value))
	}
	Ok(t, out.StoreScratch(t.Context(), art.Store, key))
}

// Segment writes rows as a segment.
func Segment(t testing.TB, art artifact.Index, list ...Row) core.Segment {
	t.Helper()
	out := newRows(t)
	defer out.Discard()
	for _, row := range list {
		out.Append(row.Key, []byte(row.Value))
	}
	segment, _, err := out.StoreSegment(t.Context(), art, 0)
	Ok(t, err)
	return segment
}

// Stored returns where PutScratch stored the file of a unit of work that it was given key for, the newest of several;
// key where it did not.
func Stored(t testing.TB, store blob.Store, key string) string {
	t.Helper()
	stem := strings.TrimSuffix(key, path.Ext(key)) + "-"
	newest := blob.Info{Key: key}
	for info, err := range store.List(t.Context(), stem, "") {
		Ok(t, err)
		named := len(info.Key) == len(stem)+32+len(path.Ext(key))
		if named && !info.Modified.Before(newest.Modified) {
			newest = info
		}
	}
	return newest.Key
}

// Read returns the rows of a file, which may be one of a unit of work.
func Read(t testing.TB, art artifact.Index, key string) []Row {
	t.Helper()
	var out []Row
	for row, err := range artifact.ScanAll(t.Context(), art.Store, Stored(t, art.Store, key)) {
		Ok(t, err)
		out = append(out, Row{string(row.Key), string(row.Value)})
	}
	return out
}

func newRows(t testing.TB) *artifact.Rows {
	t.Helper()
	return Must(artifact.NewRows())
}

// Ok ends the test on an error.
func Ok(t testing.TB, err error) {
	t.Helper()
	require.NoError(t, err)
}

// Must returns the value of a call, and panics on its error.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Former is what a parent has: classes, and no chunks.
type Former map[core.ID]segments.Class

// FindClass implements the stages' tables.
func (f Former) FindClass(id core.ID) (segments.Class, bool) {
	found, ok := f[id]
	return found, ok
}

// FindChunk implements the stages' tables.
func (Former) FindChunk(core.ID) (segments.Chunk, bool) { return segments.Chunk{}, false }

// Shard writes what the chunk stage leaves of a unit, and an extract segment that follows its chunks.
func Shard(t testing.TB, art artifact.Index, scratch string, unit int, docs ...Document) join.Shard {
	t.Helper()
	var list []Row
	for _, doc := range docs {
		for _, chunk := range doc.Chunks {
			id := core.ChunkID(doc.Key, chunk, 0)
			list = append(list, Row{Key: string(id[:]), Value: string(rows.Extract{}.Encode())})
		}
	}
	text := Chunks(t, art, scratch, unit, docs...)
	return join.Shard{Unit: unit, Text: text, Extract: Segment(t, art, list...), To: len(list)}
}

// Vectors writes a vectors segment, in groups of 500 rows.
func Vectors(t testing.TB, art artifact.Index, list ...stage.VectorRow) core.Segment {
	t.Helper()
	file := Must(artifact.NewFile())
	defer file.Discard()
	writer := parquet.NewGenericWriter[stage.VectorRow](file, parquet.MaxRowsPerRowGroup(500))
	Must(writer.Write(list))
	Ok(t, writer.Close())
	segment, _, err := file.PutSegment(t.Context(), art)
	Ok(t, err)
	segment.Rows = int64(len(list))
	return segment
}

// holds reports whether one of some words stands in some bytes, in whatever case.
func holds(raw []byte, words []string) bool {
	raw = bytes.ToLower(raw)
	return slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(raw, []byte(strings.ToLower(word))) })
}

// Holding returns where one of some words is stored: objects of artifacts, rows of them, class records by their prefix.
func Holding(t testing.TB, store blob.Store, list records.Store, prefix string, words ...string) (where []string) {
	for info, err := range store.List(t.Context(), "", "") {
		Ok(t, err)
		raw, _, err := blob.Read(t.Context(), store, info.Key)
		if Ok(t, err); holds(raw, words) {
			where = append(where, info.Key)
		}
		for row, err := range artifact.ScanAll(t.Context(), store, info.Key) {
			if err != nil {
				break // no row file
			}
			if holds(append(append(bytes.Clone(row.Key), ' '), row.Value...), words) {
				where = append(where, info.Key+" (row)")
			}
		}
	}
	Ok(t, list.ScanRecords(t.Context(), prefix, func(keys []string) error {
		values, err := list.GetRecords(t.Context(), keys)
		for i, value := range values {
			if holds(value, words) {
				where = append(where, "record "+keys[i])
			}
		}
		return err
	}))
	return where
}

// FilesHolding returns the files below a folder in which one of some words stands.
func FilesHolding(t testing.TB, folder string, words ...string) (where []string) {
	Ok(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if holds(raw, words) {
			where = append(where, strings.TrimPrefix(path, folder))
		}
		return err
	}))
	return where
}
