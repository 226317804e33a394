package retrieve

import (
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/liveset"
)

// KeptFrameBytes is what unpacked frames hold.
func KeptFrameBytes() int {
	unpacked.mu.Lock()
	defer unpacked.mu.Unlock()
	return unpacked.bytes
}

// FramesUnderWay is how many frames are being read.
func FramesUnderWay() int {
	unpacked.mu.Lock()
	defer unpacked.mu.Unlock()
	return len(unpacked.reading)
}

// KeepFrames bounds what unpacked frames hold until the function that it gives is called.
func KeepFrames(limit int) func() {
	unpacked.mu.Lock()
	defer unpacked.mu.Unlock()
	was := unpacked.limit
	unpacked.limit = limit
	return func() {
		unpacked.mu.Lock()
		defer unpacked.mu.Unlock()
		unpacked.limit = was
	}
}

// Composed is a generation that answers from many segments, with the stores and texts of another, which closes them.
func Composed(of *Generation, set *liveset.Set, chunks, classes lexical.Dead) (*Generation, error) {
	generation := &Generation{
		Manifest: of.Manifest, Spec: of.Spec, Release: of.Release, IDF: of.IDF,
		art: of.art, texts: of.texts, docs: of.docs, extracts: of.extracts,
		memories: memories{cache: of.memories.cache},
	}
	generation.refs.Store(1)
	return generation, generation.setLive(set, chunks, classes, func() {})
}
