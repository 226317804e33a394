package builtin_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
)

func TestNamesAndTermsByRule(t *testing.T) {
	text := `Mother-to-child transmission (MTCT) is the main cause of HIV-1 infection in children. The Journal of Mathematical Physics is published by the American Institute of Physics. Shortly after, Lothair II's mother met Ermengarde of Tours. In "The Lord of the Rings" the ring is destroyed. The iPhone uses H5N1 data.`
	got := map[string]string{}
	for _, e := range builtin.Entities(text) {
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
	if d := got["American Institute of Physics"]; !strings.HasPrefix(d, "The Journal of") ||
		strings.Contains(d, "Lothair") {
		t.Errorf("description %q", d)
	}
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
		assert.False(t, math.Abs(n-1) > 1e-5, "%q has length %g", s, n)
		assert.False(t, cosine(vector, embedder.Vector(s)) < 1-1e-6, "%q has two vectors", s)
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
	s := builtin.Summary(long, 80)
	assert.True(t, len([]rune(s)) <= 80 && strings.Count(s, "The bridge spans the river.") == 1, "%q", s)
}

func TestTheBestSentenceIsQuotedOrNone(t *testing.T) {
	context := "The **pilot** boat leaves 2**3 times **a day**.\n\n2018\n\nThe budget of 2018 was small. " + strings.Repeat("Words follow words and ", 60) +
		"the harbour opened in spring.\n\n" +
		"| what | when | and a cell that is so long that the line looks like a wrapped one |\n" +
		"| the ferry sails to the island | at noon, unless there is ice, and then it does not sail at all |\n"
	for question, want := range map[string]string{
		"Who won the 2018 football world cup?": "",
		"How small was the budget of 2018?":    "The budget of 2018 was small.",
		"How often does the pilot boat leave?": "The pilot boat leaves 2**3 times a day.",
		"When does the ferry sail to the island?": "| the ferry sails to the island | at noon, unless there is ice, " +
			"and then it does not sail at all |",
	} {
		reply, err := builtin.Chat{}.Complete(t.Context(), model.Call{Task: model.Answer, Question: question, Input: context})
		assert.True(t, err == nil && reply.Text == want, "%s: %q %v", question, reply.Text, err)
	}
	reply, _ := builtin.Chat{}.Complete(t.Context(), model.Call{
		Task: model.Answer, Question: "Which harbour opened in spring?", Input: context,
	})
	if n := len([]rune(reply.Text)); n > 402 || !strings.HasSuffix(reply.Text, " …") {
		t.Errorf("%d code points: %q", n, reply.Text)
	}
}
