package bisect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/text/names"
)

// comparison explains how the good generation and the bad one differ.
type comparison struct {
	*search
	good, bad     *retrieve.Generation
	before, after answer.Response // of the question; after is empty where the bad one lacks what is expected
	order         []answer.Chunk  // passages of after, and then what the bad one's search alone finds, 100 of it
	lost          answer.Chunk    // the expected passage as the good generation returns it
	now           *liveset.Chunk  // the same passage in the bad one; nil: it is gone
}

// explain enters into the result what changed between two generations.
func (s *search) explain(ctx context.Context, good, bad asked) (err error) {
	s.out.Good, s.out.Bad = good.Probe, bad.Probe
	c := &comparison{search: s, before: good.response, after: bad.response}
	if c.good, err = s.index.Open(ctx, good.Generation); err != nil {
		return err
	}
	defer c.good.Close()
	if c.bad, err = s.index.Open(ctx, bad.Generation); err != nil {
		return err
	}
	defer c.bad.Close()
	if c.bad.Manifest.Parent != good.manifest {
		s.notice("generation %s was not built from %s: the change may be of any night between them", bad.Generation,
			good.Generation)
	}
	c.lost = c.before.Chunks[good.Rank-1]
	c.now = c.bad.Live.FindChunk(idOf(c.lost.ID))
	err = c.findSettings(ctx)
	if err == nil && bad.Indexed {
		err = c.compareRankings(ctx)
	}
	if err == nil {
		err = c.findDocument(ctx)
	}
	slices.SortStableFunc(s.out.Causes, func(a, b Cause) int { // true comes after false
		return strings.Compare(strconv.FormatBool(b.Confirmed), strconv.FormatBool(a.Confirmed))
	})
	return err
}

// idOf reads an id of a response; what is none is of nothing.
func idOf(text string) core.ID {
	id, _ := core.ParseID(text)
	return id
}

// add notes a cause, which a text describes.
func (c *comparison) add(kind, change, object, text string, values ...any) {
	cause := Cause{Kind: kind, Change: change, Object: object, Text: fmt.Sprintf(text, values...)}
	c.out.Causes = append(c.out.Causes, cause)
}

// confirm asks the bad generation without the causes from a place on. What it returns then proves one cause, or that
// several are one together: they are not asked one by one.
func (c *comparison) confirm(ctx context.Context, from int, edit func(*answer.Request)) error {
	causes := c.out.Causes[from:]
	if len(causes) == 0 || !c.out.Bad.Indexed {
		return nil
	}
	response, err := c.ask(ctx, c.out.Bad.Generation, edit)
	rank := c.rankIn(response.Chunks)
	if err != nil || rank == 0 {
		return err
	}
	without := "; without this"
	if len(causes) > 1 {
		without = fmt.Sprintf("without these %d together", len(causes))
		c.add(causes[0].Kind, "together", "", "")
	}
	last := &c.out.Causes[len(c.out.Causes)-1]
	last.Text += fmt.Sprintf("%s, %q is at rank %d", without, c.Expect, rank)
	last.Confirmed, last.Rank = true, rank
	return nil
}

// compareRankings finds what stands above the document in the bad generation, and what became of its entities.
func (c *comparison) compareRankings(ctx context.Context) error {
	deep, err := c.ask(ctx, c.out.Bad.Generation, func(body *answer.Request) {
		deepest, off := answer.Count(100), false // a reranker may take fewer
		body.TopChunks, body.Rerank = &deepest, &off
	})
	c.order = slices.Clone(c.after.Chunks)
	for _, chunk := range deep.Chunks {
		if !slices.ContainsFunc(c.after.Chunks, func(one answer.Chunk) bool { return one.ID == chunk.ID }) {
			c.order = append(c.order, chunk)
		}
	}
	c.listRanking()
	if err == nil {
		err = c.findAbove(ctx)
	}
	if err == nil {
		err = c.findEntities(ctx)
	}
	return err
}

// listRanking lists the passages that either generation returns, and the expected ones, with their ranks.
func (c *comparison) listRanking() {
	place := func(chunks []answer.Chunk, id string) int {
		return 1 + slices.IndexFunc(chunks, func(chunk answer.Chunk) bool { return chunk.ID == id })
	}
	for i, chunk := range slices.Concat(c.order, c.before.Chunks) {
		row := Row{
			chunk.ID, chunk.Document, place(c.before.Chunks, chunk.ID), place(c.order, chunk.ID), c.isExpected(chunk),
			c.changeOf(chunk),
		}
		first := i < len(c.order) || row.After == 0
		if first && (row.Expected || row.Before > 0 || row.After <= len(c.after.Chunks)) {
			c.out.Ranking = append(c.out.Ranking, row)
		}
	}
}

