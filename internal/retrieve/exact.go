package retrieve

import (
	"cmp"
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	// mostExact rows of a view are compared with a question one by one, and mostExactBytes of vectors.
	mostExact      = 20_000
	mostExactBytes = 64 << 20
	// fetchedRows are read from the store at once, by fetchWidth requests side by side.
	fetchedRows = 1_000
	fetchWidth  = 4
	// partlyDense stands in Result.Degraded where a store gives fewer of the nearest rows than a view needs, as those of
	// other documents come before them.
	partlyDense = "dense_part"
)

// listAll returns the rows of a view, of which a store has given fewer than it was asked for; nil where hits has them
// all. Where they are too many, the result says that it lacks some.
func (r *Request) listAll(question []float32, hits []vectors.Hit, of viewRows) []string {
	if r.Generation.base == nil {
		return nil
	}
	most := min(mostExact, mostExactBytes/(4*max(1, len(question))))
	seen, keys := of.countIn(hits), of.keys(most+1)
	if len(keys) > seen && len(keys) <= most {
		return keys
	}
	if len(keys) > most && seen < of.count {
		r.cut.Store(true)
	}
	return nil
}

// scoreHits gives the rows of hits that an index with labels has the scores of scoreRows, and puts them first: stores
// add up in another order, so that a last bit would tell how a row was found, and with it that others are hidden.
func (r *Request) scoreHits(
	collection string, question []float32, hits []vectors.Hit, of viewRows,
) ([]vectors.Hit, error) {
	if !r.Generation.Manifest.Labelled {
		return hits, nil
	}
	var keys []string
	rest := slices.DeleteFunc(hits, func(hit vectors.Hit) bool {
		if of.has(hit.Key) {
			keys = append(keys, hit.Key)
			return true
		}
		return false
	})
	scored, err := r.scoreRows(collection, question, keys)
	return append(scored, rest...), err
}

// listFew returns the rows of a view where they are few, and fewer than the store would be asked for to find them; nil
// where they are not. It does so for a whole generation that is the rest of a far larger one, whose rows the collection
// still has: without that, a question would read all of them.
func (r *Request) listFew(n int, of viewRows) []string {
	least := of.count
	if r.Generation.base == nil {
		least = 4*of.count + 64
	}
	if n <= least || of.count > fetchedRows {
		return nil
	}
	if keys := of.keys(fetchedRows + 1); len(keys) <= fetchedRows {
		return keys
	}
	return nil
}

// pickChunks returns the rows of the chunks that a filter leaves in, where they are few; else nil, and the share of the
// chunks that it leaves in of those it was asked for.
func (r *Request) pickChunks() (keys []string, share float64) {
	few, share := r.allowed.listFew()
	if few == nil {
		return nil, share
	}
	keys = []string{}
	for _, number := range few {
		keys = append(keys, rowsOfChunk(r.Generation.Live.ByNumber(int(number)))...)
	}
	return keys, share
}

// pickClasses returns the rows of the classes of the chunks that a filter leaves in, as pickChunks does.
func (r *Request) pickClasses() (keys []string, share float64) {
	few, _ := r.allowed.listFew()
	if few == nil {
		return nil, 1
	}
	keys = []string{}
	seen := map[uint32]bool{}
	for _, number := range few {
		for _, place := range r.Generation.Live.Graph.ClassesOf(number) {
			if !seen[place] {
				seen[place] = true
				keys = append(keys, r.Generation.rowsOfClass(place)...)
			}
		}
	}
	if len(keys) > fetchedRows {
		return nil, float64(len(seen)) / float64(r.Generation.Manifest.Counts.Classes)
	}
	return keys, 1
}

// scoreRows compares rows with a question, and returns them as a search does.
func (r *Request) scoreRows(collection string, question []float32, keys []string) ([]vectors.Hit, error) {
	parts := slices.Collect(slices.Chunk(keys, fetchedRows))
	scored := make([][]vectors.Hit, len(parts))
	err := parallel.Each(r.ctx, len(parts), fetchWidth, func(ctx context.Context, part int) error {
		some := parts[part]
		found, err := r.Vectors.Fetch(ctx, collection, some)
		if err != nil {
			return err
		}
		hits := make([]vectors.Hit, 0, len(some))
		for i, vector := range found {
			if len(vector) != len(question) && r.Generation.base == nil {
				r.lostRows.Store(true)
				continue
			}
			if len(vector) != len(question) {
				return fault.StoreDown.At("search", collection).Because("rows are missing from the vector store").
					Advise("run: unweaver restore " + r.Generation.Manifest.Index)
			}
			hits = append(hits, vectors.Hit{Key: some[i], Score: vectors.Dot(question, vector)})
		}
		scored[part] = hits
		return nil
	})
	if err != nil {
		return nil, err
	}
	hits := slices.Concat(scored...)
	slices.SortFunc(hits, func(a, b vectors.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Key, b.Key))
	})
	return hits, nil
}

// viewRows are the rows of a collection that a view may read.
type viewRows struct {
	count  int                     // of them, at least
	has    func(key string) bool   // whether a row is one
	keys   func(most int) []string // of them, up to a number
	picked []string                // all that a filter leaves in; nil: without a filter, or too many
}

// countIn returns how many of some hits are rows of the view.
func (of viewRows) countIn(hits []vectors.Hit) (count int) {
	for _, hit := range hits {
		if of.has(hit.Key) {
			count++
		}
	}
	return count
}

// chunkRows are those of chunks.
func (g *Generation) chunkRows() viewRows {
	return viewRows{
		count: int(g.Manifest.Counts.Windows),
		has:   func(key string) bool { return g.chunkOfRow(key) != nil },
		keys: func(most int) (out []string) {
			_, chunks, _ := g.Live.Counts()
			for number := 0; number < chunks && len(out) < most; number++ {
				out = append(out, rowsOfChunk(g.Live.ByNumber(number))...)
			}
			return out
		},
	}
}

func rowsOfChunk(chunk *liveset.Chunk) (keys []string) {
	for window := range int(chunk.Windows) {
		keys = append(keys, core.ChunkRow(chunk.ID, window, chunk.Digest))
	}
	return keys
}

// classRows are those of classes.
func (g *Generation) classRows() viewRows {
	return viewRows{
		count: int(g.Manifest.Counts.Classes),
		has:   func(key string) bool { return g.classPlace(key) >= 0 },
		keys: func(most int) (out []string) {
			_, _, classes := g.Live.Counts()
			for place := 0; place < classes && len(out) < most; place++ {
				out = append(out, g.rowsOfClass(uint32(place))...)
			}
			return out
		},
	}
}

func (g *Generation) rowsOfClass(place uint32) (keys []string) {
	for _, row := range g.Live.RowsOfClass(place) {
		keys = append(keys, core.ClassRow(row.Row, row.Vector))
	}
	return keys
}
