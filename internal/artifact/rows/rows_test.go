package rows_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// kind is one kind of row with examples: the zero value and full ones.
type kind struct {
	examples []any
	encode   func(any) []byte
	decode   func([]byte) (any, error)
}

func of[T any](encode func(T) []byte, decode func([]byte) (T, error), examples ...T) kind {
	k := kind{encode: func(v any) []byte { return encode(v.(T)) },
		decode: func(b []byte) (any, error) { return decode(b) }}
	for _, example := range examples {
		k.examples = append(k.examples, example)
	}
	return k
}

var (
	digestA = core.Sum("a")
	digestB = core.Sum("b")
	one     = core.ChunkID("d", "one", 0)
	two     = core.ChunkID("d", "two", 0)
	noon    = time.Date(2026, 11, 20, 12, 0, 0, 123_000_000, time.UTC)
)

var kinds = map[string]kind{
	"plan": of(rows.Plan.Encode, rows.DecodePlan,
		rows.Plan{Modified: noon, Part: "plan.pdf"},
		rows.Plan{Object: "a/b.jsonl.gz", Kind: "jsonl", Gzip: true, Version: digestA, ETag: "e", Size: 1 << 40,
			Modified: noon, Line: 7, Record: []byte(`{"id":"7"}`), Problem: "store_denied"}),
	"document": of(rows.Document.Encode, rows.DecodeDocument,
		rows.Document{Modified: noon},
		rows.Document{Object: "a", Version: digestA, ETag: "e", Size: 5, Modified: noon, Title: "T", Kind: "text",
			Meta: map[string]string{"b": "2", "a": "1"}, Chunks: []rows.Place{{one, 0, 10, nil}, {two, 10, 20, nil}}, Runes: 20,
			Frame: 3},
		rows.Document{Modified: noon, Frame: 1, Problem: "encrypted_document"},
		rows.Document{Object: "a", Version: digestA, ETag: "e", Size: 5, Modified: noon, Title: "T", Kind: "text",
			Chunks: []rows.Place{{one, 0, 10, nil}}, Runes: 10, Problem: "empty_document", Stale: true, Found: digestB},
		rows.Document{Object: "a", Modified: noon,
			Headings: []core.Heading{{End: 4, Level: 1, Text: "One"}, {Start: 9, End: 13, Level: 2, Text: "Two"}}, Runes: 20},
		rows.Document{Object: "a", Modified: noon, Pages: []int{0, 7}, Runes: 20, Stale: true, Found: digestB},
		rows.Document{
			Object: "a", Modified: noon, Pages: []int{0, 7}, Runes: 20, Missing: "page 3 has no text",
			Sheets: []core.Sheet{{Page: 1, Width: 612, Height: 792}, {Page: 2, Width: 792, Height: 612}}, Chunks: []rows.Place{
				{one, 0, 10, []core.Rect{
					{Page: 1, Left: 72, Top: 80, Right: 540, Bottom: 120}, {Page: 2, Right: 9, Bottom: 9},
				}}, {two, 10, 20, nil},
			},
		}),
	"chunk": of(rows.Chunk.Encode, rows.DecodeChunk,
		rows.Chunk{}, rows.Chunk{Title: "a", Labels: "b,c"},
		rows.Chunk{ID: one, Ordinal: 1, Start: 2, End: 3, Tokens: 4, Frame: 5, Title: "é"}),
	"extract": of(rows.Extract.Encode, rows.DecodeExtract,
		rows.Extract{},
		rows.Extract{Key: digestA, Rung: "strict", Entities: []rows.Entity{
			{Name: "Bohr", Description: "A physicist.", Spans: [][2]int{{0, 4}, {10, 14}}}, {Name: "unlocated"},
		}},
		rows.Extract{Entities: []rows.Entity{{Name: "aspirin", Type: "Drug"}, {Name: "Basel"}}},
		rows.Extract{Fallback: "bad_model_output", Entities: []rows.Entity{{Name: "T 1234"}}}),
	"mention": of(rows.Mention.Encode, rows.DecodeMention,
		rows.Mention{},
		rows.Mention{Chunk: one, Number: 9, Document: "d", Ordinal: 3, Position: rows.TitlePosition, Surface: "Bohr",
			Description: "x", Fallback: true}, rows.Mention{Surface: "aspirin", Type: "Drug"}),
	"reduced": of(rows.Reduced.Encode, rows.DecodeReduced,
		rows.Reduced{},
		rows.Reduced{Name: "Bohr", Descriptions: []string{"a", "", "b"}, Members: digestA, Text: digestB, Mentions: 3,
			ChunkTotal: 2}, rows.Reduced{Name: "aspirin", Type: "Drug"}),
	"short": of(rows.Short.Encode, rows.DecodeShort,
		rows.Short{}, rows.Short{Text: "brief", Keys: []core.Digest{digestA, digestB}}),
	"record": of(rows.Record.Encode, rows.DecodeRecord, rows.Record{},
		rows.Record{ID: core.ClassID("bohr"), Name: "Bohr", Text: "Bohr: x"}, rows.Record{Name: "aspirin", Type: "Drug"}),
	"class": of(rows.Class.Encode, rows.DecodeClass,
		rows.Class{},
		rows.Class{Record: []byte("canonical"), Vector: digestA, Text: digestB, Keys: []core.Digest{digestA}, Mentions: 5,
			Chunks: 4}),
	"chunk of a split": of(rows.SplitChunk.Encode, rows.DecodeSplitChunk,
		rows.SplitChunk{},
		rows.SplitChunk{Document: "d", Digest: digestA, Ordinal: 1, Start: 2, End: 3, Tokens: 4, TextFrame: 6, ExtFrame: 8,
			Windows: 9}),
}

