package core_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/unweaver/unweaver/internal/core"
)

func TestFilesOfOtherTypesAreCountedByTheirExtensions(t *testing.T) {
	var list, all core.LeftOut
	for _, object := range []string{"a.PNG", "b.png", "bin/tool", "odd.", "v1.2 of the report"} {
		list.AddOtherType(object)
	}
	all.AddOtherTypes(list)
	all.AddOtherTypes(list)
	want := map[string]int64{".png": 4, "no extension": 6}
	assert.True(t, all.OtherTypes == 10 && maps.Equal(all.Extensions, want), "%+v, want %v", all, want)
}
