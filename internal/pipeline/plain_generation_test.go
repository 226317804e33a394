package pipeline_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/blob"
)

var writePlain = flag.Bool("write-plain", false, "write testdata/plain.txt again")

// passing are what differs between two equal builds: when and where they ran.
var passing = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`uw_[0-9a-f]{8}_`), "uw_STORE_"},
	{ // rows of documents, which splits have too, tell the state of the object
		regexp.MustCompile(`"(documents|splits)":\[\{"sha256":"[0-9a-f]{64}","bytes":\d+`),
		`"$1":[{"sha256":"OBJECTS","bytes":0`,
	},
	{regexp.MustCompile(`"store":"[0-9a-f]{32}"`), `"store":"STORE"`},
	{regexp.MustCompile(`"(spec|config_digest)":"[0-9a-f]{64}"`), `"$1":"SPEC"`}, // it names the folder of the corpus
}

// The manifest of a generation without enrichments and its settings have stored bytes: their digests name them. Where
// the bytes are meant to change: go test ./internal/pipeline -run Plain -write-plain.
// Promises: 89.
func TestAPlainGenerationHasItsBytes(t *testing.T) {
	s := newSite(t, sample(6))
	steady(s)
	s.night(t)
	var found strings.Builder
	index, manifest := s.index(), s.current(t)
	pointer, _, err := index.ReadPointer(t.Context())
	require.NoError(t, err)
	for _, key := range []string{index.SegmentKey(pointer.Manifest), index.SpecKey(manifest.Spec)} {
		raw, _, err := blob.Read(t.Context(), s.Artifacts, key)
		require.NoError(t, err)
		content := strings.ReplaceAll(string(raw), s.corpus, "CORPUS")
		for _, one := range passing {
			content = one.what.ReplaceAllString(content, one.as)
		}
		found.WriteString(content + "\n")
	}
	name := filepath.Join("testdata", "plain.txt")
	if *writePlain {
		require.NoError(t, os.WriteFile(name, []byte(found.String()), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.True(t, found.String() == string(want), "other bytes:\n%s\nwant\n%s", found.String(), want)
}
