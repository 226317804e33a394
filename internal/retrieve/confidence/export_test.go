package confidence

import "github.com/unweaver/unweaver/internal/text"

// Coefficients returns what confidence in a language is made of.
func Coefficients(language *text.Language) (bySimilarity, byWords []float64) {
	of := coefficientsOf(language)
	return of.bySimilarity, of.byWords
}