func each(t *testing.T, f func(*testing.T, kind, any, []byte)) {
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			for _, example := range k.examples {
				f(t, k, example, k.encode(example))
			}
		})
	}
}

func TestRowsComeBackAndEqualRowsAreEqualBytes(t *testing.T) {
	each(t, func(t *testing.T, k kind, example any, raw []byte) {
		got, err := k.decode(raw)
		assert.True(t, err == nil && reflect.DeepEqual(got, example), "got  %+v, %v\nwant %+v", got, err, example)
		for range 8 { // maps are written in a fixed order
			require.True(t, bytes.Equal(k.encode(example), raw), "other bytes")
		}
	})
}

// Promises: 13.
func TestAnotherVersionIsRefused(t *testing.T) {
	each(t, func(t *testing.T, k kind, _ any, raw []byte) {
		later := bytes.Clone(raw)
		later[0] = 9
		musttest.Refuse(k.decode(later))(t, fault.SegmentDamage, "version 9")
	})
}

// Promises: 13.
func TestARowThatIsCutOrTooLongIsAnError(t *testing.T) {
	each(t, func(t *testing.T, k kind, _ any, raw []byte) {
		for n := range raw {
			musttest.Code(t, musttest.Err(k.decode(raw[:n])), fault.SegmentDamage, "cut to %d of %d bytes", n, len(raw))
		}
		musttest.Refuse(k.decode(append(bytes.Clone(raw), 0)))(t, fault.SegmentDamage)
	})
}

// The bytes of segments that exist must stay readable: a change here needs a new version.
func TestTheBytesOfVersionOne(t *testing.T) {
	got := rows.Mention{Chunk: core.ID{1, 2}, Number: 3, Document: "d", Ordinal: 4, Position: -1, Surface: "S",
		Description: "D", Fallback: true}.Encode()
	want := append([]byte{1, 1, 2}, make([]byte, 14)...)
	want = append(want, 6, 1, 'd', 4, 1, 1, 'S', 1, 'D', 1)
	assert.True(t, bytes.Equal(got, want), "got %v, want %v", got, want)
	record := rows.Record{ID: core.ID{9}, Name: "N", Text: "T"}
	if got := record.Encode(); !bytes.Equal(got, append([]byte{1, 9}, append(make([]byte, 15), 1, 'N', 1, 'T')...)) {
		t.Errorf("the canonical bytes of a record are %v", got)
	}
}

func TestAStaleDocumentListsWhatWasFound(t *testing.T) {
	document := rows.Document{Object: "a", Version: digestA, Modified: noon, Chunks: []rows.Place{{one, 0, 10, nil}}}
	assert.Equal(t, digestA, document.ListedVersion(), "%+v", document)
	document.Stale, document.Found = true, digestB
	assert.True(t, document.ListedVersion() == digestB && document.Version == digestA, "%+v", document)
}

// Bytes of any origin are a row or an error; a count that the row cannot hold allocates nothing of its size.
func FuzzDecodeNeverPanics(f *testing.F) {
	for _, k := range kinds {
		for _, example := range k.examples {
			f.Add(k.encode(example))
		}
	}
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name, k := range kinds {
			value, err := k.decode(raw)
			if err != nil {
				continue
			}
			again, err := k.decode(k.encode(value))
			assert.True(t, err == nil && reflect.DeepEqual(again, value), "%s: %+v became %+v, %v", name, value, again, err)
		}
	})
}

func TestAPageHasTheSizeOfTheLastSheetBeforeIt(t *testing.T) {
	document := rows.Document{Sheets: []core.Sheet{{Page: 1, Width: 612, Height: 792}, {Page: 4, Width: 792, Height: 612}}}
	for page, want := range map[int]int{1: 612, 3: 612, 4: 792, 9: 792} {
		assert.Equal(t, want, document.SheetOf(page).Width, "page %d", page)
	}
}

func TestTheHeadingsAndPagesOfAPlace(t *testing.T) {
	document := rows.Document{
		Headings: []core.Heading{
			{Start: 10, End: 16, Level: 1, Text: "Part"}, {Start: 16, End: 24, Level: 2, Text: "Section"},
			{Start: 40, End: 48, Level: 3, Text: "Deep"}, {Start: 60, End: 66, Level: 2, Text: "Other"},
		},
		Pages: []int{0, 30, 30, 50},
	}
	for place, want := range map[int]string{
		0: "[]", 10: "[Part Section]", 16: "[Part Section]", 39: "[Part Section]", 40: "[Part Section Deep]",
		60: "[Part Other]", 99: "[Part Other]",
	} {
		assert.Equal(t, want, fmt.Sprint(document.HeadingAt(place)), "at %d", place)
	}
	for span, want := range map[[2]int][2]int{
		{0, 30}: {1, 1}, {0, 31}: {1, 3}, {29, 60}: {1, 4}, {50, 50}: {4, 4}, {99, 99}: {4, 4},
	} {
		first, last := document.PagesOf(span[0], span[1])
		assert.True(t, [2]int{first, last} == want, "%v: pages %d to %d, want %v", span, first, last, want)
	}
	first, last := (rows.Document{}).PagesOf(0, 9)
	assert.True(t, first == 0 && last == 0, "without pages: %d, %d", first, last)
}
