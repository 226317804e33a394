package retrieve

import "github.com/unweaver/unweaver/internal/model/rerank"

// ListRanked returns the chunks that the method ranked: what filled up stands behind them.
func (r *Result) ListRanked() []Chunk {
	for i, chunk := range r.Chunks {
		if chunk.Filled {
			return r.Chunks[:i]
		}
	}
	return r.Chunks
}

// Rerank puts the ranked chunks in the order of scores, of which there is one for each, equal ones as they were, and
// keeps top of all chunks.
func (r *Result) Rerank(scores []float64, top int) {
	ranked := r.ListRanked()
	chunks := make([]Chunk, 0, len(r.Chunks))
	for _, place := range rerank.Order(scores) {
		chunk := ranked[place]
		chunk.Reranked, chunk.Rerank, chunk.Found = true, scores[place], place+1
		chunks = append(chunks, chunk)
	}
	chunks = append(chunks, r.Chunks[len(ranked):]...)
	r.Chunks = chunks[:min(top, len(chunks))]
}
