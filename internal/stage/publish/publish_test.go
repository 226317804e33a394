package publish_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func newIndex(t *testing.T) artifact.Index {
	return artifact.Index{Store: stagetest.Must(dir.Open(t.TempDir())), Name: "i"}
}

func TestStoreTwiceIsStoreOnce(t *testing.T) {
	art := newIndex(t)
	manifest := &core.Manifest{Index: "i", Generation: "g1", Seq: 4, Format: core.ManifestFormat}
	held := stagetest.Must(publish.Store(t.Context(), art, manifest, "held"))
	assert.Equal(t, stagetest.Must(publish.Store(t.Context(), art, manifest, "published")), held)
	ref, err := art.GenerationRef(t.Context(), "g1")
	assert.True(t, err == nil && ref == (core.GenerationRef{Manifest: held, Seq: 4, State: "published"}),
		"%v: %+v", err, ref)
	back, err := art.Manifest(t.Context(), held)
	assert.True(t, err == nil && back.Generation == "g1" && back.Seq == 4, "%v: %+v", err, back)
	n := 0
	for range art.Store.List(t.Context(), "i/segments/", "") {
		n++
	}
	assert.Equal(t, 1, n)
}

func TestAGenerationWhoseManifestWasNotWrittenIsNotNamed(t *testing.T) {
	art := newIndex(t)
	full := fault.StoreFull.At("write", "segments")
	art.Store = &stagetest.Tampered{Store: art.Store, OnPut: func(key string) error {
		if strings.Contains(key, "/segments/") {
			return full
		}
		return nil
	}}
	_, err := publish.Store(t.Context(), art, &core.Manifest{Generation: "g1"}, "published")
	assert.True(t, errors.Is(err, full), "got %v", err)
	_, _, err = blob.Read(t.Context(), art.Store, art.GenerationKey("g1", "manifest.json"))
	assert.True(t, fault.Is(err, fault.NotFound), "the generation is named: %v", err)
}

func TestSeqIsOneMoreThanTheLargest(t *testing.T) {
	art := newIndex(t)
	for i, seq := range []int64{7, 12, 3} {
		stagetest.Must(publish.Store(t.Context(), art, &core.Manifest{Generation: fmt.Sprint("g", i), Seq: seq}, "held"))
	}
	assert.Equal(t, int64(13), stagetest.Must(publish.NextSeq(t.Context(), art)))
	assert.Equal(t, int64(1), stagetest.Must(publish.NextSeq(t.Context(), newIndex(t))), "of a new index")
}

