package retrieve_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/text"
)

func TestConfidenceIsHigherTheMoreOfTheQuestionIsFound(t *testing.T) {
	o := open(t, retrievetest.Options{})
	last := 1.0
	for _, question := range []string{
		"Who reached the South Pole first?",
		"Who reached the South Pole by balloon in summer?",
		"cricket chess croquet hockey pole",
	} {
		result := o.Run(t, o.Query(t, "hybrid", question))
		require.True(t, result.Confidence != nil && *result.Confidence < last && *result.Confidence > 0,
			"%q: %v after %.3f", question, result.Confidence, last)
		last = *result.Confidence
	}
	assert.True(t, last <= 0.2, "one word of five fits, and confidence is %.3f", last)
}

func TestConfidenceIsMadeOfTheSignalsThatAreExplained(t *testing.T) {
	o := open(t, retrievetest.Options{})
	result := o.Run(t, o.Query(t, "hybrid", "Which ship sailed to Mars?")) // "mars" is not indexed
	signals := result.Explain.(retrieve.HybridExplain).Signals
	require.True(t, signals.Terms == 3 && signals.Known > 0 && signals.Known < 1 && signals.Together == signals.Known &&
		signals.Lead == 1 && signals.Similarity != nil && *signals.Similarity > 0, "%+v", signals)
	assert.Equal(t, signals.Chance(text.LanguageOf("en")), result.Confidence)
}

func TestConfidenceIsNotToldWhereItIsNotKnown(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, method := range retrievetest.ListPlain() {
		result := o.Run(t, o.Query(t, method, "Who reached the South Pole?"))
		assert.Equal(t, (method == retrieve.Hybrid), result.Confidence != nil, "%s", method)
	}
	degraded := o.Query(t, "hybrid", "Who reached the South Pole?")
	degraded.Vector = nil
	byWords := o.Run(t, degraded)
	assert.True(t, byWords.Confidence != nil && byWords.Explain.(retrieve.HybridExplain).Signals.Similarity == nil,
		"without vectors, words can tell: %v", byWords.Confidence)
	foreign := o.Query(t, "hybrid", "Hvem nådde Sydpolen først fra Norway?")
	foreign.Vector = nil
	result := o.Run(t, foreign)
	assert.True(t, result.Confidence == nil, "most words are unknown, and words alone tell %v", result.Confidence)
}

func TestWhereAnotherEmbedderServedItsSimilaritiesDoNotCount(t *testing.T) {
	o := open(t, retrievetest.Options{Edit: func(manifest *core.Manifest) { manifest.Class.Provider = "openai" }})
	query := o.Query(t, "hybrid", "Who reached the South Pole first?")
	result := o.Run(t, query)
	assert.True(t, result.Confidence != nil && result.Explain.(retrieve.HybridExplain).Signals.Similarity == nil,
		"%v", result.Confidence)
	result = o.Run(t, o.Query(t, "hybrid", "zzzq wxyv"))
	assert.True(t, result.Reason == "", "how similar is enough is not known of it, and yet %s", result.Reason)
}

// Promises: 107.
func TestWordsThatMeanNothingMatchNothingByDefault(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, method := range retrievetest.ListPlain() {
		query := o.Query(t, method, "asdfghjkl qwertyuiop")
		query.MinSim = 0
		result := o.Run(t, query)
		assert.True(t, result.Reason == retrieve.NoMatch && len(result.Chunks) == 0, "%s: %+v", method, result)
		query = o.Query(t, method, "Amundsens expedition") // no word of it is indexed, but it looks like one
		query.MinSim = 0
		assert.True(t, method == retrieve.BM25 || o.Run(t, query).Reason == "",
			"%s: a word that is nearly one of the index is no match", method)
	}
	query := o.Query(t, "hybrid", "asdfghjkl qwertyuiop")
	query.MinSim = -1
	assert.True(t, o.Run(t, query).Reason == "", "min_similarity -1 lets everything match")
}

// openLines opens a generation of one document a line, named by a letter, each about one person.
func openLines(t *testing.T, lines []string) retrievetest.Opened {
	t.Helper()
	var documents []retrievetest.Document
	for i, line := range lines {
		key := fmt.Sprintf("%02d", i)
		documents = append(documents, retrievetest.Document{
			Key: key, Title: key, Chunks: []retrievetest.Chunk{{Text: line, Entities: []string{"Person " + key}}},
		})
	}
	return retrievetest.Open(t, documents, retrievetest.Options{})
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
				query := o.Query(t, method, question)
				query.ChunkVector = query.Vector
				if got := o.Keys(o.Run(t, query)); len(got) == 0 || got[0] != fmt.Sprintf("%02d", i) {
					t.Errorf("%s: %q finds %v, not first %02d: %s", method, question, got, i, c.line)
				}
			}
		}
	}
	bare := o.Keys(o.Run(t, o.Query(t, retrieve.BM25, "resume")))
	assert.True(t, len(bare) >= 2 && bare[0] == "10" && bare[1] == "11", "without accents %v are found", bare)
}

// Promises: 74.
func TestAQuestionWithoutAWordMatchesNothing(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, method := range retrievetest.ListPlain() {
		for _, question := range []string{"???", " … !", "+#*", "\u200b"} {
			query := o.Query(t, method, question)
			query.MinSim = -1
			if result := o.Run(t, query); result.Reason != retrieve.NoMatch || len(result.Chunks) > 0 {
				t.Errorf("%s: %q has %d chunks, reason %q", method, question, len(result.Chunks), result.Reason)
			}
		}
	}
}

// A question with accents that nothing in the index has is no less sure than one without.
// Promises: 74.
func TestConfidenceDoesNotCountAccents(t *testing.T) {
	o := openLines(t, []string{"The naive painter of Zurich.", "The harbour of Bergen.", "The hall of Oslo."})
	with, without := o.Run(t, o.Query(t, retrieve.Hybrid, "naïve Zürich")), o.Run(t, o.Query(t, retrieve.Hybrid, "naive Zurich"))
	assert.Equal(t, *without.Confidence, *with.Confidence)
}
