package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// A purge waits for the schedule alone: what it judges nights by names the document until another is applied.
// Promises: 5.
func TestAPurgeTakesStoredProbeFilesThatNameTheDocument(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 12, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	s.write(t, map[string]string{"secret.md": secretDocument(0)})
	s.night(t)
	index := artifact.Index{Store: s.Artifacts, Name: "docs"}
	put := func(document string) string {
		sum, err := index.PutProbes(t.Context(), []byte(`{"question":"Who?","documents":["`+document+`"]}`))
		require.NoError(t, err)
		return sum
	}
	names := func(sum string) bool {
		_, err := s.Artifacts.Stat(t.Context(), index.ProbesKey(sum))
		return err == nil
	}
	scheduled := put("secret.md")
	spec := s.spec
	spec.Gate.Probes = core.SentFile + scheduled
	require.NoError(t, run.KeepSchedule(t.Context(), index, run.Scheduled{Spec: spec}))
	purge := s.purge(t, "secret.md")
	s.night(t)
	waits := s.purged(t, purge.ID)
	require.Equal(t, core.PurgePending, waits.State)
	require.Len(t, waits.Left, 1)
	assert.Contains(t, waits.Left[0], "unweaver schedule apply docs")
	assert.True(t, names(scheduled))

	other := put("place-003.md")
	spec.Gate.Probes = core.SentFile + other
	require.NoError(t, run.KeepSchedule(t.Context(), index, run.Scheduled{Spec: spec}))
	s.night(t)
	assert.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
	assert.True(t, !names(scheduled) && names(other), "gone: %t, kept: %t", !names(scheduled), names(other))
}

// Files that came with requests go once no configuration in use names them and they are older than the grace.
func TestSentFilesThatNoConfigurationNamesAreCollected(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 6, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	s.spec.Grace = 0
	index := artifact.Index{Store: s.Artifacts, Name: "docs"}
	probes, err := index.PutProbes(t.Context(), []byte(`{"question":"Who?","documents":["place-003.md"]}`))
	require.NoError(t, err)
	unused, err := index.PutAliases(t.Context(), []byte("pin A | B"))
	require.NoError(t, err)
	spec := s.spec
	spec.Gate.Probes = core.SentFile + probes
	require.NoError(t, run.KeepSchedule(t.Context(), index, run.Scheduled{Spec: spec}))
	s.night(t)
	_, err = s.Artifacts.Stat(t.Context(), index.AliasesKey(unused))
	require.Error(t, err, "no configuration names it")
	_, err = s.Artifacts.Stat(t.Context(), index.ProbesKey(probes))
	require.NoError(t, err, "the schedule names it")

	_, err = s.branch(t, "exp", nil)
	require.NoError(t, err)
	ofBranch, err := index.PutProbes(t.Context(), []byte(`{"question":"Where?","documents":["place-002.md"]}`))
	require.NoError(t, err)
	spec.Gate.Probes = core.SentFile + ofBranch
	branch := artifact.Index{Store: s.Artifacts, Name: "exp"}
	require.NoError(t, run.KeepSchedule(t.Context(), branch, run.Scheduled{Spec: spec}))
	s.write(t, map[string]string{"new.md": "# New\n\nThe mole of Lake Verin was raised by Carla Ruiz.\n"})
	s.night(t)
	_, err = s.Artifacts.Stat(t.Context(), index.ProbesKey(ofBranch))
	require.NoError(t, err, "the schedule of a branch names it")
}
