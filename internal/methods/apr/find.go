package apr

import (
	"cmp"
	"github.com/unweaver/unweaver/internal/model/triples"
	"math"
	"slices"

	"github.com/unweaver/unweaver/internal/fault"
)

// Index is a codebook with the vectors of what it numbers, ready to be asked. It is safe for concurrent use.
type Index struct {
	*Codebook
	lines  Table
	coarse *Coarse
}

// NewIndex makes one. Tables that do not fit the codebook are SegmentDamage.
func NewIndex(book *Codebook, entities, relations, lines Table) (*Index, error) {
	runs := make([][]Edge, len(book.Runs))
	for i, run := range book.Runs {
		for _, edge := range run {
			runs[i] = append(runs[i], book.Edges[edge])
		}
	}
	coarse, err := NewCoarse(entities, relations, runs)
	if err != nil {
		return nil, err
	}
	if lines.Len() != len(book.Edges) {
		return nil, fault.SegmentDamage.At("read", "codebook").Because("it has another number of vectors than of edges").
			Advise("build the index again with: unweaver index")
	}
	return &Index{Codebook: book, lines: lines, coarse: coarse}, nil
}

// averageEdges returns the direction of the sum of the vectors of edges.
func (x *Index) averageEdges(edges []uint32) []float32 {
	sum := make([]float64, x.lines.Dim)
	for _, edge := range edges {
		for k, value := range x.lines.Vector(int(edge)) {
			sum[k] += float64(value)
		}
	}
	return toUnitVector(sum)
}

// toUnitVector scales to length 1; what has no direction stays as it is.
func toUnitVector(sum []float64) []float32 {
	square := 0.0
	for _, value := range sum {
		square += value * value
	}
	out := make([]float32, len(sum))
	if square == 0 {
		return out
	}
	scale := 1 / math.Sqrt(square)
	for k, value := range sum {
		out[k] = float32(value * scale)
	}
	return out
}

// Asked is a question as vectors of unit length: of the entities and relations of its triples, of its triples as lines,
// and of its whole text. A question without triples is its whole text as the only line.
type Asked struct {
	Words []Word // its triples
	Query
	Lines [][]float32
}

// Settings of a search, with the published values in DefaultSettings.
type Settings struct {
	Coarse  int                     // candidates of the coarse stage
	Fine    int                     // runs that stay after the fine stage
	Variant Variant                 // of the fine score
	Budget  int                     // tokens of the text
	Count   func(string) int        // tokens of a text
	Allow   func(chunk string) bool // nil: every chunk is let in
	// Stopped ends the search, whatever it has found. It is asked after some thousand vectors or texts, by several at
	// once. Nil: nothing does.
	Stopped func() bool
}

// DefaultSettings are those published, without a budget, a counter and a filter.
var DefaultSettings = Settings{Coarse: 200, Fine: 20}

// FoundRun is a run that was found, and why.
type FoundRun struct {
	Run    int
	Coarse float64
	Score  float64
	Terms  Terms
	Edges  []uint32
	Kept   bool // nothing better says the same
}

// FoundChunk is a chunk that says what was found, by the best of its edges.
type FoundChunk struct {
	Chunk string
	Score float64
	Edges []uint32 // that it says, the best first
}

// Found is the answer to a search.
type Found struct {
	Linked bool // the question has no triples: it was compared as a whole
	Runs   []FoundRun
	Chunks []FoundChunk
	Choice Choice
	Sizes  map[Encoding]int // tokens of what was chosen in each encoding; nil where nothing was
	Told   []uint32         // edges that the text of the choice states, in its order
}

// mostLines of a question are compared: what asks for more is a document.
const mostLines = 16

