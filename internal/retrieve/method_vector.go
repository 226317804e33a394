package retrieve

import "time"

// Vector is the name of the method.
const Vector = "vector"

// ListExplain is the explanation of a plain search.
type ListExplain struct {
	By     string      `json:"by"`
	Chunks []ListScore `json:"chunks"`
}

// ListScore is one place of a plain search.
type ListScore struct {
	ID    string  `json:"id"`
	Score float64 `json:"score"`
}

func explainList(by string, chunks []Chunk) ListExplain {
	out := ListExplain{By: by, Chunks: []ListScore{}}
	for _, chunk := range chunks {
		out.Chunks = append(out.Chunks, ListScore{chunk.Live.ID.String(), chunk.Score})
	}
	return out
}

var listShape = Shape{"ExplainList", "vector and bm25", ListExplain{}}

// vectorMethod ranks chunks by their best window.
type vectorMethod struct{}

// Spec implements Method.
func (vectorMethod) Spec() Spec {
	return Spec{
		Name: Vector, Doc: "vector search over passages", Entities: 10,
		Needs:    Needs{Embedding: ByChunkEmbedder},
		Explains: []Shape{listShape},
	}
}

// Run implements Method.
func (vectorMethod) Run(r *Request) (Explanation, error) {
	question := r.Query.ChunkVector
	if question == nil {
		question = r.Query.Vector
	}
	start := time.Now()
	hits, err := r.similarChunks(question, r.Query.TopChunks)
	r.Result.Timing.Search = time.Since(start)
	if err != nil {
		return nil, err
	}
	for _, chunk := range hits {
		chunk.Score = chunk.Similarity
		r.Result.Chunks = append(r.Result.Chunks, chunk)
	}
	if r.MatchesNothing() {
		return nil, nil
	}
	return func() any { return explainList("similarity", r.Result.Chunks) }, nil
}
