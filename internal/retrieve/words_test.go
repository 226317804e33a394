package retrieve_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// openLines opens a generation of one document a line, named by a letter, each about one person.
func openLines(t *testing.T, lines []string) opened {
	t.Helper()
	var documents []retrievetest.Document
	for i, line := range lines {
		key := fmt.Sprintf("%02d", i)
		documents = append(documents, retrievetest.Document{
			Key: key, Title: key, Chunks: []retrievetest.Chunk{{Text: line, Entities: []string{"Person " + key}}},
		})
	}
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "sample", documents, retrievetest.Options{})
	generation, err := openBuilt(t.Context(), stores, built)
	require.NoError(t, err)
	t.Cleanup(generation.Close)
	return opened{stores, built, generation}
}

// Promises: 73, 74.
func TestAQuestionFindsWhatIsWrittenInAnotherWay(t *testing.T) {
	cases := []struct {
		line      string
		questions []string
	}{
		{"The C team meets on Mondays.", []string{"Who is in the C team?", "C"}},
		{"The C++ team meets on Mondays.", []string{"Who is in the C++ team?", "c++"}},
		{"The C# team meets on Mondays.", []string{"the C# team", "C♯"}},
		{"The .NET team meets on Mondays.", []string{"Who is in the .NET team?", ".net"}},
		{"The net team meets on Mondays.", []string{"Who is in the net team?"}},
		{"The Objective-C team meets on Mondays.", []string{"the Objective-C team", "objective-c"}},
		{"The AT&T team meets on Mondays.", []string{"AT&T", "Who is in the at&t team?"}},
		{"The treasury of He\u0301le\u0300ne is in Zürich.", []string{"Hélène", "helene", "ZURICH"}},
		{"The sec\u00adre\u00adtary keeps the oﬃcial seal.", []string{"secretary", "the official seal"}},
		{"Call getUserName and read MAX_RETRY_COUNT.", []string{"getUserName", "user name", "max_retry_count", "retry count"}},
		{"A resume of the harbour.", nil},
		{"A résumé of the harbour.", []string{"résumé", "RÉSUMÉ"}},
		{"كتب مُحَمَّدٌ الرسالة إلى שָׁלוֹם", []string{"محمد", "שלום"}},
	}
	var lines []string
	for _, c := range cases {
		lines = append(lines, c.line)
	}
	o := openLines(t, lines)
	for i, c := range cases {
		for _, question := range c.questions {
			for _, method := range []string{retrieve.Hybrid, retrieve.BM25} {
				query := o.query(t, method, question)
				query.ChunkVector = query.Vector
				if got := o.keys(o.run(t, query)); len(got) == 0 || got[0] != fmt.Sprintf("%02d", i) {
					t.Errorf("%s: %q finds %v, not first %02d: %s", method, question, got, i, c.line)
				}
			}
		}
	}
	bare := o.keys(o.run(t, o.query(t, retrieve.BM25, "resume")))
	assert.True(t, len(bare) >= 2 && bare[0] == "10" && bare[1] == "11", "without accents %v are found", bare)
}

// Promises: 74.
func TestAQuestionWithoutAWordMatchesNothing(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, method := range methods.Registry().ListPlain() {
		for _, question := range []string{"???", " … !", "+#*", "\u200b"} {
			query := o.query(t, method, question)
			query.MinSim = -1
			if result := o.run(t, query); result.Reason != retrieve.NoMatch || len(result.Chunks) > 0 {
				t.Errorf("%s: %q has %d chunks, reason %q", method, question, len(result.Chunks), result.Reason)
			}
		}
	}
}

// A question with accents that nothing in the index has is no less sure than one without.
// Promises: 74.
func TestConfidenceDoesNotCountAccents(t *testing.T) {
	o := openLines(t, []string{"The naive painter of Zurich.", "The harbour of Bergen.", "The hall of Oslo."})
	with, without := o.run(t, o.query(t, retrieve.Hybrid, "naïve Zürich")), o.run(t, o.query(t, retrieve.Hybrid, "naive Zurich"))
	assert.True(t, *with.Confidence == *without.Confidence,
		"%v with accents, %v without", *with.Confidence, *without.Confidence)
}
