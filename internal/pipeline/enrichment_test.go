package pipeline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
)

// An enrichment is made when the configuration names it, and again when chunks or its rules change; it comes to what
// a build from nothing comes to, its files stay as long as a generation names them, and what it is made of stays as
// it is.
// Promises: 87.
func TestAnEnrichmentFollowsTheGeneration(t *testing.T) {
	listing := &Listing{Version: "1"}
	listing.Register(t)
	s := newSite(t, sample(30))
	steady(s)
	s.spec.Keep, s.spec.Gate.MaxRemoved = 1, 1
	plain := s.night(t).manifest
	require.Zero(t, len(plain.Enriched)+len(plain.Segments.Enriched), "%+v", plain.Enriched)
	s.spec.Enrich = []string{"listing"}
	if planned := s.night(t).planned; planned.Unchanged {
		t.Fatal("a new enrichment is no change")
	}
	first := s.current(t)
	made := first.Enrichment("listing")
	require.True(t, made != nil && made.Counts["chunks"] == first.Counts.Chunks && first.Hashes == plain.Hashes,
		"%+v, hashes %v, without it %v", made, first.Hashes, plain.Hashes)
	if planned := s.night(t).planned; !planned.Unchanged {
		t.Error("the same is made again")
	}
	s.write(t, map[string]string{"place-003.md": "# Harbour 3\n\nIt was closed.\n", "new.md": "# Quay\n\nNew.\n"})
	listing.Paid = nil
	s.night(t)
	night := s.current(t)
	fresh := newSite(t, nil)
	steady(fresh)
	fresh.corpus, fresh.spec.Corpus = s.corpus, s.corpus
	fresh.spec.Enrich = s.spec.Enrich
	fresh.night(t)
	from := fresh.current(t)
	if night.Enrichment("listing").Hash != from.Enrichment("listing").Hash || night.Hashes != from.Hashes {
		t.Errorf("%+v, from nothing %+v", night.Enrichment("listing"), from.Enrichment("listing"))
	}
	file := night.Segments.FilesOf("listing", "list")
	if _, err := s.Artifacts.Stat(t.Context(), s.index().SegmentKey(file[0].SHA256)); len(file) != 1 || err != nil {
		t.Errorf("%v: %v", file, err)
	}
	listing.Version = "2"
	if out := s.night(t); out.planned.Unchanged || out.manifest.Enrichment("listing").Rules != "2" {
		t.Errorf("other rules: %+v", out.manifest.Enriched)
	}
	s.spec.Enrich = nil
	out := s.night(t)
	if len(out.manifest.Enriched)+len(out.manifest.Segments.Enriched) != 0 || out.manifest.Hashes != night.Hashes {
		t.Errorf("it is still there: %+v", out.manifest.Enriched)
	}
}

func TestAnEnrichmentThatNobodyKnowsIsRefused(t *testing.T) {
	s := newSite(t, sample(3))
	s.night(t)
	s.spec.Enrich = []string{"listing"}
	job, holder := s.leased(t)
	if _, err := s.stages(t.Context(), job, holder); err == nil || !strings.Contains(err.Error(), "listing") {
		t.Errorf("%v", err)
	}
}

func TestEveryFileOfAnEnrichmentIsListed(t *testing.T) {
	segments := core.Segments{Enriched: []core.EnrichedFile{{Segment: core.Segment{SHA256: "a"}, Of: "x", Kind: "y"}}}
	if !slices.ContainsFunc(segments.All(), func(one core.Segment) bool { return one.SHA256 == "a" }) {
		t.Error("collection would delete it")
	}
}
