package spectral_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

// sample returns three chunks and a summary: an edge joins the first two, another one the summary and the second.
func sample() spectral.Content {
	return spectral.Content{
		Chunks: []core.ID{{1}, {1, 1}, {9}}, Summaries: 1, Starts: []uint64{0, 1, 3, 3, 4},
		To: []uint32{1, 0, 3, 1}, Weights: []float32{0.5, 0.5, 0.25, 0.25}, Degrees: []float32{0.5, 0.5, 0},
		Pairs: 2, Vectors: []float32{0.7, 0.7, 0, 0.7, -0.7, 0},
	}
}

func write(t testing.TB, content spectral.Content) []byte {
	var out bytes.Buffer
	require.NoError(t, content.Write(&out))
	return out.Bytes()
}

func open(t testing.TB, raw []byte) (*spectral.File, error) {
	return scratchtest.Open(t, raw, spectral.Open)
}

func TestWhatIsWrittenIsReadAndEqualContentIsEqualBytes(t *testing.T) {
	raw := write(t, sample())
	file := musttest.Get(open(t, raw))(t)
	assert.True(t, reflect.DeepEqual(file.Content, sample()) && bytes.Equal(write(t, file.Content), raw),
		"%+v", file.Content)
	to, weights := file.Edges(1)
	assert.True(t, reflect.DeepEqual(to, []uint32{0, 3}) && weights[1] == 0.25 && file.MaxWeight() == 0.5 &&
		reflect.DeepEqual(file.Vector(1), []float32{0.7, -0.7, 0}), "edges %v %v, heaviest %v", to, weights, file.MaxWeight())
	empty, err := open(t, write(t, spectral.Content{Starts: []uint64{0}}))
	assert.True(t, err == nil && len(empty.Chunks) == 0 && empty.MaxWeight() == 0, "of nothing: %+v (%v)", empty, err)
}

// misfits returns contents of which one thing does not fit the others.
func misfits() map[string]spectral.Content {
	out := map[string]spectral.Content{}
	for name, change := range map[string]func(*spectral.Content){
		"a start too few":          func(c *spectral.Content) { c.Starts = c.Starts[:4] },
		"a weight too few":         func(c *spectral.Content) { c.Weights = c.Weights[:3] },
		"a weight that is none":    func(c *spectral.Content) { c.Weights[0] = float32(math.NaN()) },
		"an endless weight":        func(c *spectral.Content) { c.Weights[0] = float32(math.Inf(1)) },
		"a degree too few":         func(c *spectral.Content) { c.Degrees = c.Degrees[:2] },
		"a degree that is none":    func(c *spectral.Content) { c.Degrees[0] = float32(math.NaN()) },
		"a component too few":      func(c *spectral.Content) { c.Vectors = c.Vectors[:5] },
		"a component that is none": func(c *spectral.Content) { c.Vectors[0] = float32(math.Inf(-1)) },
		"another number of pairs":  func(c *spectral.Content) { c.Pairs = 3 },
		"fewer than no pairs":      func(c *spectral.Content) { c.Pairs = -1 },
		"fewer than no summaries":  func(c *spectral.Content) { c.Summaries = -1 },
		"many summaries":           func(c *spectral.Content) { c.Summaries = math.MaxInt },
	} {
		content := sample()
		change(&content)
		out[name] = content
	}
	return out
}

// Promises: 95.
func TestContentThatDoesNotFitIsNotWritten(t *testing.T) {
	for name, content := range misfits() {
		musttest.Code(t, content.Write(&bytes.Buffer{}), fault.Internal, "%s is written", name)
	}
}
