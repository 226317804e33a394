package pipeline_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// A collector died in a batch, the reference of an old generation is damaged, and the corpus becomes again what it was,
// so that the night makes segments of the batch: it publishes, and its report reports the damage.
func TestDamageOfAnOldReferenceAndADeadCollectorBlockNoNight(t *testing.T) {
	s := newSite(t, sample(8))
	s.night(t)
	s.write(t, map[string]string{"a.md": "# A\n\nSalt of Tolmin.\n"})
	was := s.night(t)
	s.write(t, map[string]string{"a.md": "# A\n\nTin of Lake Verin.\n"})
	s.night(t)
	var batch []string
	now := s.current(t).Segments.All()
	for _, segment := range was.manifest.Segments.All() {
		if !slices.Contains(now, segment) {
			batch = append(batch, "segment:"+segment.SHA256)
		}
	}
	list := map[string]any{"format": 2, "since": map[string]string{}, "deleting": batch}
	_, err := blob.WriteJSON(t.Context(), s.Artifacts, "docs/condemned.json", list, blob.Cond{})
	require.NoError(t, err)
	reference := s.index().GenerationKey(was.manifest.Generation, "manifest.json")
	damages["flipped"](t, s.Artifacts, reference)
	s.write(t, map[string]string{"a.md": "# A\n\nSalt of Tolmin.\n"})
	night, err := s.try(t, &how{})
	require.True(t, err == nil && night.published.Status == core.StatusCompleted,
		"the night: %+v, %v", night.published, err)
	shared := 0
	for _, segment := range night.manifest.Segments.All() {
		if slices.Contains(batch, "segment:"+segment.SHA256) {
			shared++
		}
	}
	assert.True(t, shared != 0, "the night made nothing of the batch again")
	s.whole(t)
	report := s.report(t)
	reported := 0
	for _, problem := range report.Problems {
		if problem.Code == string(fault.SegmentDamage) && problem.Object == reference {
			reported++
		}
	}
	assert.True(t, reported == 1 && report.ProblemsTotal == int64(len(report.Problems)),
		"reported %d times: %+v", reported, report.Problems)
}
