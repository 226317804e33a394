package pipeline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
)

// Documents that came through links are gone for a version that does not follow them: the gate of mass deletions holds
// the run, and its message names the setting that brings them back.
func TestDocumentsThatCameThroughLinksAreHeldAndTheSettingIsNamed(t *testing.T) {
	s := newSite(t, map[string]string{"own.md": "# Own\n\nThe harbour of Port Alma was built by Carla Ruiz.\n"})
	outside := t.TempDir()
	for name, text := range sample(3) {
		require.NoError(t, os.WriteFile(filepath.Join(outside, name), []byte(text), 0o600))
	}
	if err := os.Symlink(outside, filepath.Join(s.corpus, "linked")); err != nil {
		t.Skip("no links here: ", err)
	}
	s.spec.FollowLinks = true // as the version before did
	if out := s.night(t); out.published.Status != core.StatusCompleted || out.planned.Documents != 4 {
		t.Fatalf("%+v", out.planned)
	}
	s.spec.FollowLinks = false
	out := s.night(t)
	require.True(t, out.planned.Held != "", "it was not held: %+v", out.planned)
	report := s.report(t)
	reported := false
	for _, problem := range report.Problems {
		reported = reported || problem.Code == "not_followed" && problem.Object == "linked" &&
			strings.Contains(problem.Detail, "follow_links")
	}
	assert.True(t, reported, "problems: %+v", report.Problems)
	s.spec.FollowLinks = true
	if out := s.night(t); out.planned.Held != "" || !out.planned.Unchanged {
		t.Errorf("with the setting: %+v", out.planned)
	}
}
