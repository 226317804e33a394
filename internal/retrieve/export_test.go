package retrieve

import (
	"github.com/unweaver/unweaver/internal/text"
)

// KeptFrameBytes returns how many bytes unpacked frames hold.
func KeptFrameBytes() int {
	bytes, _ := unpacked.CountHeld()
	return bytes
}

// FramesUnderWay returns how many frames are being read.
func FramesUnderWay() int {
	_, underWay := unpacked.CountHeld()
	return underWay
}

// KeepFrames bounds what unpacked frames hold until the function that it gives is called.
func KeepFrames(limit int) func() {
	was := unpacked.SetLimit(limit)
	return func() { unpacked.SetLimit(was) }
}

// Coefficients returns what confidence in a language is made of.
func Coefficients(language *text.Language) (bySimilarity, byWords []float64) {
	of := coefficientsOf(language)
	return of.bySimilarity, of.byWords
}
