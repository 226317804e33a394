package pipeline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
)

// The built-in embedder learns its words again once there are twice as many chunks: then a part cannot be made alone.
func TestACorpusThatOutgrowsItsWordsIsMadeAnew(t *testing.T) {
	s := newSite(t, sample(6))
	s.night(t)
	s.write(t, sample(8))
	way := &how{}
	if night, err := s.try(t, way); err != nil || way.restarted {
		t.Fatalf("a part more: restarted %v, %v, %v", way.restarted, night.published, err)
	}
	s.write(t, sample(20))
	grown, err := s.try(t, way)
	require.True(t, err == nil && way.restarted, "three times as many: restarted %v, %v", way.restarted, err)
	fresh := newSite(t, sample(20))
	if want := fresh.night(t); grown.manifest.Hashes != want.manifest.Hashes {
		t.Error("the hashes are not those of a build from nothing")
	}
	if report := s.report(t); !slices.ContainsFunc(report.Reasons, func(reason string) bool {
		return strings.Contains(reason, "learned from")
	}) {
		t.Errorf("%q", report.Reasons)
	}
}

// A night of deletions has no unit to chunk and no shard to extract.
func TestANightOfDeletionsAloneIsANight(t *testing.T) {
	s := newSite(t, sample(12))
	first := s.night(t)
	s.remove(t, "place-003.md")
	s.remove(t, "place-007.md")
	night := s.night(t)
	fresh := s.copied(t)
	fresh.spec.Index = "fresh"
	want := fresh.night(t)
	if night.planned.Units != 0 || night.manifest.Hashes.Content != want.manifest.Hashes.Content ||
		night.manifest.Counts != want.manifest.Counts || night.manifest.Counts.Documents != 10 {
		t.Errorf("%+v\nwant\n%+v", night.manifest.Counts, want.manifest.Counts)
	}
	if splits := night.manifest.Segments.Splits; len(splits) != 1 || splits[0] != first.manifest.Segments.Splits[0] {
		t.Errorf("a split was written: %+v", splits)
	}
	assert.True(t, len(night.manifest.Segments.DeadStats) != 0 && len(night.manifest.Segments.Tombs) != 0,
		"what died is not marked: %+v", night.manifest.Segments)
}

// A bitmap of what is dead is made from nothing else that is stored: where it is lost, everything is made again,
// whatever else the night finds, documents among it that only the parent has.
func TestALostTombHasAWayBack(t *testing.T) {
	whole := newSite(t, sample(12))
	whole.spec.Failures = core.Failures{Share: 1}
	whole.night(t)
	whole.write(t, map[string]string{
		"place-001.md": "# Harbour 1\n\nIt was moved to Lake Verin.\n", "place-002.md": "# Harbour 2\n\nIt was moved, too.\n",
	})
	first := whole.night(t)
	tombs := first.manifest.Segments.Tombs
	if !slices.ContainsFunc(tombs, func(one core.Tomb) bool {
		return one.Of == first.manifest.Segments.Splits[0].SHA256
	}) {
		t.Fatalf("no document is dead: %+v", tombs)
	}
	for damage, do := range damages {
		for _, night := range []string{"unchanged", "changed", "stale"} {
			for _, one := range tombs {
				s := whole.copied(t)
				s.spec.Failures = whole.spec.Failures
				do(t, s.Artifacts, s.index().SegmentKey(one.SHA256))
				s.Cache.Drop(one.SHA256)
				switch night {
				case "changed":
					s.write(t, map[string]string{"place-003.md": "# Harbour 3\n\nIt was moved to Tolmin.\n"})
				case "stale":
					s.write(t, map[string]string{"place-003.md": ""})
				}
				out, steps := s.heal(t)
				assert.True(t, out.manifest != nil && out.manifest.Counts.Documents >= 11,
					"%s, %s: %+v after %q", damage, night, out.published, steps)
				s.whole(t)
				whole.write(t, map[string]string{"place-003.md": sample(12)["place-003.md"]})
			}
		}
	}
}
