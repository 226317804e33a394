package themes_test

import (
	"bytes"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/gem/themes"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

func sample() themes.File {
	return themes.File{
		Version: themes.Version, Embedder: "hashing-2", Dimension: 2, Nodes: 4, Graph: "matrix",
		Values: []float64{1, 0.36617923}, Residuals: []float64{1e-15, 2e-9}, Distinct: 2.07, Estimated: 2,
		Themes: []themes.Theme{{Lambda: 1, Beta: 1, Summary: "Polar ships <and> their crews.", Tokens: 7,
			Members:   []themes.Member{{Chunk: core.ID{2}.String(), Loading: 0.52}, {Chunk: core.ID{1}.String(), Loading: 0.5}},
			Questions: []themes.Question{{Text: "Who sailed?", Vector: themes.Vector{0.6, -0.8}}}}},
	}
}

func TestWhatIsWrittenIsReadAndEqualThemesAreEqualBytes(t *testing.T) {
	raw := musttest.Get(sample().Encode())(t)
	again, err := sample().Encode()
	require.True(t, err == nil && bytes.Equal(raw, again), "equal themes have other bytes (%v)", err)
	got, err := themes.Open(scratchtest.WriteFile(t, raw))
	assert.True(t, err == nil && reflect.DeepEqual(*got, sample()), "read %+v (%v)", got, err)
	assert.Equal(t, core.ID{2}, got.Themes[0].Members[0].ID(), "the first member")
}

func TestThemesThatDoNotFitAreNeitherWrittenNorRead(t *testing.T) {
	for name, spoil := range map[string]func(*themes.File){
		"no embedder":               func(f *themes.File) { f.Embedder = "" },
		"a residual is missing":     func(f *themes.File) { f.Residuals = f.Residuals[:1] },
		"a theme without members":   func(f *themes.File) { f.Themes[0].Members = nil },
		"a member that is no chunk": func(f *themes.File) { f.Themes[0].Members[0].Chunk = "x" },
		"a member twice":            func(f *themes.File) { f.Themes[0].Members[0] = f.Themes[0].Members[1] },
		"another dimension":         func(f *themes.File) { f.Themes[0].Questions[0].Vector = themes.Vector{1} },
		"no finite number":          func(f *themes.File) { f.Themes[0].Questions[0].Vector = themes.Vector{1, float32(math.Inf(1))} },
	} {
		f := sample()
		spoil(&f)
		musttest.Code(t, musttest.Err(f.Encode()), fault.Internal, "%s: written, or refused by", name)
	}
	raw := musttest.Get(sample().Encode())(t)
	for name, c := range map[string]struct {
		raw  string
		code fault.Code
	}{
		"cut off":            {string(raw[:len(raw)/2]), fault.SegmentDamage},
		"another version":    {strings.Replace(string(raw), `"version":1`, `"version":2`, 1), fault.FormatUnknown},
		"a vector cut off":   {strings.Replace(string(raw), `"vector":"mpk`, `"vector":"k`, 1), fault.SegmentDamage},
		"another dimension":  {strings.Replace(string(raw), `"dimension":2`, `"dimension":3`, 1), fault.SegmentDamage},
		"a member is no hex": {strings.Replace(string(raw), `"chunk":"02`, `"chunk":"zz`, 1), fault.SegmentDamage},
	} {
		require.True(t, c.raw != string(raw), "%s: nothing was spoiled in %s", name, raw)
		musttest.Code(t, musttest.Err(themes.Decode([]byte(c.raw))), c.code, "%s: read, or refused by", name)
	}
	musttest.Refuse(themes.Open(filepath.Join(t.TempDir(), "none")))(t, fault.SegmentDamage)
}
