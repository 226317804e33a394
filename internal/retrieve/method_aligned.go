package retrieve

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve/align"
)

// Aligned is the name of the method.
const Aligned = "aligned"

// AlignedExplain is the explanation of aligned: strengths and prices.
type AlignedExplain struct {
	Solver   string          `json:"solver"`
	Status   string          `json:"status"`
	Gap      float64         `json:"gap"`
	Rounds   int             `json:"rounds"`
	Entities []AlignedEntity `json:"entities"`
	Chunks   []AlignedChunk  `json:"chunks"`
}

// AlignedEntity is a class of the pool; kept ones vote.
type AlignedEntity struct {
	ID   string  `json:"id"`
	X    float64 `json:"x"`
	Kept bool    `json:"kept"`
}

// AlignedChunk is a chunk with its price, its load and its capacity.
type AlignedChunk struct {
	ID       string   `json:"id"`
	Price    *float64 `json:"price"`
	Load     float64  `json:"load"`
	Capacity float64  `json:"capacity"`
}

// Capacity of the chunks of a document or of documents with a prefix; the last that fits wins.
type Capacity struct {
	Prefix   string
	Document string
	Value    float64
}

// alignRounds bounds the price updates.
const alignRounds = 500

// alignedMethod shares the capacities of chunks among the most similar classes, which vote by what they get.
type alignedMethod struct{}

// Spec implements Method.
func (alignedMethod) Spec() Spec {
	return Spec{
		Name:     Aligned,
		Doc:      "strengths of entities under the capacities of passages",
		Entities: 10,
		Params: []Param{
			NewChoice("solver", "least squares or utility", "cls", "utility"),
			NewWhole("classes", "entities that vote: the most similar of the pool", 1, 1000, 10),
			NewNumber("eps", "certified gap", 1e-9, 1, 1e-3),
			capacities,
		},
		Needs: Needs{Embedding: ByClassEmbedder},
		Explains: []Shape{{
			"ExplainAligned", "aligned: strengths of entities, prices and loads of passages", AlignedExplain{},
		}},
	}
}

// capacities reads [{"prefix" or "document", "value"}].
var capacities = Param{
	Name: "capacities", Doc: "capacities of documents; the last that fits wins",
	Schema: map[string]any{
		"type": "array",
		"items": map[string]any{
			"type": "object",
			"properties": map[string]any{
				"prefix":   map[string]any{"type": "string"},
				"document": map[string]any{"type": "string"},
				"value":    map[string]any{"type": "number", "exclusiveMinimum": 0},
			},
			"required": []string{"value"},
		},
	},
	Parse: func(given any) (any, string) {
		list, ok := given.([]any)
		if !ok {
			return nil, `want a list of {"prefix" or "document", "value"}`
		}
		var out []Capacity
		for i, item := range list {
			fields, ok := item.(map[string]any)
			var capacity Capacity
			if ok {
				capacity.Prefix, _ = fields["prefix"].(string)
				capacity.Document, _ = fields["document"].(string)
				capacity.Value, ok = fields["value"].(float64)
			}
			_, hasPrefix := fields["prefix"]
			one := len(fields) == 2 && hasPrefix != (capacity.Document != "")
			if !ok || !one || !(capacity.Value > 0) || capacity.Value > 1e6 {
				return nil, fmt.Sprintf(`entry %d: want {"prefix" or "document": name, "value": number over 0}`, i)
			}
			out = append(out, capacity)
		}
		return out, ""
	},
}

// pool is the restricted problem of a query.
type pool struct {
	align.Pool          // gamma is the similarity of each class
	numbers    []uint32 // rows: chunks
	rows       map[uint32]uint32
}

func (r *Request) capacityOf(document string) float64 {
	value := 1.0
	list, _ := r.Query.Params["capacities"].([]Capacity)
	for _, c := range list {
		if (c.Document != "" && c.Document == document) || (c.Document == "" && strings.HasPrefix(document, c.Prefix)) {
			value = c.Value
		}
	}
	return value
}

