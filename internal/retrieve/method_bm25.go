package retrieve

import "time"

// BM25 is the name of the method.
const BM25 = "bm25"

// bm25Method ranks chunks by their words.
type bm25Method struct{}

// Spec implements Method.
func (bm25Method) Spec() Spec {
	return Spec{
		Name: BM25, Doc: "word search over passages (BM25)", Entities: 10,
		Explains: []Shape{listShape},
	}
}

// Run implements Method.
func (bm25Method) Run(r *Request) (Explanation, error) {
	start := time.Now()
	for _, hit := range r.Generation.chunkWords.Search(r.terms, r.Query.TopChunks, r.allowed.testNumbers(), nil) {
		chunk := r.Generation.Live.ByNumber(int(hit.Doc))
		r.Result.Chunks = append(r.Result.Chunks, Chunk{Live: chunk, Score: hit.Score, BM25: hit.Score, HasBM25: true})
	}
	r.Result.Timing.Search = time.Since(start)
	if len(r.Result.Chunks) == 0 && r.MatchesNothing() {
		return nil, nil
	}
	return func() any { return explainList("bm25", r.Result.Chunks) }, nil
}
