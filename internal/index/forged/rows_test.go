package forged_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/memory"
	"github.com/unweaver/unweaver/internal/testkit/mappedtest"
)

// rowsWhole is a file with a row of every kind.
func rowsWhole(t testing.TB) []byte {
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
		rows.Reduced{Name: "Oslo", Descriptions: []string{"a", "b"}, Members: digest, Chunks: []core.ID{id, id}}.Encode(),
		rows.Short{Text: "short", Keys: []core.Digest{digest, digest}}.Encode(),
		rows.Record{ID: id, Name: "Oslo", Text: "a city"}.Encode(),
		rows.Record{ID: id, Name: "Oslo", Text: "a city", Listed: &rows.Membership{
			Members: digest, ChunkTotal: 2, Chunks: []core.ID{id},
		}}.Encode(),
		rows.Class{Record: []byte("record"), Vector: digest, Text: digest, Keys: []core.Digest{digest}}.Encode(),
		rows.Document{
			Object: "a.txt", Version: digest, Modified: moment, Meta: map[string]string{"kind": "city", "size": "large"},
			Chunks: []rows.Place{{ID: id, Start: 1, End: 4}}, Runes: 70, Stale: true, Found: digest,
		}.Encode(),
		rows.Document{
			Object: "a.pdf", Version: digest, Modified: moment, Runes: 70, Pages: []int{0, 40},
			Headings: []core.Heading{{Start: 1, End: 6, Level: 1, Text: "Oslo"}},
		}.Encode(),
		rows.LiveChunk{Document: "a.txt", Digest: digest, Number: 3, Windows: 2}.Encode(),
	}
	var file bytes.Buffer
	writer := rowfile.NewWriter(&file)
	for i, row := range all {
		writer.Append(fmt.Sprintf("key %d", i), row)
		if i%3 == 2 {
			writer.Cut()
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// pieces are the texts of one document, as a segment holds them.
var pieces = []string{"the capital of ", "Norway is Ösló, ", strings.Repeat("and so on ", 9000), "end"}

func textWhole(t testing.TB) []byte {
	t.Helper()
	var file bytes.Buffer
	writer := rowfile.NewWriter(&file)
	at := 0
	for _, piece := range pieces {
		writer.Append("doc", textseg.Piece(at, piece))
		at += len([]rune(piece))
	}
	writer.Append("other", textseg.Piece(0, "another document"))
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// forgeRows changes rows in their frames, or what the footer says of frames, and makes the checksums right again.
func forgeRows(whole []byte, random *rand.Rand) []byte {
	footer, err := rowfile.ReadFooter(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		panic(err) // the file is whole
	}
	out := bytes.Clone(whole[:8])
	victim, wholeRows := random.IntN(len(footer.Frames)+1), random.IntN(2) == 0
	var frames []rowfile.Frame
	total := int64(0)
	for i, frame := range footer.Frames {
		raw, err := frame.Unpack(nil, whole[frame.Offset:frame.Offset+int64(frame.Size)])
		if err != nil {
			panic(err)
		}
		raw = bytes.Clone(raw)
		if i == victim {
			if raw = mappedtest.Change(raw, random); wholeRows {
				raw = changeValue(raw, random)
			}
		}
		packed := rowfile.Compress(nil, raw)
		frame.Offset, frame.Size, frame.Raw = int64(len(out)), len(packed), len(raw)
		frame.CRC = crc32.Checksum(packed, crc32.MakeTable(crc32.Castagnoli))
		out, frames, total = append(out, packed...), append(frames, frame), total+frame.Rows
	}
	var enc rowfile.Enc
	enc.U(uint64(len(frames)))
	for _, frame := range frames {
		numbers := []uint64{
			uint64(frame.Offset), uint64(frame.Size), uint64(frame.Raw), uint64(frame.Rows), uint64(frame.CRC),
		}
		if victim == len(footer.Frames) && random.IntN(2) == 0 {
			tempting := []uint64{0, 1, math.MaxInt32, math.MaxInt64, math.MaxUint64, uint64(random.IntN(2 * len(whole)))}
			numbers[random.IntN(len(numbers))] = tempting[random.IntN(len(tempting))]
		}
		for _, number := range numbers {
			enc.U(number)
		}
		enc.S(frame.First)
	}
	if victim == len(footer.Frames) && random.IntN(4) == 0 {
		enc.B = mappedtest.Change(enc.B, random)
	}
	foot := rowfile.Compress(nil, enc.B)
	at := len(out)
	out = append(out, foot...)
	out = binary.LittleEndian.AppendUint64(out, uint64(at))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(foot)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(foot, crc32.MakeTable(crc32.Castagnoli)))
	out = binary.LittleEndian.AppendUint64(out, uint64(total))
	return append(out, "UWROWEND"...)
}

// changeValue changes one value of a frame and frames it again, so that the rows can be split.
func changeValue(raw []byte, random *rand.Rand) []byte {
	var out rowfile.Enc
	for rest := raw; ; {
		key, value, next, ok := rowfile.NextRow(rest)
		if !ok {
			break
		}
		rest = next
		if value = bytes.Clone(value); random.IntN(2) == 0 {
			value = mappedtest.Change(value, random)
		}
		out.S(string(key))
		out.S(string(value))
	}
	return out.B
}

func stored(ctx context.Context, path string) (blob.Store, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	store := memory.New()
	_, err = blob.Write(ctx, store, "segment", raw, blob.Cond{})
	return store, err
}

// readRows decodes every row as every kind. What fails as a row is damage; what is decoded is encoded again.
func readRows(ctx context.Context, path string) error {
	store, err := stored(ctx, path)
	if err != nil {
		return err
	}
	reader, err := artifact.OpenRows(ctx, store, "segment")
	if err != nil {
		return err
	}
	for _, key := range []string{"key 0", "key 4", "key 9", ""} {
		if _, err := reader.Get(ctx, key); err != nil {
			return err
		}
	}
	for row, err := range reader.Scan(ctx, 0, -1) {
		if err != nil {
			return err
		}
		for _, err := range decoded(row.Value) {
			if err != nil && !fault.Is(err, fault.SegmentDamage) {
				return err
			}
		}
	}
	return nil
}

func decoded(value []byte) []error {
	_, plan := rows.DecodePlan(value)
	_, chunk := rows.DecodeChunk(value)
	_, extract := rows.DecodeExtract(value)
	_, mention := rows.DecodeMention(value)
	_, reduced := rows.DecodeReduced(value)
	_, short := rows.DecodeShort(value)
	_, record := rows.DecodeRecord(value)
	_, class := rows.DecodeClass(value)
	_, document := rows.DecodeDocument(value)
	_, liveChunk := rows.DecodeLiveChunk(value)
	return []error{plan, chunk, extract, mention, reduced, short, record, class, document, liveChunk}
}

func readText(ctx context.Context, path string) error {
	store, err := stored(ctx, path)
	if err != nil {
		return err
	}
	reader, err := textseg.Open(ctx, store, "segment")
	if err != nil {
		return err
	}
	for _, document := range []string{"doc", "other"} {
		for _, piece := range [][2]int{{0, -1}, {3, 20}, {20, 90_000}, {30, 25}, {-4, 9}, {7, math.MaxInt}} {
			for _, frame := range []int{0, 1, 7} {
				if _, err := reader.Clone().Slice(ctx, document, frame, piece[0], piece[1]); err != nil &&
					!fault.Is(err, fault.SegmentDamage) {
					return err
				}
			}
		}
		if _, err := new(bytes.Buffer).ReadFrom(reader.Clone().Text(ctx, document, 0)); err != nil {
			return err
		}
	}
	return nil
}
