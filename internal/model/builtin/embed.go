package builtin

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/text"
)

// Dimension of the hashing embedder.
const Dimension = 1024

const (
	slots      = 4   // every feature goes to four slots with four signs
	gramWeight = 0.6 // of the word's weight, over the root of the number of grams
)

// Embedder hashes words and their character 4-grams into a unit vector. IDF weighs words; nil weighs all 1.
type Embedder struct {
	IDF      func(stem string) float64
	Language string // of the texts, as text.In has it
}

var _ model.Embedder = Embedder{}

// WithIDF implements model.Weighable.
func (e Embedder) WithIDF(weight func(string) float64) model.Embedder {
	return Embedder{IDF: weight, Language: e.Language}
}

// Info implements model.Embedder.
func (e Embedder) Info() model.Info {
	return model.Info{Provider: "builtin", Model: embedderName(text.LanguageOf(e.Language))}
}

// Dimension implements model.Embedder.
func (Embedder) Dimension() int { return Dimension }

// Embed implements model.Embedder; it never fails.
func (e Embedder) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		if err := ctx.Err(); err != nil {
			return nil, model.Usage{}, err
		}
		out[i] = e.Vector(t)
	}
	return out, model.Usage{}, nil
}

// Vector returns the embedding of one text.
func (e Embedder) Vector(s string) []float32 {
	tf := map[string]int{}
	for _, t := range text.LanguageOf(e.Language).SurfaceWords(s) {
		tf[t]++
	}
	if len(tf) == 0 { // stop words and signs only: the text itself is the feature
		for _, w := range text.Words(strings.ToLower(s)) {
			tf[w]++
		}
		if len(tf) == 0 {
			tf[strings.ToLower(strings.TrimSpace(s))] = 1
		}
	}
	v := make([]float64, Dimension)
	for _, t := range slices.Sorted(maps.Keys(tf)) { // sums of floats depend on their order
		w := 1 + math.Log(float64(tf[t]))
		if e.IDF != nil {
			w *= e.IDF(t)
		}
		addFeature(v, "w:"+t, w)
		if r := []rune(t); len(r) > 3 {
			r = append(append([]rune{'<'}, r...), '>')
			n := len(r) - 3
			g := w * gramWeight / math.Sqrt(float64(n))
			for i := range n {
				addFeature(v, "g:"+string(r[i:i+4]), g)
			}
		}
	}
	out := make([]float32, Dimension)
	for i, x := range v {
		out[i] = float32(x)
	}
	if !slices.ContainsFunc(out, func(x float32) bool { return x != 0 }) { // features that cancel exactly
		out[xxhash.Sum64String(s)%Dimension] = 1
	}
	vectors.Normalise(out)
	return out
}

func addFeature(v []float64, feature string, w float64) {
	h := xxhash.Sum64String(feature)
	for range slots {
		h = mixBits(h + 0x9e3779b97f4a7c15)
		s := w
		if h>>63 == 1 {
			s = -w
		}
		v[h%Dimension] += s
	}
}

// mixBits mixes 64 bits by a bijection with good avalanche (the finaliser of SplitMix64).
func mixBits(x uint64) uint64 {
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