// changeOf returns what became of the document of a passage, as Row.Change has it.
func (c *comparison) changeOf(chunk answer.Chunk) string {
	id := idOf(chunk.ID)
	switch {
	case c.good.Live.FindChunk(id) != nil && c.bad.Live.FindChunk(id) != nil:
		return "same"
	case c.good.Live.FindDocument(chunk.Document) < 0:
		return "added"
	case c.bad.Live.FindDocument(chunk.Document) < 0:
		return "removed"
	}
	return "changed"
}

// findDocument finds out what became of the document itself, and puts it first.
func (c *comparison) findDocument(ctx context.Context) error {
	key, change, text := c.lost.Document, "removed", "was removed, or has another key"
	if at := c.bad.Live.FindDocument(key); at >= 0 {
		row, err := c.bad.ReadDocument(ctx, at)
		if err != nil {
			return err
		}
		change, text = "changed", "changed, and the passage is not in it any more"
		switch same := row.Version.String() == c.lost.Version; {
		case same && c.now != nil:
			return nil
		case same:
			change, text = "cut", "is the same, and is cut into other passages"
		case c.now != nil:
			text = "changed, and the passage is still in it"
		}
	}
	proven := slices.ContainsFunc(c.out.Causes, func(cause Cause) bool { return cause.Confirmed })
	c.out.Causes = slices.Insert(c.out.Causes, 0, Cause{
		Kind: "document", Change: change, Object: key, Text: fmt.Sprintf("document %q %s", key, text),
		Confirmed: c.now == nil && !proven,
	})
	return nil
}

// findSettings finds settings, models and rules of the program that differ. Those that a query may have otherwise are
// tried: the bad generation is asked with the settings of the good one.
func (c *comparison) findSettings(ctx context.Context) error {
	for _, change := range c.bad.Manifest.Made.ListChanges(c.good.Manifest.Made) {
		c.add("program", "changed", change, "the program builds by other rules: %s", change)
	}
	was, is, of := c.good.Spec.ListSettings(), c.bad.Spec.ListSettings(), "indexes."+c.bad.Spec.Index+".retrieval."
	both, from := maps.Clone(was), 0
	maps.Copy(both, is)
	for _, ofQueries := range []bool{false, true} {
		from = len(c.out.Causes)
		for _, name := range slices.Sorted(maps.Keys(both)) {
			tried := name == of+"method" || name == of+"rule" || name == of+"top_chunks"
			if was[name] != is[name] && tried == ofQueries {
				c.add("setting", "changed", name, "%s was %s and is %s", name, core.ShowSetting(was[name]),
					core.ShowSetting(is[name]))
			}
		}
	}
	return c.confirm(ctx, from, func(body *answer.Request) {
		top := answer.Count(c.out.Good.Top)
		body.Method, body.Rule, body.TopChunks = c.before.Method, c.before.Rule, &top
	})
}

// findAbove finds documents that the night brought above the document in the bad generation, and asks it without them.
func (c *comparison) findAbove(ctx context.Context) error {
	from, without, above := len(c.out.Causes), []string{}, c.order
	if rank := c.rankIn(above); rank > 0 {
		above = above[:rank-1]
	}
	for i, chunk := range above {
		key, change := chunk.Document, c.changeOf(chunk)
		if change != "same" && key != c.lost.Document && !c.isExpected(chunk) && !slices.Contains(without, key) {
			without = append(without, key)
			c.add("passage_above", change, key, "document %q was %s and is at rank %d", key, change, i+1)
		}
	}
	return c.confirm(ctx, from, func(body *answer.Request) { body.Without.Documents = without })
}

// findEntities finds out what became of the entities through which the good generation found the passage, and which
// new ones the bad generation searches from; it asks that one without them.
func (c *comparison) findEntities(ctx context.Context) error {
	for _, entity := range c.lost.Entities {
		name, key := entity.Name, names.Key(entity.Name, c.bad.Spec.Parity)
		was, is := c.good.Live.FindClass(idOf(entity.ID)), c.bad.Live.FindClass(idOf(entity.ID))
		to := c.bad.Manifest.Aliases.ResolveKey(key)
		switch {
		case is == nil && to != key:
			c.add("entity", "merged", name, "entity %q is merged into %q: aliases map its name", name, to)
		case is == nil:
			c.add("entity", "removed", name, "entity %q is gone", name)
		case was.Record != is.Record:
			c.add("entity", "changed", name, "entity %q is described otherwise", name)
		}
	}
	from, without := len(c.out.Causes), []string{}
	for _, entity := range c.after.Entities {
		if c.good.Live.FindClass(idOf(entity.ID)) == nil {
			without = append(without, entity.ID)
			c.add("entity", "added", entity.Name, "entity %q is new, and the search starts from it, at rank %d", entity.Name,
				entity.Rank)
		}
	}
	return c.confirm(ctx, from, func(body *answer.Request) { body.Without.Entities = without })
}