// Find searches: coarse, fine, selection of what is not said twice, and what of it is stated within the budget. Equal
// questions have equal answers.
func (x *Index) Find(q Asked, s Settings) Found {
	var out Found
	if s.Stopped == nil {
		s.Stopped = func() bool { return false }
	}
	lines := probesOf(q.Lines, x.lines.Dim)
	if len(lines) == 0 {
		lines = probesOf([][]float32{q.Whole}, x.lines.Dim)
	}
	lines = lines[:min(len(lines), mostLines)]
	var candidates []Candidate
	var allow func(run int) bool
	if s.Allow != nil {
		allow = func(run int) bool { return len(x.filterEdges(x.Runs[run], s.Allow)) > 0 }
	}
	candidates, out.Linked = x.coarse.Ask(q.Query, s.Coarse, allow, s.Stopped)
	of := make(map[int]FoundRun, len(candidates))
	fine := make([]Candidate, 0, len(candidates))
	for _, one := range candidates {
		if s.Stopped() {
			return out
		}
		edges := x.filterEdges(x.Runs[one.Run], s.Allow)
		if len(edges) == 0 || len(lines) == 0 {
			continue
		}
		run := FoundRun{Run: one.Run, Coarse: one.Score, Edges: edges}
		whole := 0.0
		if len(q.Whole) == x.lines.Dim {
			whole = float64(dot(x.averageEdges(edges), q.Whole))
		}
		run.Terms = ScoreFine(x.computeCosines(lines, edges), whole, s.Variant)
		run.Score = run.Terms.Score()
		of[one.Run] = run
		fine = append(fine, Candidate{one.Run, run.Score})
	}
	slices.SortFunc(fine, byScore)
	ranked := make([]FoundRun, len(fine))
	for i, one := range fine {
		ranked[i] = of[one.Run]
	}
	out.Runs = ranked[:len(KeepBest(fine, s.Fine))]
	x.markKept(&out, s.Stopped)
	x.citeChunks(&out, ranked, lines, s)
	x.decideFacts(&out, lines, s)
	return out
}

// EstimateSteps estimates how many sums of four products Find takes beyond one pass over all vectors: for the runs that
// are compared line by line, for those that stay pair by pair, and so for the facts that are stated.
func (x *Index) EstimateSteps(q Asked, s Settings) float64 {
	runs := len(x.Runs)
	each := float64(len(x.Edges)) / float64(max(1, runs))
	compared, stay := float64(min(s.Coarse, runs)), float64(min(s.Fine, s.Coarse, runs))
	products := compared*each*float64(2+min(len(q.Lines), mostLines)) + stay*stay
	if facts := min(MostTold, stay*each); s.Count != nil {
		products += facts * facts
	}
	return products * float64(x.lines.Dim) / 4
}

// filterEdges returns the edges that were read from a chunk that allow lets in; nil lets in all.
func (x *Index) filterEdges(edges []uint32, allow func(chunk string) bool) []uint32 {
	if allow == nil {
		return edges
	}
	return slices.DeleteFunc(slices.Clone(edges), func(edge uint32) bool {
		return !slices.ContainsFunc(x.Sources[edge], func(source triples.Source) bool { return allow(source.Chunk) })
	})
}

func (x *Index) computeCosines(lines []probe, edges []uint32) [][]float64 {
	out := make([][]float64, len(lines))
	for i, line := range lines {
		for _, edge := range edges {
			out[i] = append(out[i], float64(x.lines.dot(int(edge), line)))
		}
	}
	return out
}

// markKept marks the runs that stay.
func (x *Index) markKept(out *Found, stopped func() bool) {
	scores, lengths := make([]float64, len(out.Runs)), make([]int, len(out.Runs))
	means := make([][]float32, len(out.Runs))
	for i, run := range out.Runs {
		scores[i], lengths[i], means[i] = run.Score, len(run.Edges), x.averageEdges(x.Runs[run.Run])
	}
	for _, i := range SelectMedoids(scores, lengths, func(a, b int) float64 {
		if stopped() {
			return 0
		}
		return float64(dot(means[a], means[b]))
	}) {
		out.Runs[i].Kept = true
	}
}

// citeChunks gives the chunks that say the edges of the runs that were compared, those that were left too. A chunk has
// the score of the best run that it says something of, and on top of it the cosine of the best of these edges with the
// question: a run may be of several chunks, and the one that says what was asked for comes first.
func (x *Index) citeChunks(out *Found, ranked []FoundRun, lines []probe, s Settings) {
	place := map[string]int{}
	for _, run := range ranked {
		if s.Stopped() {
			return
		}
		for _, edge := range run.Edges {
			score := run.Score + x.maxCosine(lines, edge)
			for _, source := range x.Sources[edge] {
				if s.Allow != nil && !s.Allow(source.Chunk) {
					continue
				}
				at, known := place[source.Chunk]
				if !known {
					at = len(out.Chunks)
					place[source.Chunk] = at
					out.Chunks = append(out.Chunks, FoundChunk{Chunk: source.Chunk, Score: math.Inf(-1)})
				}
				chunk := &out.Chunks[at]
				chunk.Score = max(chunk.Score, score)
				if !slices.Contains(chunk.Edges, edge) {
					chunk.Edges = append(chunk.Edges, edge)
				}
			}
		}
	}
	for i := range out.Chunks {
		if s.Stopped() {
			return
		}
		slices.SortStableFunc(out.Chunks[i].Edges, func(a, b uint32) int {
			return cmp.Compare(x.maxCosine(lines, b), x.maxCosine(lines, a))
		})
	}
	slices.SortStableFunc(out.Chunks, func(a, b FoundChunk) int { return cmp.Compare(b.Score, a.Score) })
}

