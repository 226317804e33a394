// Package confidence computes the calibrated chance that what a query found says what was asked for
// (docs/explain/retrieval.md, Confidence).
package confidence

import (
	"math"

	"github.com/unweaver/unweaver/internal/text"
)

// Signals are what a query knows of how well its result fits the question. They mean the same in every index, unlike
// scores, and come from the lists and the first chunks of hybrid (docs/explain/retrieval.md, Confidence).
type Signals struct {
	Known    float64 `json:"known" doc:"share of the question's idf whose terms are indexed"`
	Together float64 `json:"together" doc:"share of the question's idf that the first five chunks cover"`
	Lead     float64 `json:"lead" doc:"lead of the best BM25 score over the tenth, as a share of the best"`
	Terms    int     `json:"terms" doc:"different terms of the question"`
	// Similarity is the best of a class by the built-in embedder.
	Similarity *float64 `json:"similarity" doc:"of the most similar class; null unless the embedder is built in"`
}

// Features returns what the chance is made of, in the order of the coefficients; a model by words alone leaves the last
// one out.
func (s Signals) Features() []float64 {
	similarity := 0.0
	if s.Similarity != nil {
		similarity = *s.Similarity
	}
	return []float64{s.Known, s.Together, s.Lead, math.Log(1 + float64(s.Terms)), similarity}
}

// coefficients of the chance: the constant, then the features. byWords is without similarity.
type coefficients struct{ bySimilarity, byWords []float64 }

// Coefficients by how a language is cut into words (docs/explain/retrieval.md, Confidence): with stems, fitted to
// English; into runs of characters, fitted to Japanese, Thai and Chinese; into plain words, fitted to Arabic, Korean,
// Russian and Turkish.
var (
	ofStems = coefficients{
		bySimilarity: []float64{-10.142, 3.188, 3.275, 3.829, 1.106, 3.364},
		byWords:      []float64{-10.375, 4.013, 3.633, 4.716, 1.131},
	}
	ofRuns = coefficients{
		bySimilarity: []float64{-6.177, 7.642, 0.302, 9.618, -1.674, 5.009},
		byWords:      []float64{-6.387, 9.262, 0.649, 10.556, -1.876},
	}
	ofPlainWords = coefficients{
		bySimilarity: []float64{-10.733, 1.353, 3.560, 3.723, 1.777, 11.101},
		byWords:      []float64{-11.457, 2.226, 4.655, 5.375, 2.020},
	}
)

// coefficientsOf returns those of a language; nil: nothing was fitted to it.
func coefficientsOf(language *text.Language) *coefficients {
	switch code := language.Code(); {
	case code == text.Undetermined:
		return &ofPlainWords
	case !text.IsKnown(code):
		return nil
	case language.HasStems():
		return &ofStems
	}
	return &ofRuns
}

// readable is the share of the question that must be words of the index before words alone can tell anything: an
// embedder that reads other languages finds what shares no word.
const readable = 0.5

// Chance returns the calibrated chance in a language; nil where it is not known.
func (s Signals) Chance(language *text.Language) *float64 {
	of := coefficientsOf(language)
	if of == nil || s.Similarity == nil && s.Known < readable {
		return nil
	}
	chosen := of.bySimilarity
	if s.Similarity == nil {
		chosen = of.byWords
	}
	chance := ComputeChance(chosen, s)
	return &chance
}

// ComputeChance returns the chance by a logistic model: the constant first, then as many of the features as there are
// coefficients.
func ComputeChance(coefficients []float64, signals Signals) float64 {
	z := coefficients[0]
	for i, feature := range signals.Features()[:len(coefficients)-1] {
		z += coefficients[1+i] * feature
	}
	return 1 / (1 + math.Exp(-z))
}
