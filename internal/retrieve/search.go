package retrieve

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// findVoters finds the n most similar allowed classes with their ballots. A row of the store counts if the generation
// has its digest.
func (r *Request) findVoters(want int) error {
	return r.eachNearest(want+8, func(places []uint32, similarities []float64) (enough bool, err error) {
		start := time.Now()
		entities, err := r.collectBallots(places, similarities, want-len(r.Result.Entities))
		r.Result.Timing.Ballots += time.Since(start)
		r.Result.Entities = append(r.Result.Entities, entities...)
		return len(r.Result.Entities) >= want, err
	})
}

// eachNearest gives take the classes nearest to the question that are not left out, each once: those of n rows, and of
// twice as many more while that is not enough. A class may have several vectors: the best counts.
func (r *Request) eachNearest(
	n int, take func(places []uint32, similarities []float64) (enough bool, err error),
) error {
	asked, seen, taken := 0, map[string]bool{}, map[int]bool{}
	picked, share := r.pickClasses()
	of := r.Generation.classRows()
	of.picked = picked
	for n = r.scaleAsk(n, share, classCount); ; n *= 2 {
		start := time.Now()
		hits, err := r.searchNearest(r.Generation.Manifest.Collections.Classes, r.Query.Vector, n, of)
		r.Result.Timing.Search += time.Since(start)
		if err != nil {
			return err
		}
		var places []uint32
		var similarities []float64
		for _, hit := range hits {
			if seen[hit.Key] {
				continue
			}
			seen[hit.Key] = true
			place := r.Generation.classPlace(hit.Key)
			if place < 0 || taken[place] || r.Query.Without.Entities[r.Generation.Live.ClassID(uint32(place))] {
				continue
			}
			taken[place] = true
			places, similarities = append(places, uint32(place)), append(similarities, float64(hit.Score))
		}
		enough, err := take(places, similarities)
		if err != nil || enough || len(hits) < n || len(hits) == asked || of.picked != nil {
			return err
		}
		asked = len(hits)
	}
}

// collectBallots votes until want classes have an allowed chunk.
func (r *Request) collectBallots(places []uint32, similarities []float64, want int) ([]Entity, error) {
	var out []Entity
	for at := 0; at < len(places) && len(out) < want; {
		n := min(len(places)-at, want-len(out))
		entities, err := r.readEntities(places[at : at+n])
		if err != nil {
			return nil, err
		}
		for i, entity := range entities {
			entity.Score, entity.Similarity = similarities[at+i], similarities[at+i]
			if len(entity.Votes) > 0 {
				out = append(out, entity)
			}
		}
		at += n
	}
	return out, nil
}

// fillBallot fills an entity's ballot.
func (r *Request) fillBallot(entity *Entity) error {
	for _, number := range r.Generation.Live.Graph.ChunksOf(entity.Place) {
		r.addVote(entity, r.Generation.Live.ByNumber(int(number)))
	}
	return r.countVotes(len(entity.Votes))
}

// addVote adds a chunk to a ballot where it is allowed.
func (r *Request) addVote(entity *Entity, chunk *liveset.Chunk) {
	if chunk != nil && r.allowed.allowsChunk(chunk) {
		entity.Chunks = append(entity.Chunks, chunk.ID)
		entity.Votes = append(entity.Votes, chunk.Number)
	}
}

