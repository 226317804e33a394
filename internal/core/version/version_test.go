package version

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAVersionIsThatOfTheReleaseElseTheCommit(t *testing.T) {
	defer func(was string) { Version = was }(Version)
	Version = "v1.2.3"
	assert.Equal(t, "v1.2.3", String())
	Version = ""
	assert.True(t, strings.HasPrefix(String(), "dev"), String())
	commit := strings.Repeat("0123456789", 4)
	for want, settings := range map[string][]debug.BuildSetting{
		"dev":                      {{Key: "vcs.modified", Value: "true"}},
		"dev-012345678901":         {{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "false"}},
		"dev-012345678901-changed": {{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: commit}},
		"dev-abc":                  {{Key: "GOOS", Value: "linux"}, {Key: "vcs.revision", Value: "abc"}},
	} {
		assert.Equal(t, want, describeCommit(settings))
	}
}