func (r *Request) newPool() pool {
	p := pool{rows: map[uint32]uint32{}}
	table := r.Generation.Live
	for _, entity := range r.Result.Entities {
		var column []uint32
		for _, number := range entity.Votes {
			row, ok := p.rows[number]
			if !ok {
				row = uint32(len(p.numbers))
				p.rows[number] = row
				p.numbers = append(p.numbers, number)
				p.F = append(p.F, r.capacityOf(table.Key(int(table.ByNumber(int(number)).Document))))
			}
			column = append(column, row)
		}
		slices.Sort(column)
		p.Gamma, p.Columns = append(p.Gamma, entity.Similarity), append(p.Columns, slices.Compact(column))
	}
	return p
}

// Run implements Method.
func (alignedMethod) Run(r *Request) (Explanation, error) {
	_, _, classes := r.Generation.Live.Counts()
	if err := r.Admit(r.alignSteps(min(classes, r.Query.TopEntities), 0)); err != nil {
		return nil, err
	}
	if err := r.findVoters(r.Query.TopEntities); err != nil || r.MatchesNothing() {
		return nil, err
	}
	r.Result.Entities = slices.DeleteFunc(r.Result.Entities, func(e Entity) bool { return e.Similarity <= 0 })
	if len(r.Result.Entities) == 0 {
		return nil, nil
	}
	start := time.Now()
	if err := r.Admit(r.alignSteps(len(r.Result.Entities), r.votes)); err != nil {
		return nil, err
	}
	p := r.newPool()
	prices, err := r.solvePrices(p)
	if err != nil {
		return nil, err
	}
	kept, score := r.scoreChunks(p, prices)
	winners := r.rankAligned(p, prices, score)
	for _, row := range winners {
		chunk := Chunk{Live: r.Generation.Live.ByNumber(int(p.numbers[row])), Score: score[row]}
		r.Result.Chunks = append(r.Result.Chunks, chunk)
	}
	r.noteReasons()
	r.Result.Timing.Election = time.Since(start)
	return func() any { return r.explainAligned(p, prices, kept, winners) }, nil
}

// alignSteps returns how many steps a pool of so many classes and votes takes: least squares by the third power of
// classes, prices by rounds over all votes.
func (r *Request) alignSteps(classes, votes int) float64 {
	if r.Query.Params.Text("solver") == "utility" {
		return voteSteps*float64(votes) + 2*alignRounds*float64(votes)
	}
	return voteSteps*float64(votes) + 2*math.Pow(float64(classes), 3)
}

// scoreChunks keeps the classes that are most similar to the question, and gives each chunk the sum of those that
// mention it. Strength is no measure to keep them by: it falls with price, so that the strongest are those that none
// competes with.
func (r *Request) scoreChunks(p pool, prices align.Prices) (kept map[int]bool, score []float64) {
	entities := r.Result.Entities
	order := make([]int, len(prices.X))
	for i := range entities {
		entities[i].Score = p.Gamma[i] * prices.X[i]
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return p.Gamma[order[i]] > p.Gamma[order[j]] })
	kept = map[int]bool{}
	score = make([]float64, len(p.numbers))
	for _, class := range order[:min(r.Query.Params.Int("classes"), len(order))] {
		kept[class] = true
		for _, row := range p.Columns[class] {
			score[row] += max(0, entities[class].Score)
		}
	}
	return kept, score
}

// rankAligned gives the rows of the best chunks: by score, then price, then in the order of an election's ties.
func (r *Request) rankAligned(p pool, prices align.Prices, score []float64) []uint32 {
	field := r.orderCandidates(false)
	rows := make([]uint32, 0, len(score))
	for row := range score {
		if score[row] > 0 {
			rows = append(rows, uint32(row))
		}
	}
	price := func(row uint32) float64 {
		if prices.Lambda == nil {
			return 0
		}
		return prices.Lambda[row]
	}
	sort.Slice(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		if diff := score[a] - score[b]; math.Abs(diff) > 1e-9*max(score[a], score[b]) {
			return diff > 0
		}
		if diff := price(a) - price(b); math.Abs(diff) > 1e-9*max(price(a), price(b)) {
			return diff > 0
		}
		return field.at[p.numbers[a]] < field.at[p.numbers[b]]
	})
	return rows[:min(r.Query.TopChunks, len(rows))]
}

