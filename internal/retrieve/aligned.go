package retrieve

import (
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve/align"
)

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

// alignRounds bounds the price updates (§12).
const alignRounds = 500

// pool is the restricted problem of a query.
type pool struct {
	numbers []uint32 // rows: chunks
	rows    map[uint32]uint32
	gamma   []float64
	columns [][]uint32
	f       []float64
}

func (r *request) capacity(document string) float64 {
	v := 1.0
	for _, c := range r.q.Params.Capacities {
		if (c.Document != "" && c.Document == document) ||
			(c.Document == "" && strings.HasPrefix(document, c.Prefix)) {
			v = c.Value
		}
	}
	return v
}

func (r *request) pool() pool {
	p := pool{rows: map[uint32]uint32{}}
	for _, entity := range r.res.Entities {
		var col []uint32
		for _, n := range entity.Votes {
			row, ok := p.rows[n]
			if !ok {
				row = uint32(len(p.numbers))
				p.rows[n] = row
				p.numbers = append(p.numbers, n)
				p.f = append(p.f, r.capacity(r.g.Live.Key(int(r.g.Live.ByNumber(int(n)).Document))))
			}
			col = append(col, row)
		}
		slices.Sort(col)
		p.gamma, p.columns = append(p.gamma, entity.Similarity), append(p.columns, slices.Compact(col))
	}
	return p
}

// aligned is aligned retrieval (specs/unweaver.md §7).
func (r *request) aligned() error {
	if err := r.voters(r.q.TopEntities); err != nil || r.noMatch() {
		return err
	}
	r.res.Entities = slices.DeleteFunc(r.res.Entities, func(e Entity) bool { return e.Similarity <= 0 })
	if len(r.res.Entities) == 0 {
		return nil
	}
	start := time.Now()
	p := r.pool()
	sol, err := r.solve(p)
	if err != nil {
		return err
	}
	for i := range r.res.Entities {
		r.res.Entities[i].Score = p.gamma[i] * sol.X[i]
	}
	order := make([]int, len(sol.X))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool {
		return r.res.Entities[order[i]].Score > r.res.Entities[order[j]].Score
	})
	kept := map[int]bool{}
	score := make([]float64, len(p.numbers))
	for _, s := range order[:min(r.q.Params.Classes, len(order))] {
		kept[s] = true
		for _, i := range p.columns[s] {
			score[i] += max(0, r.res.Entities[s].Score)
		}
	}
	k := r.candidates()
	ids := make([]uint32, 0, len(score))
	for i := range score {
		if score[i] > 0 {
			ids = append(ids, uint32(i))
		}
	}
	price := func(i uint32) float64 {
		if sol.Lambda == nil {
			return 0
		}
		return sol.Lambda[i]
	}
	sort.Slice(ids, func(a, b int) bool {
		i, j := ids[a], ids[b]
		if d := score[i] - score[j]; math.Abs(d) > 1e-9*max(score[i], score[j]) {
			return d > 0
		}
		if d := price(i) - price(j); math.Abs(d) > 1e-9*max(price(i), price(j)) {
			return d > 0
		}
		return k.at[p.numbers[i]] < k.at[p.numbers[j]]
	})
	explain := AlignedExplain{Solver: r.q.Params.Solver, Status: sol.Status, Gap: sol.Gap, Rounds: sol.Rounds}
	for _, i := range ids[:min(r.q.TopChunks, len(ids))] {
		c := r.g.Live.ByNumber(int(p.numbers[i]))
		r.res.Chunks = append(r.res.Chunks, Chunk{Live: c, Score: score[i]})
		chunk := AlignedChunk{ID: c.ID.String(), Load: sol.Load[i], Capacity: p.f[i]}
		if sol.Lambda != nil {
			chunk.Price = &sol.Lambda[i]
		}
		explain.Chunks = append(explain.Chunks, chunk)
	}
	r.why()
	r.res.Timing.Election = time.Since(start)
	if r.q.Explain {
		for i, e := range r.res.Entities {
			explain.Entities = append(explain.Entities, AlignedEntity{e.ID.String(), sol.X[i], kept[i]})
		}
		r.res.Explain = explain
	}
	return nil
}

func (r *request) solve(p pool) (align.Prices, error) {
	if r.q.Params.Solver == "utility" {
		return align.Utility(align.Pool{Gamma: p.gamma, Columns: p.columns, F: p.f}, r.q.Params.Eps, alignRounds)
	}
	keys := make([]string, len(r.res.Entities))
	for i, e := range r.res.Entities {
		keys[i] = corpus.ClassRow(e.ID, r.g.Live.Classes[e.Place].Vector)
	}
	vs, err := r.Vectors.Fetch(r.ctx, r.g.Manifest.Collections.Classes, keys)
	if err != nil {
		return align.Prices{}, err
	}
	n := len(vs)
	pr := align.Problem{Gram: mat.NewSymDense(n, nil), VTq: p.gamma, C: mat.NewDense(len(p.numbers), n, nil), F: p.f}
	for i, vector := range vs {
		if vector == nil {
			return align.Prices{}, fault.StoreDown.At("read vector", keys[i]).
				Because("the store of vectors has lost it").
				Advise("run: unweaver restore --index " + r.g.Manifest.Index)
		}
		for j := i; j < n && vs[j] != nil; j++ {
			dot := 0.0
			for d := range vector {
				dot += float64(vector[d]) * float64(vs[j][d])
			}
			pr.Gram.SetSym(i, j, dot)
		}
		for _, row := range p.columns[i] {
			pr.C.Set(int(row), i, 1)
		}
	}
	least, err := align.CLS(pr, 0, 0)
	if err != nil {
		return align.Prices{}, err
	}
	out := align.Prices{X: least.X, Load: make([]float64, len(p.numbers)), Status: least.Status}
	for s, col := range p.columns {
		for _, i := range col {
			out.Load[i] += least.X[s]
		}
	}
	return out, nil
}
