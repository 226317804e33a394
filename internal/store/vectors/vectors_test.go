package vectors_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
)

type able struct {
	vectors.Store
	sealed []string
}

func (a *able) Seal(_ context.Context, collection string) error {
	a.sealed = append(a.sealed, collection)
	return nil
}

// counting is a decorator: embedding the port hides what the store beneath can do beyond it.
type counting struct {
	vectors.Store
	calls int
}

func (c *counting) Ping(ctx context.Context) error { c.calls++; return c.Store.Ping(ctx) }
func (c *counting) Unwrap() vectors.Store          { return c.Store }

// closed is a decorator that must not be passed by.
type closed struct{ vectors.Store }

func TestCapabilitiesSurviveDecorators(t *testing.T) {
	beneath := &able{Store: vectorsmemory.New()}
	var store vectors.Store = &counting{Store: &counting{Store: beneath}}
	if _, ok := store.(vectors.Sealer); ok {
		t.Fatal("the decorator has the capability itself, and proves nothing")
	}
	sealer, ok := vectors.As[vectors.Sealer](store)
	require.True(t, ok, "the capability is lost")
	err := sealer.Seal(t.Context(), "c")
	assert.True(t, err == nil && len(beneath.sealed) == 1, "sealed %v, %v", beneath.sealed, err)
	_, ok = vectors.As[vectors.Importer](store)
	assert.True(t, !ok, "a capability that nothing has was found")
	_, ok = vectors.As[vectors.Sealer](closed{beneath})
	assert.True(t, !ok, "a decorator without Unwrap was passed by")
	_, ok = vectors.As[vectors.Sealer](nil)
	assert.True(t, !ok, "no store has a capability")
	outer, ok := vectors.As[*counting](store)
	assert.True(t, ok && outer == store, "the outermost store that fits was not taken")
}

func TestVectorsThatWouldPoisonASearchAreRefused(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, c := range map[string]struct {
		vector []float32
		want   fault.Code
	}{
		"a good one": {[]float32{0.6, 0.8}, ""}, "too short": {[]float32{1}, fault.DimensionChanged},
		"too long": {[]float32{1, 0, 0}, fault.DimensionChanged}, "none": {nil, fault.DimensionChanged},
		"NaN": {[]float32{nan, 1}, fault.BadVector}, "infinity": {[]float32{inf, 1}, fault.BadVector},
		"of length zero": {[]float32{0, 0}, fault.BadVector},
	} {
		assert.Equal(t, c.want, fault.CodeOf(vectors.Check(c.vector, 2, "row 7")), "%s", name)
	}
}

func TestNormaliseGivesUnitLengthAndLeavesZeroAlone(t *testing.T) {
	vector := []float32{3, 4}
	vectors.Normalise(vector)
	assert.True(t, vector[0] == 0.6 && vector[1] == 0.8, "got %v", vector)
	zero := []float32{0, 0}
	vectors.Normalise(zero)
	assert.True(t, zero[0] == 0 && zero[1] == 0, "zero became %v", zero)
}