// Documents are those that are readable, failed, of the parent, and lapsed; chunks those in all, and as before.
func TestGateMeasuresDocumentsAndChunksApart(t *testing.T) {
	type n = [4]int64
	usual := core.Failures{Share: 0.01}
	for name, c := range map[string]struct {
		budget            core.Failures
		documents, chunks n
		reason, says      string // says is a part of the detail
	}{
		"nothing failed": {usual, n{81}, n{8000}, "", ""},
		"80 of 81 documents cannot be read": {
			usual, n{1, 80}, n{8500, 0, 8500}, publish.FailureBudget,
			"80 of 81 documents failed (98.8 %); at most 1 %, or 4 of them, may fail (indexes.i.failures: " +
				"documents_share, count, floor)",
		},
		"and the generation before had them": {
			usual, n{1, 80, 81}, n{8500}, publish.FailureBudget, "; the previous generation had 81",
		},
		"4 of 10 documents are below the floor": {usual, n{6, 4}, n{60}, "", ""},
		"4 of 10 chunks too":                    {usual, n{10}, n{10, 4}, "", ""},
		"4 of either are not 8":                 {usual, n{6, 4}, n{10, 4}, "", ""},
		"5 of 10 documents reach the floor":     {usual, n{5, 5, 10}, n{60}, publish.FailureBudget, "5 of 10 doc"},
		"5 of 10 chunks too": {
			usual, n{10}, n{10, 5}, publish.FailureBudget,
			"5 of 10 passages failed (50 %); at most 1 %, or 4 of them, may fail (indexes.i.failures: share, count, floor)",
		},
		"a floor of one holds at the first failure": {
			core.Failures{Floor: 1}, n{9, 1, 10}, n{90}, publish.FailureBudget, "at most 0 %, or 0 of them",
		},
		"1 % of many are within the share":         {usual, n{990, 10}, n{10_000, 100}, "", ""},
		"one chunk more is not":                    {usual, n{990, 10}, n{10_000, 101}, publish.FailureBudget, "101 of 10000 passages"},
		"one document more is not":                 {usual, n{989, 11, 1000}, n{10_000}, publish.FailureBudget, "11 of 1000 doc"},
		"a count lets more through than the share": {core.Failures{Share: 0.01, Count: 50}, n{50, 50}, n{100, 50}, "", ""},
		"up to the count":                          {core.Failures{Share: 0.01, Count: 50}, n{49, 51}, n{100}, publish.FailureBudget, "or 50 of them"},
		"documents may have a share of their own":  {core.Failures{Share: 0.01, DocumentsShare: 0.5}, n{60, 40}, n{600}, "", ""},
		"which does not count for chunks": {
			core.Failures{Share: 0.01, DocumentsShare: 0.5}, n{60}, n{600, 60}, publish.FailureBudget,
			"60 of 600 passages failed (10 %); at most 1 %",
		},
		"5 of 100 old documents do not drown in 1,000 new ones": {
			usual, n{1095, 5, 100, 5}, n{9000, 0, 900, 9}, publish.FailureBudget,
			"5 of 100 documents of the previous generation failed (5 %); at most 1 %, or 4 of them",
		},
		"5 long documents of 1,000 are half of the text": {
			usual, n{995, 5, 1000, 5}, n{2400, 0, 2400, 1200}, publish.FailureBudget,
			"1200 of 2400 passages of the previous generation belong to documents that failed (50 %); at most 1 " +
				"%, or those of 4 documents, may (indexes.i.failures: documents_share, count, floor)",
		},
		"4 of them are kept, and reported": {usual, n{996, 4, 1000, 4}, n{2400, 0, 2400, 960}, "", ""},
		"a count lets long ones through as well": {
			core.Failures{Share: 0.01, Count: 5}, n{995, 5, 1000, 5}, n{2400, 0, 2400, 1200}, "", "",
		},
		"nothing gave a chunk":                          {usual, n{3}, n{}, publish.Empty, "no document"},
		"nothing gave a chunk, as little could be read": {usual, n{0, 4}, n{}, publish.Empty, "no document"},
		"a first build serves what it can read":         {usual, n{13, 6}, n{80}, "", ""},
		"a first build of which most cannot be read": {
			usual, n{6, 7}, n{80}, publish.FailureBudget, "7 of 13 documents failed (53.8 %); at most 50 %, or 4 of them",
		},
		"nothing could be read of much": {usual, n{0, 400}, n{}, publish.FailureBudget, "400 of 400 documents failed (100 %)"},
	} {
		d, of := c.documents, c.chunks
		documents := publish.Documents{Readable: d[0], Failed: d[1], Parent: d[2], Lapsed: d[3]}
		chunks := publish.Chunks{Total: of[0], Failed: of[1], Parent: of[2], Lapsed: of[3]}
		reason, detail := publish.CheckGeneration(core.Spec{Index: "i", Failures: c.budget}, documents, chunks)
		assert.True(t, reason == c.reason && strings.Contains(detail, c.says) && (reason == "") == (detail == ""),
			"%s: %q: %q", name, reason, detail)
	}
}

func TestRemovalIsHeldBeforeAnythingIsPaid(t *testing.T) {
	for name, c := range map[string]struct {
		removed, moved, parent int64
		share                  float64
		says                   string // empty: passes
		reason                 string // why all is made again
	}{
		"attachments are switched off": {1, 0, 2, 0.2, "documents.attachments was switched off", core.AttachmentsOff},
		"a fifth may go":               {20, 0, 100, 0.2, "", ""},
		"one more may not": {
			21, 0, 100, 0.2, "21 of 100 documents are gone (21 %); " +
				"at most 20 % may go in one run (indexes.i.gate.max_removed)", "",
		},
		"one of two is held":                {1, 0, 2, 0.2, "1 of 2 documents are gone (50 %)", ""},
		"documents that moved are not lost": {90, 80, 100, 0.2, "", ""},
		"the rest of them is":               {90, 60, 100, 0.2, "30 of 100", ""},
		"everything may go if one says so":  {100, 0, 100, 1, "", ""},
		"nothing may go":                    {1, 0, 1000, 0, "1 of 1000 documents are gone (0.1 %); at most 0 %", ""},
		"without a parent nothing is gone":  {5, 0, 0, 0.2, "", ""},
		"nor against an unknown one":        {5, 0, -1, 0.2, "", ""},
	} {
		spec := core.Spec{Index: "i", Gate: core.Gate{MaxRemoved: c.share}}
		reason, detail := publish.CheckRemoval(spec, c.removed, c.moved, c.parent, []string{c.reason})
		assert.True(t, (reason == publish.MassDeletion) == (c.says != "") && strings.Contains(detail, c.says) &&
			(reason == "") == (detail == ""), "%s: %q %q", name, reason, detail)
	}
}

