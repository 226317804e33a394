package stage_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage"
)

func TestTheFirstPatternThatMatchesNamesTheCharset(t *testing.T) {
	spec := core.Spec{Documents: &core.Documents{Encoding: []string{"old/**=koi8-r", "*.txt=windows-1251"}}}
	for object, want := range map[string]string{
		"old/a/b.txt": "koi8-r", "b.txt": "windows-1251", "new/b.txt": "", "b.md": "",
	} {
		assert.Equal(t, want, stage.EncodingOf(spec, object), "%s", object)
	}
	assert.Empty(t, stage.EncodingOf(core.Spec{}, "b.txt"))
}