func (r *Request) explainAligned(p pool, prices align.Prices, kept map[int]bool, winners []uint32) AlignedExplain {
	explain := AlignedExplain{
		Solver: r.Query.Params.Text("solver"), Status: prices.Status, Gap: prices.Gap, Rounds: prices.Rounds,
	}
	for i, row := range winners {
		chunk := AlignedChunk{
			ID: r.Result.Chunks[i].Live.ID.String(), Load: prices.Load[row], Capacity: p.F[row],
		}
		if prices.Lambda != nil {
			chunk.Price = &prices.Lambda[row]
		}
		explain.Chunks = append(explain.Chunks, chunk)
	}
	for i, entity := range r.Result.Entities {
		explain.Entities = append(explain.Entities, AlignedEntity{entity.ID.String(), prices.X[i], kept[i]})
	}
	return explain
}

func (r *Request) solvePrices(p pool) (align.Prices, error) {
	if r.Query.Params.Text("solver") == "utility" {
		return align.MaximiseUtility(r.ctx, p.Pool, r.Query.Params.Float("eps"), alignRounds)
	}
	vectors, err := r.classVectors()
	if err != nil {
		return align.Prices{}, err
	}
	problem := align.Problem{
		Gram: mat.NewSymDense(len(vectors), nil), VTq: p.Gamma, Rows: make([]align.Row, len(p.numbers)),
		Admit: func(unknowns int) error { return r.Admit(r.alignSteps(unknowns, 0)) },
	}
	for row, capacity := range p.F {
		problem.Rows[row].F = capacity
	}
	for i, vector := range vectors {
		if err := r.ctx.Err(); err != nil {
			return align.Prices{}, err
		}
		for j, other := range vectors[:i+1] {
			dot := 0.0
			for d := range vector {
				dot += float64(vector[d]) * float64(other[d])
			}
			problem.Gram.SetSym(i, j, dot)
		}
		for _, row := range p.Columns[i] {
			problem.Rows[row].Classes = append(problem.Rows[row].Classes, uint32(i))
		}
	}
	least, err := align.CLS(r.ctx, problem, 0, 0)
	var large align.TooLarge
	if errors.As(err, &large) {
		return align.Prices{}, newInvalid("top_entities", large.Error(), "lower top_entities, or set params.solver: utility")
	}
	if err != nil {
		return align.Prices{}, err
	}
	out := align.Prices{X: least.X, Load: make([]float64, len(p.numbers)), Status: least.Status}
	for class, column := range p.Columns {
		for _, row := range column {
			out.Load[row] += least.X[class]
		}
	}
	return out, nil
}

// classVectors reads the vectors of the result's entities; a missing one is damage that restore mends.
func (r *Request) classVectors() ([][]float32, error) {
	keys := make([]string, len(r.Result.Entities))
	for i, entity := range r.Result.Entities {
		class := r.Generation.Live.ClassAt(entity.Place)
		keys[i] = core.ClassRow(class.Row, class.Vector)
	}
	vectors, err := r.Vectors.Fetch(r.ctx, r.Generation.Manifest.Collections.Classes, keys)
	if fault.Is(err, fault.NotFound) { // the collection is lost, with all of them
		vectors, err = make([][]float32, len(keys)), nil
	}
	if err != nil {
		return nil, err
	}
	for i, vector := range vectors {
		if vector == nil {
			return nil, fault.StoreDown.At("read vector", keys[i]).
				Because("it is missing from the vector store").
				Advise("run: unweaver restore " + r.Generation.Manifest.Index)
		}
	}
	return vectors, nil
}
