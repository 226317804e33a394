package retrieve

import (
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// mapSet copies and maps the splits and class runs of a generation, beside each other, and numbers what is live.
func (g *Generation) mapSet(ctx context.Context, cache *localfile.Cache) error {
	listed := g.Manifest.Segments
	files, err := segments.Open(ctx, cache, g.art, listed, g.Language().Analyser())
	if err != nil {
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.SegmentDamage) {
			return fault.SegmentDamage.At("open segments of", g.Manifest.Generation).Because(err).
				Advise("run: unweaver restore " + g.Manifest.Index + "; if that does not help, " + g.art.AdviseRebuild())
		}
		return err
	}
	var splits []liveset.Split
	for i, one := range listed.Splits {
		splits = append(splits, liveset.Split{
			File: files.Splits[i], Dead: files.DeadRows(one.SHA256),
			Documents: uint32(one.Text), Extract: uint32(one.Extract),
		})
	}
	var runs []liveset.Run
	for i, one := range listed.Runs {
		runs = append(runs, liveset.Run{File: files.Runs[i], Dead: files.DeadRows(one.SHA256)})
	}
	set, err := liveset.New(ctx, g.Manifest.Index, splits, runs)
	if err == nil {
		count := func(side string, _ []lexical.Part) lexical.Dead {
			if file := files.DeadStats(side); file != nil {
				return file
			}
			return nil // no nil pointer of a type
		}
		err = g.setLive(set, count, files.Release)
	}
	if err != nil {
		files.Release()
	}
	return err
}

// setLive lets the generation answer from splits and class runs. count returns what the dead rows of a side count, nil
// where none is dead. Closing the generation releases the files.
func (g *Generation) setLive(
	set *liveset.Set, count func(side string, parts []lexical.Part) lexical.Dead, release func(),
) error {
	var chunkParts, classParts []lexical.Part
	for i, one := range set.Splits() {
		chunkParts = append(chunkParts, lexical.Part{Side: one.File.Words, Dead: set.ChunkRows(i)})
	}
	for i, one := range set.Runs() {
		classParts = append(classParts, lexical.Part{Side: one.File.Words, Dead: set.ClassRows(i)})
	}
	chunkWords, err := lexical.Compose(chunkParts, count(core.ChunkSide, chunkParts))
	if err != nil {
		return err
	}
	classWords, err := lexical.Compose(classParts, count(core.ClassSide, classParts))
	if err != nil {
		return err
	}
	g.Live, g.release, g.titlesNamed, g.versions = set, release, measureTitles(set), readVersions(set)
	g.chunkWords = sideWords{index: chunkWords, number: set.AllNumbers(), row: set.ChunkRow}
	g.classWords = sideWords{index: classWords, number: set.AllPlaces(), row: set.ClassRow}
	if set.IsJoined() {
		g.classWords.joined = set
	}
	g.graph = &walk.Graph{Adjacency: set.Graph}
	return nil
}

// sideWords is a lexical index over one side of a generation, asked and answered by numbers of chunks or places of
// classes: equal scores stand in the order of numbers, wherever the rows lie.
type sideWords struct {
	index  *lexical.Index
	number []uint32 // of each row; liveset.None of a dead one
	row    func(number uint32) uint32
	joined *liveset.Set // whose classes are numbered and may have several rows; nil: each number has one row
}

// Search calls lexical.Index.Search. A number that has several rows scores as the best of them.
func (w sideWords) Search(
	terms []string, n int, allow func(uint32) bool, rank func(uint32) uint32,
) []lexical.Hit {
	var allowRow func(uint32) bool
	if allow != nil {
		allowRow = func(row uint32) bool {
			number := w.number[row]
			return number != liveset.None && allow(number)
		}
	}
	rankRow := func(row uint32) uint32 {
		number := w.number[row]
		if number == liveset.None || rank == nil {
			return number
		}
		return rank(number)
	}
	for ask := n; ; ask *= 2 {
		hits := w.index.Search(terms, ask, allowRow, rankRow)
		for i := range hits {
			hits[i].Doc = w.number[hits[i].Doc]
		}
		if w.joined == nil {
			return hits
		}
		found, seen := len(hits), map[uint32]bool{}
		hits = slices.DeleteFunc(hits, func(hit lexical.Hit) bool {
			again := seen[hit.Doc]
			seen[hit.Doc] = true
			return again
		})
		if len(hits) >= n || found < ask {
			return hits[:min(n, len(hits))]
		}
	}
}

// Holds calls lexical.Index.Holds.
func (w sideWords) Holds(terms []string, docs []uint32) [][]bool {
	rows := make([]uint32, len(docs))
	for i, number := range docs {
		rows[i] = w.row(number)
	}
	return w.index.Holds(terms, rows)
}