// readEntities reads classes by place, with their allowed chunks from the graph.
func (r *Request) readEntities(places []uint32) ([]Entity, error) {
	classes := make([]*liveset.Class, len(places))
	for i, place := range places {
		classes[i] = r.Generation.Live.ClassAt(place)
	}
	names, err := r.readNames(classes)
	if err != nil {
		return nil, err
	}
	out := make([]Entity, len(places))
	for i, class := range classes {
		out[i] = Entity{ID: class.ID, Place: places[i], Name: names[i], Total: int64(class.Chunks)}
		if err := r.fillBallot(&out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// noRecords stands in Result.Degraded where names are canonical ones, as the store of classes did not say them.
const noRecords = "records"

// recordsWait is how long a query waits for the names of its classes.
const recordsWait = 500 * time.Millisecond

// readNames returns what classes are called: as their records say, or, where the store of classes is away, slow or has
// lost one, as the class runs do. Only the names are lost then: ballots lie in the generation.
func (r *Request) readNames(classes []*liveset.Class) ([]string, error) {
	out := make([]string, len(classes))
	if !slices.Contains(r.Result.Degraded, noRecords) {
		ctx, done := context.WithTimeout(r.ctx, recordsWait)
		records, err := r.ClassRecords(ctx, r.Generation, classes)
		done()
		if r.ctx.Err() != nil {
			return nil, r.ctx.Err()
		}
		for i, record := range records {
			out[i] = record.Name
		}
		if err == nil {
			return out, nil
		}
		r.Result.Degraded = append(r.Result.Degraded, noRecords)
	}
	for i, class := range classes {
		out[i] = r.Generation.Live.Name(int(class.Name))
	}
	return out, nil
}

// ClassRecords reads class records in the order of classes; a missing one is damage that restore mends.
func (s Searcher) ClassRecords(
	ctx context.Context,
	generation *Generation,
	classes []*liveset.Class,
) ([]rows.Record, error) {
	keys := make([]string, len(classes))
	for i, class := range classes {
		keys[i] = core.RecordKey(generation.Manifest.Store, generation.Manifest.StoredIndex(), class.Row, class.Record)
	}
	values, err := s.Records.GetRecords(ctx, keys)
	if err != nil {
		return nil, err
	}
	out := make([]rows.Record, len(classes))
	for i, raw := range values {
		if raw == nil {
			return nil, fault.StoreDown.At("read class record", keys[i]).
				Because("it is missing from the entity store").
				Advise("run: unweaver restore " + generation.Manifest.Index)
		}
		if rows.RecordDigest(raw) != classes[i].Record {
			return nil, fault.SegmentDamage.At("read class record", keys[i]).
				Because("its content differs from the class run").
				Advise("run: unweaver restore " + generation.Manifest.Index)
		}
		if out[i], err = rows.DecodeRecord(raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// NoVectors stands in Result.Degraded where rows of the generation are missing from the vector store.
const NoVectors = "vectors"

// noteLost enters into the result that rows are missing, or that a view lacks some of what is similar.
func (r *Request) noteLost() {
	if r.lostRows.Swap(false) && !slices.Contains(r.Result.Degraded, NoVectors) {
		r.Result.Degraded = append(r.Result.Degraded, NoVectors)
	}
	if r.cut.Swap(false) && !slices.Contains(r.Result.Degraded, partlyDense) {
		r.Result.Degraded = append(r.Result.Degraded, partlyDense)
	}
}

// noteMissing looks for missing rows where a search returned fewer than it asked for. Searches may do so without having
// returned all, so the store counts its rows where some seem to be missing.
func (r *Request) noteMissing(collection string, hits []vectors.Hit, of viewRows) {
	if of.countIn(hits) >= of.count {
		return
	}
	if stored, err := r.Vectors.Count(r.ctx, collection); err == nil && stored <= int64(len(hits)) {
		r.lostRows.Store(true)
	}
}

func classCount(counts core.Counts) int64  { return counts.Classes }
func windowCount(counts core.Counts) int64 { return counts.Windows }

// scaleAsk returns how many rows to ask a store for, so that about n of them count: the more, the smaller the share is
// that a filter leaves in, and the fewer of all a view may read.
func (r *Request) scaleAsk(n int, share float64, count func(core.Counts) int64) int {
	seen := count(r.Generation.Manifest.Counts)
	all := seen
	if r.Generation.base != nil {
		all = count(r.Generation.base.Manifest.Counts)
	}
	scaled := float64(n) / share * float64(all) / float64(max(1, seen))
	return max(n, int(min(scaled, float64(all))))
}

// searchNearest returns the n rows of a collection that are nearest to a question; of says which of them the generation
// has. A collection that has none of them was emptied, or made by another program: an answer from what is left would be
// a wrong one. One that is not there was lost. Of a view it returns all rows where they are few (listFew), or where the
// store gives too few of them (listAll).
func (r *Request) searchNearest(collection string, question []float32, n int, of viewRows) ([]vectors.Hit, error) {
	var hits []vectors.Hit
	var err error
	few := of.picked
	if few == nil {
		few = r.listFew(n, of)
	}
	if few != nil {
		hits, err = r.scoreRows(collection, question, few)
	} else {
		hits, err = r.Vectors.Search(r.ctx, collection, question, n)
	}
	if fault.Is(err, fault.NotFound) || err == nil && len(hits) == 0 && of.count > 0 && n > 0 && of.picked == nil {
		err = fault.StoreDown.At("search", collection).Because("its rows are missing from the vector store").
			Advise("run: unweaver restore " + r.Generation.Manifest.Index)
	}
	if err != nil || few != nil {
		return hits, err
	}
	if len(hits) < n {
		r.noteMissing(collection, hits, of)
		if all := r.listAll(question, hits, of); all != nil {
			return r.scoreRows(collection, question, all)
		}
	}
	return r.scoreHits(collection, question, hits, of)
}

// similarChunks gives the n best allowed chunks by their best window.
func (r *Request) similarChunks(question []float32, n int) ([]Chunk, error) {
	ask := 2*n + 8 // a chunk may have several
	if counts := r.Generation.Manifest.Counts; counts.Windows == counts.Chunks {
		ask = n + n/4 + 8
	}
	picked, share := r.pickChunks()
	of := r.Generation.chunkRows()
	of.picked = picked
	for ask = r.scaleAsk(ask, share, windowCount); ; ask *= 2 {
		hits, err := r.searchNearest(r.Generation.Manifest.Collections.Chunks, question, ask, of)
		if err != nil {
			return nil, err
		}
		var out []Chunk
		seen := map[core.ID]bool{}
		for _, hit := range hits {
			if len(out) == n {
				break
			}
			chunk := r.Generation.chunkOfRow(hit.Key)
			if chunk == nil || seen[chunk.ID] || !r.allowed.allowsChunk(chunk) {
				continue
			}
			seen[chunk.ID] = true
			out = append(out, Chunk{Live: chunk, Similarity: float64(hit.Score), HasSim: true})
		}
		if len(out) >= n || len(hits) < ask || of.picked != nil {
			return out, nil
		}
	}
}

// classPlace returns the place of the live class of a vector row, or -1.
func (g *Generation) classPlace(key string) int {
	idHex, digest, ok := strings.Cut(key, "-")
	id, err := core.ParseID(idHex)
	if !ok || err != nil {
		return -1
	}
	place, vector := g.Live.FindVector(id)
	if place < 0 || vector.Short(16) != digest {
		return -1
	}
	return place
}

// chunkOfRow gives the live chunk of a vector row, or nil.
func (g *Generation) chunkOfRow(key string) *liveset.Chunk {
	parts := strings.Split(key, "-")
	if len(parts) != 3 {
		return nil
	}
	id, err := core.ParseID(parts[0])
	window, werr := strconv.Atoi(parts[1])
	if err != nil || werr != nil {
		return nil
	}
	chunk := g.Live.FindChunk(id)
	if chunk == nil || window < 0 || window >= int(chunk.Windows) || chunk.Digest.Short(8) != parts[2] {
		return nil
	}
	return chunk
}
