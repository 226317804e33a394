package retrieve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

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
	assert.Equal(t, signals.Confidence(text.LanguageOf("en")), result.Confidence)
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

// asked is a question that was asked of a corpus: testdata/confidence.
type asked struct {
	Corpus, Language, Kind string
	Signals                retrieve.Signals
	Right                  bool // one of the first five chunks is of a gold passage

	weight float64
}

// sample reads a part of the cases that the coefficients were fitted to, each with its weight: corpora weigh the same,
// and in each the kinds as docs/explain/retrieval.md (Confidence) says.
func sample(t *testing.T, file string) (cases []asked) {
	t.Helper()
	raw, err := os.ReadFile("testdata/confidence/" + file)
	require.NoError(t, err)
	count := map[[2]string]float64{}
	for line := range bytes.Lines(raw) {
		one := asked{Language: "en"}
		require.NoError(t, json.Unmarshal(line, &one))
		cases = append(cases, one)
		count[[2]string{one.Corpus, one.Kind}]++
	}
	mix, total := map[string]float64{"own": 0.6, "removed": 0.15, "foreign": 0.2, "noise": 0.05}, map[string]float64{}
	for of := range count {
		total[of[0]] += mix[of[1]]
	}
	for i, one := range cases {
		cases[i].weight = mix[one.Kind] / count[[2]string{one.Corpus, one.Kind}] / total[one.Corpus]
	}
	return cases
}

func (a asked) truth() float64 {
	if a.Right {
		return 1
	}
	return 0
}

// measure returns the mean distance of chances from the truth in ten bins (ECE), the share of pairs of a right and a
// wrong case that they order (AUC), and their Brier score as a share of that of the mean.
func measure(cases []asked, chance func(asked) float64) (distance, ordered, brier float64) {
	var said, was [10]float64
	right, total, pairs := 0.0, 0.0, 0.0
	for _, one := range cases {
		reported := chance(one)
		bin := min(9, int(10*reported))
		said[bin] += one.weight * reported
		was[bin] += one.weight * one.truth()
		brier += one.weight * (reported - one.truth()) * (reported - one.truth())
		right, total = right+one.weight*one.truth(), total+one.weight
		for _, other := range cases {
			if !one.Right || other.Right {
				continue
			}
			pair, below := one.weight*other.weight, chance(other)
			if pairs += pair; below < reported {
				ordered += pair
			} else if below == reported {
				ordered += pair / 2
			}
		}
	}
	for bin := range said {
		distance += math.Abs(said[bin]-was[bin]) / total
	}
	mean := right / total
	return distance, ordered / pairs, brier / total / (mean * (1 - mean))
}

// Promises: 106.
func TestConfidenceCanBeBelievedOnTheSample(t *testing.T) {
	cases := sample(t, "cases.jsonl")
	distance, ordered, brier := measure(cases, func(one asked) float64 {
		return *one.Signals.Confidence(text.LanguageOf(one.Language))
	})
	assert.True(t, len(cases) == 375 && distance <= 0.08 && ordered >= 0.85 && brier <= 0.7,
		"%d cases: distance from the truth %.3f, AUC %.3f, Brier %.3f of the mean's", len(cases), distance, ordered, brier)
}

// fit returns the coefficients of a logistic model of cases (Newton, with a little of a ridge).
func fit(cases []asked, features int) []float64 {
	const ridge = 1e-4
	out, total := make([]float64, features+1), 0.0
	for _, one := range cases {
		total += one.weight / float64(len(cases))
	}
	for range 50 {
		hessian, gradient := mat.NewDense(len(out), len(out), nil), mat.NewVecDense(len(out), nil)
		for _, one := range cases {
			x := append([]float64{1}, one.Signals.Features()[:features]...)
			chance, weight := retrieve.ComputeChance(out, one.Signals), one.weight/total
			for i := range x {
				gradient.SetVec(i, gradient.AtVec(i)+weight*(one.truth()-chance)*x[i])
				for j := range x {
					hessian.Set(i, j, hessian.At(i, j)+weight*chance*(1-chance)*x[i]*x[j])
				}
			}
		}
		for i := range out {
			hessian.Set(i, i, hessian.At(i, i)+ridge*float64(len(cases)))
			gradient.SetVec(i, gradient.AtVec(i)-ridge*float64(len(cases))*out[i])
		}
		var step mat.VecDense
		if err := step.SolveVec(hessian, gradient); err != nil {
			panic(err)
		}
		for i := range out {
			out[i] += step.AtVec(i)
		}
	}
	return out
}

// The coefficients of languages without stems are those that fit gives, and a corpus is judged well by what was fitted
// to the others.
// Promises: 106.
func TestConfidenceIsFittedByHowWordsAreCut(t *testing.T) {
	cases := sample(t, "languages.jsonl")
	for _, group := range []string{"und", "ja th zh"} {
		var of []asked
		corpora := map[string]bool{}
		for _, one := range cases {
			if strings.Contains(group, one.Language) {
				of, corpora[one.Corpus] = append(of, one), true
			}
		}
		bySimilarity, byWords := retrieve.Coefficients(text.LanguageOf(strings.Fields(group)[0]))
		assert.InDeltaSlice(t, bySimilarity, fit(of, 5), 0.002, "%s: %.3f", group, fit(of, 5))
		assert.InDeltaSlice(t, byWords, fit(of, 4), 0.002, "%s: %.3f", group, fit(of, 4))
		for corpus := range corpora {
			var others, held []asked
			for _, one := range of {
				if one.Corpus == corpus {
					held = append(held, one)
				} else {
					others = append(others, one)
				}
			}
			fitted := fit(others, 5)
			distance, ordered, brier := measure(held,
				func(one asked) float64 { return retrieve.ComputeChance(fitted, one.Signals) })
			assert.True(t, distance < 0.15 && ordered > 0.85 && brier < 0.7, "%s, fitted to the others: ECE %.3f, AUC %.3f, "+
				"Brier %.3f of the mean's", corpus, distance, ordered, brier)
		}
	}
	assert.Nil(t, (retrieve.Signals{Known: 1}).Confidence(text.LanguageOf("xx")),
		"nothing was fitted to a language without rules")
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