// maxCosine returns the cosine of an edge with the line of the question that is nearest to it.
func (x *Index) maxCosine(lines []probe, edge uint32) float64 {
	best := float32(math.Inf(-1))
	for _, line := range lines {
		best = max(best, x.lines.dot(int(edge), line))
	}
	return float64(best)
}

// MostTold is how many facts are chosen among, those of the best runs: as many as as many runs have at most as stay by
// default. They are compared pair by pair.
const MostTold = 20 * triples.MaxChunkTriples

// decideFacts chooses the facts that are stated. Once it is stopped it returns soon, with what it has.
func (x *Index) decideFacts(out *Found, lines []probe, s Settings) {
	if s.Count == nil || len(out.Runs) == 0 {
		return
	}
	var lists [][]uint32
	total := 0
	for _, run := range out.Runs {
		if run.Kept && total < MostTold {
			facts := run.Edges[:min(len(run.Edges), MostTold-total)]
			lists = append(lists, facts)
			total += len(facts)
		}
	}
	compare, count := x.newEdgeMatcher(), s.Count
	equal := func(a, b uint32) bool { return !s.Stopped() && compare(a, b) }
	s.Count = func(text string) int {
		if s.Stopped() {
			return 0
		}
		return count(text)
	}
	near := func(edge uint32) float64 { return x.maxCosine(lines, edge) }
	unique, all := SelectUnique(lists, equal, PreferNearest(near, x.Text)), slices.Concat(lists...)
	out.Choice = Decide(x.listWords(unique), x.listWords(all), s.Budget, s.Count)
	if out.Choice.Text == "" {
		return
	}
	if out.Told = unique[:min(len(unique), out.Choice.Facts)]; out.Choice.All {
		out.Told = all
	}
	out.Sizes = map[Encoding]int{}
	for _, one := range Encodings {
		out.Sizes[one] = s.Count(Render(x.listWords(out.Told), one, true))
	}
}

// newEdgeMatcher reports whether two edges say the same: by their texts, and by the means of their parts. It keeps the
// vectors of the edges that it was asked about.
func (x *Index) newEdgeMatcher() func(a, b uint32) bool {
	line := memoizeVectors(func(edge uint32) []float32 { return x.lines.Vector(int(edge)) })
	parts := memoizeVectors(x.averageParts)
	return func(a, b uint32) bool {
		return dot(line(a), line(b)) >= SameAt && dot(parts(a), parts(b)) >= SameAt
	}
}

func memoizeVectors(of func(edge uint32) []float32) func(edge uint32) []float32 {
	known := map[uint32][]float32{}
	return func(edge uint32) []float32 {
		vector, again := known[edge]
		if !again {
			vector = of(edge)
			known[edge] = vector
		}
		return vector
	}
}

// averageParts returns the direction of the sum of the vectors of head, relation and tail.
func (x *Index) averageParts(edge uint32) []float32 {
	e := x.Edges[edge]
	sum := make([]float64, x.lines.Dim)
	for _, row := range [][]float32{
		x.coarse.Entities.Vector(int(e.Head)), x.coarse.Relations.Vector(int(e.Relation)),
		x.coarse.Entities.Vector(int(e.Tail)),
	} {
		for k, value := range row {
			sum[k] += float64(value)
		}
	}
	return toUnitVector(sum)
}

func (x *Index) listWords(edges []uint32) []Word {
	var out []Word
	for _, edge := range edges {
		head, relation, tail := x.Words(edge)
		out = append(out, Word{head, relation, tail})
	}
	return out
}
