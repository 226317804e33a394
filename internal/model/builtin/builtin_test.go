package builtin_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/model/builtin"
)

func TestNamesAndTermsByRule(t *testing.T) {
	text := `Mother-to-child transmission (MTCT) is the main cause of HIV-1 infection in children. The Journal of Mathematical Physics is published by the American Institute of Physics. Shortly after, Lothair II's mother met Ermengarde of Tours. In "The Lord of the Rings" the ring is destroyed. The iPhone uses H5N1 data.`
	got := map[string]string{}
	for _, e := range builtin.FindEntities(text) {
		got[e.Name] = e.Description
	}
	for _, want := range []string{"MTCT", "Mother-to-child transmission", "HIV-1", "Journal of Mathematical Physics",
		"American Institute of Physics", "Lothair II", "Ermengarde of Tours", "iPhone", "H5N1"} {
		d, ok := got[want]
		assert.True(t, ok && d != "", "%q is missing or not described in %v", want, got)
	}
	for _, bad := range []string{"The", "Shortly", "In", "Lothair II's"} {
		_, ok := got[bad]
		assert.False(t, ok, "%q is no name", bad)
	}
	d := got["American Institute of Physics"]
	assert.True(t, strings.HasPrefix(d, "The Journal of") && !strings.Contains(d, "Lothair"), "description %q", d)
}

func cosine(a, b []float32) float64 {
	var s float64
	for i := range a {
		s += float64(a[i]) * float64(b[i])
	}
	return s
}

func TestVectorsAreUnitDeterministicAndNearWhatSharesWords(t *testing.T) {
	embedder := builtin.Embedder{}
	for _, s := range []string{"Niels Bohr was a physicist", "the", "!!!", "", "é"} {
		vector := embedder.Vector(s)
		n := cosine(vector, vector)
		assert.True(t, math.Abs(n-1) <= 1e-5, "%q has length %g", s, n)
		assert.True(t, cosine(vector, embedder.Vector(s)) >= 1-1e-6, "%q has two vectors", s)
	}
	q := embedder.Vector("physicists of Denmark")
	if near, far := cosine(q, embedder.Vector("A Danish physicist from Denmark")), cosine(q,
		embedder.Vector("cooking with copper pans")); near < far+0.2 {
		t.Errorf("near %.3f, far %.3f", near, far)
	}
}

func TestASummaryKeepsItsLimitAndItsOrder(t *testing.T) {
	long := strings.Repeat(
		"The bridge spans the river. ",
		3,
	) + "The bridge was built in 1890 of river stone. Nothing else is known about cats."
	s := builtin.Summarize(long, 80)
	assert.True(t, len([]rune(s)) <= 80 && strings.Count(s, "The bridge spans the river.") == 1, "%q", s)
}
