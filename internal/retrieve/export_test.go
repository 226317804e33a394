package retrieve

import (
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/liveset"
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

// Composed returns a generation that answers from many segments, with the stores and texts of another, which closes
// them.
func Composed(of *Generation, set *liveset.Set, chunks, classes lexical.Dead) (*Generation, error) {
	generation := &Generation{
		Manifest: of.Manifest, Spec: of.Spec, Release: of.Release, IDF: of.IDF,
		art: of.art, texts: of.texts, docs: of.docs, extracts: of.extracts,
		memories: memories{cache: of.memories.cache},
	}
	generation.refs.Store(1)
	return generation, generation.setLive(set, chunks, classes, func() {})
}

// Coefficients returns what confidence in a language is made of.
func Coefficients(language *text.Language) (bySimilarity, byWords []float64) {
	of := coefficientsOf(language)
	return of.bySimilarity, of.byWords
}
