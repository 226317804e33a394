package damaged_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// rowsWhole returns a file with a row of every kind.
func rowsWhole(t *testing.T) []byte {
	t.Helper()
	id, digest := core.ClassID("oslo"), core.Sum("oslo")
	moment := time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)
	spans := [][2]int{{3, 7}, {9, 12}}
	all := [][]byte{
		rows.Plan{Object: "a.txt", Kind: "text", Version: digest, Modified: moment, Record: []byte("record")}.Encode(),
		rows.Chunk{ID: id, Ordinal: 3, Start: 5, End: 70, Tokens: 20, Title: "Oslo"}.Encode(),
		rows.Extract{Key: digest, Rung: "strict", Entities: []rows.Entity{
			{Name: "Oslo", Description: "a city", Spans: spans}, {Name: "Fram"},
		}}.Encode(),
		rows.Mention{Chunk: id, Number: 4, Document: "a.txt", Surface: "Oslo", Description: "a city"}.Encode(),
		rows.Reduced{Name: "Oslo", Descriptions: []string{"a", "b"}, Members: digest}.Encode(),
		rows.Short{Text: "short", Keys: []core.Digest{digest, digest}}.Encode(),
		rows.Record{ID: id, Name: "Oslo", Text: "a city"}.Encode(),
		rows.Class{Record: []byte("record"), Vector: digest, Text: digest, Keys: []core.Digest{digest}}.Encode(),
		rows.Document{
			Object: "a.txt", Version: digest, Modified: moment, Meta: map[string]string{"kind": "city", "size": "large"},
			Chunks: []rows.Place{{ID: id, Start: 1, End: 4}}, Runes: 70, Stale: true, Found: digest,
		}.Encode(),
		rows.Document{
			Object: "a.pdf", Version: digest, Modified: moment, Runes: 70, Pages: []int{0, 40},
			Headings: []core.Heading{{Start: 1, End: 6, Level: 1, Text: "Oslo"}},
		}.Encode(),
		rows.SplitChunk{Document: "a.txt", Digest: digest, Windows: 2}.Encode(),
	}
	var file bytes.Buffer
	writer := rowfile.NewWriter(&file)
	for i, row := range all {
		writer.Append(fmt.Sprintf("key %d", i), row)
		if i%3 == 2 {
			writer.Cut()
		}
	}
	require.NoError(t, writer.Close())
	return file.Bytes()
}

// pieces are the texts of one document, as a segment holds them.
var pieces = []string{"the capital of ", "Norway is Ösló, ", strings.Repeat("and so on ", 9000), "end"}

func textWhole(t *testing.T) []byte {
	t.Helper()
	var file bytes.Buffer
	writer := rowfile.NewWriter(&file)
	at := 0
	for _, piece := range pieces {
		writer.Append("doc", textseg.EncodePiece(at, piece))
		at += len([]rune(piece))
	}
	writer.Append("other", textseg.EncodePiece(0, "another document"))
	require.NoError(t, writer.Close())
	return file.Bytes()
}

func stored(ctx context.Context, path string) (blob.Store, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	store := blobmemory.New()
	_, err = blob.Write(ctx, store, "segment", raw, blob.Cond{})
	return store, err
}

// readRows returns every row, by its key and in order.
func readRows(ctx context.Context, path string) (string, error) {
	store, err := stored(ctx, path)
	if err != nil {
		return "", err
	}
	reader, err := artifact.OpenRows(ctx, store, "segment")
	if err != nil {
		return "", err
	}
	said := ""
	for _, key := range []string{"key 0", "key 4", "key 9", ""} {
		found, err := reader.Get(ctx, key)
		if err != nil {
			return "", err
		}
		said += fmt.Sprintf("%q ", found)
	}
	for row, err := range reader.Scan(ctx, 0, -1) {
		if err != nil {
			return "", err
		}
		said += fmt.Sprintf("%q %q ", row.Key, row.Value)
	}
	return said, nil
}

func readText(ctx context.Context, path string) (string, error) {
	store, err := stored(ctx, path)
	if err != nil {
		return "", err
	}
	reader, err := textseg.Open(ctx, store, "segment")
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	for _, document := range []string{"doc", "other"} {
		piece, err := reader.Clone().Slice(ctx, document, 0, 3, 15)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&said, "%v ", piece)
		if _, err := said.ReadFrom(reader.Clone().Text(ctx, document, 0)); err != nil {
			return "", err
		}
	}
	return said.String(), nil
}