func TestARunOutOfProportionIsNotPublishedUnseen(t *testing.T) {
	for name, c := range map[string]struct {
		size, money    float64
		chunks, parent int64
		cost           float64
		reason, says   string
	}{
		"half more may come":       {0.5, 0, 150, 100, 0, "", ""},
		"one more may not":         {0.5, 0, 151, 100, 0, publish.SizeJump, "the generation before had 100 (+51 %)"},
		"half may go":              {0.5, 0, 50, 100, 0, "", ""},
		"one more may not go":      {0.5, 0, 49, 100, 0, publish.SizeJump, "(-51 %); at most 50 % more or fewer"},
		"no bound of the size":     {0, 0, 10_000, 100, 0, "", ""},
		"what it may cost":         {0, 2, 100, 100, 2, "", ""},
		"more than it may cost":    {0, 2, 100, 100, 2.01, publish.CostJump, "it cost 2.0100; at most 2.0000"},
		"no bound of the cost":     {0, 0, 100, 100, 1e6, "", ""},
		"nothing to measure it by": {0.5, 2, 1000, 0, 100, "", ""},
		"both":                     {0.5, 2, 1000, 100, 100, publish.SizeJump, "(indexes.i.gate.max_size_change)"},
	} {
		spec := core.Spec{Index: "i", Gate: core.Gate{MaxSizeChange: c.size, MaxCost: c.money}}
		reason, detail := publish.CheckJump(spec, c.chunks, c.parent, c.cost)
		assert.True(t, reason == c.reason && strings.Contains(detail, c.says) && (reason == "") == (detail == ""),
			"%s: %q %q", name, reason, detail)
	}
}

// Promises: 139.
func TestANameThatAGenerationHasIsNotGivenAgain(t *testing.T) {
	art := newIndex(t)
	stagetest.Ok(t, publish.CheckUnused(t.Context(), art, "g1"))
	sha := stagetest.Must(publish.Store(t.Context(), art, &core.Manifest{Generation: "g1", Seq: 1}, "published"))
	musttest.Code(t, publish.CheckUnused(t.Context(), art, "g1"), fault.Usage, "it is free")
	_, err := publish.Store(t.Context(), art, &core.Manifest{Generation: "g1", Seq: 2}, "held")
	assert.True(t, fault.Is(err, fault.Usage), "another has it: %v", err)
	ref := musttest.Get(art.GenerationRef(t.Context(), "g1"))(t)
	assert.True(t, ref == (core.GenerationRef{Manifest: sha, Seq: 1, State: "published"}), "it names %+v", ref)
}

// One whose reference cannot be read has one of the numbers that are left out.
func TestSeqPassesOverGenerationsThatCannotBeRead(t *testing.T) {
	art := newIndex(t)
	for _, gen := range []string{"g1", "g2", "g3"} {
		stagetest.Must(publish.Store(t.Context(), art, &core.Manifest{Generation: gen, Seq: 5}, "held"))
	}
	for _, gen := range []string{"g1", "g2"} {
		stagetest.Must(blob.Write(t.Context(), art.Store, art.GenerationKey(gen, "manifest.json"), []byte("{"), blob.Cond{}))
	}
	assert.Equal(t, int64(8), stagetest.Must(publish.NextSeq(t.Context(), art)))
	served := core.Pointer{Generation: "g9", Manifest: "sha-g9", Seq: 20, Epoch: 1} // it counts, also without a reference
	stagetest.Must(blob.WriteJSON(t.Context(), art.Store, art.CurrentKey(), served, blob.Cond{}))
	assert.Equal(t, int64(23), stagetest.Must(publish.NextSeq(t.Context(), art)))
}
