package gemstage

import (
	"fmt"
	"math"

	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/methods/gem/themes"
)

// Before is the memory of the generation before, made by the same rules, settings and models.
type Before struct {
	Themes *themes.File
	Graph  *spectral.File
}

// change is how the chunks differ from those that the spectrum before is of.
type change struct {
	at          []int32 // place of each chunk among those of before that the spectrum is of; -1: none
	fresh, gone int64
	nodes       int64 // that the spectrum before is of
}

func (b *Before) change(all *spool) change {
	out := change{at: make([]int32, len(all.places)), nodes: b.Themes.Nodes}
	known := int64(0)
	for i, chunk := range all.places {
		at := b.Graph.Find(chunk.ID)
		if at >= 0 && b.Graph.Known[at] == 0 {
			at = -1
		}
		if out.at[i] = int32(at); at >= 0 {
			known++
		}
	}
	out.fresh, out.gone = int64(len(all.places))-known, max(0, out.nodes-known)
	return out
}

func (c change) share() float64 { return float64(c.fresh+c.gone) / float64(max(1, c.nodes)) }

// keeps decides whether the spectrum before stands, and says why.
func (in In) keeps(all *spool) (found change, keep bool, why string) {
	allowed := in.Settings.Respectrum
	switch {
	case allowed == 0:
		return found, false, "computed: gem.respectrum is 0"
	case in.Before == nil || in.Before.Themes == nil || in.Before.Graph == nil:
		return found, false, "computed: there is none before of the same rules, settings and models"
	}
	found = in.Before.change(all)
	detail := fmt.Sprintf("%d chunks came and %d went since it was computed of %d, %.1f %%; gem.respectrum allows %.1f %%",
		found.fresh, found.gone, found.nodes, 100*found.share(), 100*allowed)
	if found.share() > allowed {
		return found, false, "computed: " + detail
	}
	return found, true, "kept: " + detail
}

// keptSpectrum is that of before: the components of the chunks that it is of, 0 for the others.
func (b *Before) keptSpectrum(found change, degrees []float64) gem.Spectrum {
	out := gem.Spectrum{Degrees: degrees}
	for k := range b.Graph.Pairs {
		was, vector := b.Graph.Vector(k), make([]float64, len(found.at))
		for i, at := range found.at {
			if at >= 0 {
				vector[i] = float64(was[at])
			}
		}
		out.Pairs = append(out.Pairs, gem.Pair{
			Lambda: b.Themes.Values[k], Residual: b.Themes.Residuals[k], Vector: vector,
		})
	}
	return out
}

// keptEdges are the edges before between chunks that are still there, in pairs, and the chunks that have none of
// before.
func (b *Before) keptEdges(all *spool) (edges [][2]int32, fresh []int32) {
	now := make([]int32, len(b.Graph.Chunks))
	for i := range now {
		now[i] = -1
	}
	for i, chunk := range all.places {
		if at := b.Graph.Find(chunk.ID); at >= 0 {
			now[at] = int32(i)
		} else {
			fresh = append(fresh, int32(i))
		}
	}
	for at, i := range now {
		if i < 0 {
			continue
		}
		to, _ := b.Graph.Edges(at)
		for _, other := range to {
			if int(other) < at && now[other] >= 0 {
				edges = append(edges, [2]int32{now[other], i})
			}
		}
	}
	return edges, fresh
}

// component is a number of an eigenvector as it is written: what the solver left of the last digits is noise, and
// themes are chosen by what is written, so that they can be chosen again.
func component(x float64) float64 { return float64(float32(math.Round(x*1e6)/1e6 + 0)) }
