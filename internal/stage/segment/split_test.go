package segment_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/text"
)

// local copies a segment into a file.
func local(t *testing.T, stores retrievetest.Stores, built retrievetest.Built, made core.Segment) string {
	raw, _ := musttest.Get2(blob.Read(t.Context(), stores.Blobs, built.Index.SegmentKey(made.SHA256)))(t)
	path := filepath.Join(t.TempDir(), "segment")
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	return path
}

// splitIn returns what the split of the sample is made from; its shard is all of it.
func splitIn(built retrievetest.Built) segment.SplitIn {
	segments := built.Manifest.Segments
	return segment.SplitIn{
		Artifacts: built.Index, Spec: core.Spec{Retrieval: core.Retrieval{Language: "en"}},
		Units: []segment.SplitUnit{{
			Documents: segments.Documents[0], Text: segments.Text[0],
			Shards: []segment.SplitShard{{
				Chunks:   built.Index.SegmentKey(segments.Chunks[0].SHA256),
				Mentions: built.Index.SegmentKey(segments.Mentions[0].SHA256),
			}},
		}},
		OnProgress: func(int64) {},
	}
}

// opened opens the split and the class run of a generation.
func opened(t *testing.T, stores retrievetest.Stores, built retrievetest.Built) (*split.File, *classrun.File) {
	one, run := built.Manifest.Segments.Splits[0], built.Manifest.Segments.Runs[0]
	documents := musttest.Get(split.Open(local(t, stores, built, one.Segment), split.Expect{
		Analyser: text.Analyser, Documents: int(one.Documents), Chunks: int(one.Chunks), Classes: int(one.Classes),
	}))(t)
	t.Cleanup(documents.Close)
	classes := musttest.Get(classrun.Open(local(t, stores, built, run.Segment), classrun.Expect{
		Analyser: text.Analyser, Classes: int(run.Rows),
	}))(t)
	t.Cleanup(classes.Close)
	return documents, classes
}

// holding gives the rows of a side that hold a term.
func holding(side *postings.Side, term string) []uint32 {
	list, _ := side.Find(term)
	docs, _ := list.All()
	return docs
}

func TestASplitAndARunSayWhatTheirDocumentsSay(t *testing.T) {
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	made := built.Manifest.Segments.Splits[0].Segment
	made.Rows = 0 // a manifest says it
	again, _, fresh, err := segment.WriteSplit(t.Context(), splitIn(built))
	assert.True(t, err == nil && !fresh && again == made, "the same split once more: %+v, new %v, %v", again, fresh, err)
	documents, classes := opened(t, stores, built)
	set, err := liveset.New(t.Context(), "sample", []liveset.Split{{File: documents}}, []liveset.Run{{File: classes}})
	require.NoError(t, err)
	number, mentioned := uint32(0), map[string][]uint32{}
	for i, document := range retrievetest.Sample() {
		meta, modified := set.FilterFields(i)
		assert.True(t, set.Key(i) == document.Key && maps.Equal(meta, document.Meta) && modified.Equal(document.Modified),
			"document %d: %s, %v at %s", i, set.Key(i), meta, modified)
		for n, chunk := range document.Chunks {
			got := set.ByNumber(int(number))
			assert.True(t, got.ID == retrievetest.ChunkID(document, n) && int(got.Document) == i && int(got.Ordinal) == n,
				"chunk %d: %+v", number, got)
			for _, term := range text.Terms(embed.ChunkText(document.Title, chunk.Text)) {
				assert.True(t, slices.Contains(holding(documents.Words, term), number), "chunk %d does not hold %q", number, term)
			}
			for _, name := range chunk.Entities {
				if !slices.Contains(mentioned[name], number) {
					mentioned[name] = append(mentioned[name], number)
				}
			}
			number++
		}
	}
	for name, chunks := range mentioned {
		place := uint32(set.ClassPlace(retrievetest.ClassID(name)))
		assert.True(t, slices.Equal(set.Graph.ChunksOf(place), chunks),
			"%s is mentioned by %v, want %v", name, set.Graph.ChunksOf(place), chunks)
		for _, term := range text.LanguageOf("").SurfaceWords(name) {
			assert.True(t, slices.Contains(holding(classes.Words, term), place), "%s does not hold %q", name, term)
		}
	}
	if _, chunks, all := set.Counts(); chunks != int(number) || all != len(mentioned) {
		t.Errorf("%d chunks and %d classes, want %d and %d", chunks, all, number, len(mentioned))
	}
}

func TestChunksThatDoNotFollowTheDocumentsAreNoSplit(t *testing.T) {
	built := retrievetest.Build(t, retrievetest.NewStores(t), "sample", retrievetest.Sample(), retrievetest.Options{})
	for name, keys := range map[string][2]string{
		"a first document without its chunks": {"cities/oslo.txt", ""},
		"chunks behind the last document":     {"", "people/"},
	} {
		in := splitIn(built)
		in.Units[0].From, in.Units[0].To = keys[0], keys[1]
		made, _, _, err := segment.WriteSplit(t.Context(), in)
		assert.True(t, err != nil, "%s: %+v", name, made)
	}
}
