package service

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// Promises: 116.
func TestTheTemporaryFolderIsComparedWithWhatABuildNeeds(t *testing.T) {
	built := &core.Manifest{Segments: core.Segments{IDF: []core.Segment{{Bytes: 3 << 30}}}}
	for name, c := range map[string]struct {
		space    scratch.Space
		manifest *core.Manifest
		fails    bool
		says     []string
	}{
		"room":                {scratch.Space{Free: 20 << 30}, built, false, []string{"/t has 21 GB free;", "docs needs about 9.9 GB"}},
		"too little":          {scratch.Space{Free: 9 << 30}, built, true, []string{"9.7 GB free", "9.9 GB", "UNWEAVER_CACHE_DIR"}},
		"a tmpfs with room":   {scratch.Space{Free: 20 << 30, Memory: true}, built, false, []string{"in memory (a tmpfs)"}},
		"a tmpfs without":     {scratch.Space{Free: 4 << 30, Memory: true}, built, true, []string{"a tmpfs", "a volume"}},
		"nothing built":       {scratch.Space{Free: 1 << 30}, nil, false, []string{"268 MB, and 12 GB for each"}},
		"nothing and no room": {scratch.Space{Free: 1 << 20}, nil, true, []string{"1.0 MB free"}},
	} {
		c.space.Folder = "/t"
		text, err := judgeSpace(c.space, "docs", c.manifest)
		if err != nil {
			text = err.Error()
		}
		assert.Equal(t, c.fails, fault.Is(err, fault.StoreFull), "%s: %q, %v", name, text, err)
		for _, want := range c.says {
			assert.Contains(t, text, want, "%s", name)
		}
	}
}

func TestEachDiskOfTheStoresIsLookedAtOnce(t *testing.T) {
	folders := []string{t.TempDir(), t.TempDir()}
	text, err := probeDisks(folders, nil)
	assert.True(t, err == nil && strings.Contains(text, folders[0]) && !strings.Contains(text, folders[1]), "%q, %v", text, err)
	_, err = probeDisks(folders, &core.Manifest{Segments: core.Segments{Documents: []core.Segment{{Bytes: 1 << 60}}}})
	assert.True(t, fault.Is(err, fault.StoreFull) && strings.Contains(err.Error(), folders[0]), "%v", err)
	assert.Error(t, musttest.Err(probeDisks([]string{folders[0] + "/none"}, nil)))
}
