package segment_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/live"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/index/search"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/text"
)

// local copies a segment into a file.
func local(t *testing.T, stores retrievetest.Stores, built retrievetest.Built, made core.Segment) string {
	t.Helper()
	raw, _, err := blob.Read(t.Context(), stores.Blobs, built.Index.SegmentKey(made.SHA256))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// splitIn is what the split of the sample is made from; its shard is all of it.
func splitIn(built retrievetest.Built) segment.SplitIn {
	segments := built.Manifest.Segments
	return segment.SplitIn{
		Artifacts: built.Index, Spec: core.Spec{Retrieval: core.Retrieval{Language: "en"}},
		Units: []segment.SplitUnit{{
			Documents: segments.Documents[0], Text: segments.Text[0],
			Shards: []segment.SplitShard{{
				Live:     join.LiveKey(built.Index.RunKey(built.Manifest.Generation, "scratch"), 0),
				Mentions: built.Index.SegmentKey(segments.Mentions[0].SHA256),
			}},
		}},
		OnProgress: func(int64) {},
	}
}

func TestASplitAndARunSayWhatTheLiveAndTheSearchSegmentSay(t *testing.T) {
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	in := splitIn(built)
	made, expect, fresh, err := segment.Split(t.Context(), in)
	if err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	if again, _, fresh, err := segment.Split(t.Context(), in); err != nil || fresh || again != made {
		t.Errorf("the same split once more: %+v, new %v, %v", again, fresh, err)
	}
	run, runExpect, _, err := segment.ClassRun(t.Context(), segment.ClassRunIn{
		Artifacts: in.Artifacts, Spec: in.Spec, Classes: built.Manifest.Segments.Classes, OnProgress: in.OnProgress,
	})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := split.Open(local(t, stores, built, made), expect)
	if err != nil {
		t.Fatal(err)
	}
	classes, err := classrun.Open(local(t, stores, built, run), runExpect)
	if err != nil {
		t.Fatal(err)
	}
	set, err := liveset.New(t.Context(), "sample", []liveset.Split{{File: documents}}, []liveset.Run{{File: classes}})
	if err != nil {
		t.Fatal(err)
	}
	defer documents.Close()
	defer classes.Close()
	table, err := live.Open(local(t, stores, built, built.Manifest.Segments.Live[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	for i, chunk := range table.Chunks {
		if got := set.Chunk(chunk.ID); got == nil || *got != chunk {
			t.Errorf("chunk %d: %+v, want %+v", i, got, chunk)
		}
	}
	for i, class := range table.Classes {
		class.FirstPos = 0 // of many segments the order of classes says it
		clear(class.Vector[len(core.DigestPrefix{}):])
		if got := set.ClassAt(uint32(i)); *got != class || set.Name(i) != table.Name(i) {
			t.Errorf("class %d: %+v, want %+v", i, got, class)
		}
	}
	for i := range table.Documents {
		if want := table.Documents[i]; set.Key(i) != table.Key(i) || set.DocumentAt(i).Frame != want.Frame {
			t.Errorf("document %d: %s", i, set.Key(i))
		}
	}
	file, err := search.Open(local(t, stores, built, built.Manifest.Segments.Search[0]), search.Expect{
		Analyser: text.Analyser, Documents: expect.Documents, Chunks: expect.Chunks, Classes: runExpect.Classes,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !reflect.DeepEqual(set.Graph, *file.Graph) || !reflect.DeepEqual(set.Rank, file.Rank) {
		t.Errorf("%+v\n%+v", set.Graph, *file.Graph)
	}
	for i := range table.Documents {
		meta, modified := set.Filtered(i)
		if want, at := file.Document(i); !reflect.DeepEqual(meta, want) || !modified.Equal(at) {
			t.Errorf("document %d: %v at %s, want %v at %s", i, meta, modified, want, at)
		}
	}
	for _, side := range [][2]*postings.Side{{documents.Words, file.Chunks}, {classes.Words, file.Classes}} {
		found := 0
		for _, term := range []string{"norway", "oslo", "pole", "fram", "nowhere"} {
			got, _ := side[0].Find(term)
			want, ok := side[1].Find(term)
			docs, counts := got.All()
			if wantDocs, times := want.All(); !slices.Equal(docs, wantDocs) || !slices.Equal(counts, times) {
				t.Errorf("%s: %v %v, want %v %v", term, docs, counts, wantDocs, times)
			}
			if ok {
				found++
			}
		}
		if found < 2 || !reflect.DeepEqual(side[0].Lengths, side[1].Lengths) {
			t.Errorf("lengths %v, want %v", side[0].Lengths, side[1].Lengths)
		}
	}
}

func TestChunksThatDoNotFollowTheDocumentsAreNoSplit(t *testing.T) {
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	for name, keys := range map[string][2]string{
		"a first document without its chunks": {"cities/oslo.txt", ""},
		"chunks behind the last document":     {"", "people/"},
	} {
		in := splitIn(built)
		in.Units[0].From, in.Units[0].To = keys[0], keys[1]
		if made, _, _, err := segment.Split(t.Context(), in); err == nil {
			t.Errorf("%s: %+v", name, made)
		}
	}
}
