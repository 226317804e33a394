package confidence_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/unweaver/unweaver/internal/retrieve/confidence"
	"github.com/unweaver/unweaver/internal/text"
)

// asked is a question that was asked of a corpus: testdata.
type asked struct {
	Corpus, Language, Kind string
	Signals                confidence.Signals
	Right                  bool // one of the first five chunks is of a gold passage

	weight float64
}

// sample reads a part of the cases that the coefficients were fitted to, each with its weight: corpora weigh the same,
// and in each the kinds weigh as mix says.
func sample(t *testing.T, file string) (cases []asked) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
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
		return *one.Signals.Chance(text.LanguageOf(one.Language))
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
			chance, weight := confidence.ComputeChance(out, one.Signals), one.weight/total
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
		bySimilarity, byWords := confidence.Coefficients(text.LanguageOf(strings.Fields(group)[0]))
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
				func(one asked) float64 { return confidence.ComputeChance(fitted, one.Signals) })
			assert.True(t, distance < 0.15 && ordered > 0.85 && brier < 0.7, "%s, fitted to the others: ECE %.3f, AUC %.3f, "+
				"Brier %.3f of the mean's", corpus, distance, ordered, brier)
		}
	}
	assert.Nil(t, (confidence.Signals{Known: 1}).Chance(text.LanguageOf("xx")),
		"nothing was fitted to a language without rules")
}
