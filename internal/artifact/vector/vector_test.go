package vector_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact/vector"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestVectorsAreReadAsTheyWereWritten(t *testing.T) {
	for _, want := range []vector.JSON{{}, {0.25, -1, 0}, {math.MaxFloat32, math.SmallestNonzeroFloat32}} {
		raw := musttest.Get(json.Marshal(want))(t)
		var got vector.JSON
		err := json.Unmarshal(raw, &got)
		assert.True(t, err == nil && slices.Equal(got, want), "%v became %v: %v", want, got, err)
	}
	raw, _ := json.Marshal(vector.JSON{1})
	assert.True(t, string(raw) == `"AACAPw=="`, "1 is written %s", raw)
	var got vector.JSON
	musttest.Code(t, json.Unmarshal([]byte(`"AACAPwA="`), &got), fault.SegmentDamage, "five bytes are read as %v", got)
}
