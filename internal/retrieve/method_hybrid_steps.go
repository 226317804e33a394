package retrieve

import (
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/retrieve/fuse"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// wordScores are BM25 scores of one side, as shares of the best that is allowed.
type wordScores struct {
	words  sideWords
	scores *lexical.Scores
	best   float64 // 0: no allowed one holds a word
}

// shareOf returns a share from 0 to 1.
func (w *wordScores) shareOf(doc uint32) float64 {
	if w.best == 0 {
		return 0
	}
	if w.words.joined == nil {
		return w.scores.ScoreOf(w.words.row(doc)) / w.best
	}
	score := 0.0
	for row := range w.words.joined.CountRows(doc) {
		score = max(score, w.scores.ScoreOf(w.words.joined.ClassRowAt(doc, row)))
	}
	return score / w.best
}

func scoresOf(words sideWords, terms []string, list fuse.List) wordScores {
	out := wordScores{words: words}
	if len(list.Hits) > 0 {
		out.best, out.scores = list.Hits[0].Score, words.index.ScoreAll(terms)
	}
	return out
}

// newSteps weighs the steps of a walk by the question: towards chunks and classes that hold its words, and from a class
// to the chunk whose title it is (docs/explain/retrieval.md). found has the scores of words.
func (r *Request) newSteps(params fuse.Params, found lists) walk.Steps {
	table := r.Generation.Live
	return walk.Steps{
		ToChunks: func(class uint32, chunks []uint32, weights []float64) {
			for i, chunk := range chunks {
				weights[i] = params.ChunkFloor + found.chunkScores.shareOf(chunk)
			}
			if len(chunks) < 2 { // one chunk takes all, whatever it weighs
				return
			}
			id := table.ClassID(class)
			for i, chunk := range chunks {
				document := int(table.DocumentOf(chunk))
				if table.Title(document).HasClass(id) { // chunks of one document share what its title is worth
					weights[i] *= max(1, params.Title/float64(table.DocumentAt(document).Count))
				}
			}
		},
		ToClasses: func(_ uint32, classes []uint32, weights []float64) {
			for i, class := range classes {
				weights[i] = params.ClassFloor + found.classScores.shareOf(class)
			}
		},
	}
}
