package bisect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/text/names"
)

// deepest is how many passages are ranked to see where one went that is not among the first.
const deepest answer.Count = 100

// kinds of causes that are not confirmed, by what they are evidence of.
var kinds = []string{"document", "model", "setting", "program", "passage_above", "entity", "score"}

// side is one of the two generations, with what it returns, and its first passages beyond that.
type side struct {
	*retrieve.Generation
	answer, deep answer.Response
}

// find returns a passage as the generation ranks it; one of rank 0 is not among the first.
func (s *side) find(id string) answer.Chunk {
	for _, chunk := range slices.Concat(s.answer.Chunks, s.deep.Chunks) {
		if chunk.ID == id {
			return chunk
		}
	}
	return answer.Chunk{}
}

// comparison explains how the good generation and the bad one differ.
type comparison struct {
	*search
	good, bad side
	lost      answer.Chunk   // the expected passage as the good generation returns it
	now       *liveset.Chunk // the same passage in the bad one; nil: it is gone
}

// explain enters into the result what changed between two generations.
func (s *search) explain(ctx context.Context, good, bad artifact.Generation) (err error) {
	c := &comparison{search: s}
	for name, of := range map[string]*side{good.Generation: &c.good, bad.Generation: &c.bad} {
		deep := deepest
		of.answer = s.answers[name]
		if of.deep, err = s.ask(ctx, name, func(body *answer.Request) { body.TopChunks = &deep }); err != nil {
			return err
		}
		if of.Generation, err = s.index.Open(ctx, name); err != nil {
			return err
		}
		defer of.Close()
	}
	difference, err := s.index.Compare(ctx, good.Generation, bad.Generation)
	if err != nil {
		return err
	}
	s.out.Good, s.out.Bad = s.probes[good.Generation], s.probes[bad.Generation]
	s.out.Documents, s.out.Entities = difference.Documents, difference.Classes
	if c.bad.Manifest.Parent != good.Manifest {
		s.notice("generation %s was not built from %s: the change may be of any night between them", bad.Generation,
			good.Generation)
	}
	c.lost = c.good.answer.Chunks[s.out.Good.Rank-1]
	c.now = c.bad.Live.FindChunk(idOf(c.lost.ID))
	steps := []func(context.Context) error{c.findDocument, c.findSettings}
	if c.now != nil {
		steps = append(steps, c.findAbove, c.findEntities, c.findScores)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	weigh := func(cause Cause) int {
		if cause.Confirmed {
			return -1
		}
		return slices.Index(kinds, cause.Kind)
	}
	slices.SortStableFunc(s.out.Causes, func(a, b Cause) int { return cmp.Compare(weigh(a), weigh(b)) })
	c.listRanking()
	return nil
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

// confirm asks the bad generation once more without the causes from a place on.
func (c *comparison) confirm(ctx context.Context, from int, edit func(*answer.Request)) error {
	if from == len(c.out.Causes) {
		return nil
	}
	response, err := c.ask(ctx, c.out.Bad.Generation, edit)
	for i := from; i < len(c.out.Causes) && c.rankIn(response) > 0; i++ {
		c.out.Causes[i].Confirmed, c.out.Causes[i].Rank = true, c.rankIn(response)
	}
	return err
}

// listRanking lists the passages that either generation returns, and the expected ones, by their ranks.
func (c *comparison) listRanking() {
	shown := slices.Concat(c.good.answer.Chunks, c.bad.answer.Chunks)
	for _, chunk := range c.bad.deep.Chunks {
		if c.isExpected(chunk) {
			shown = append(shown, chunk)
		}
	}
	for _, chunk := range shown {
		if !slices.ContainsFunc(c.out.Ranking, func(row Row) bool { return row.ID == chunk.ID }) {
			c.out.Ranking = append(c.out.Ranking, Row{
				chunk.ID, chunk.Document, c.good.find(chunk.ID).Rank, c.bad.find(chunk.ID).Rank, c.isExpected(chunk),
				c.changeOf(chunk),
			})
		}
	}
	last := func(rank int) int { return cmp.Or(rank, int(deepest)+1) }
	slices.SortStableFunc(c.out.Ranking, func(a, b Row) int {
		return cmp.Or(cmp.Compare(last(a.After), last(b.After)), cmp.Compare(last(a.Before), last(b.Before)))
	})
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

// findDocument finds out what became of the document itself.
func (c *comparison) findDocument(ctx context.Context) error {
	key, version := c.lost.Document, ""
	if at := c.bad.Live.FindDocument(key); at >= 0 {
		row, err := c.bad.ReadDocument(ctx, at)
		if err != nil {
			return err
		}
		version = row.Version.String()
	}
	from := len(c.out.Causes)
	switch moved := slices.IndexFunc(c.out.Documents.Listed, func(one core.Change) bool { return one.From == key }); {
	case version == "" && moved >= 0:
		c.add("document", "moved", key, "document %s has another key: %s", key, c.out.Documents.Listed[moved].Object)
	case version == "":
		c.add("document", "removed", key, "document %s was removed", key)
	case version != c.lost.Version && c.now == nil:
		c.add("document", "changed", key, "document %s changed, and the passage is not in it any more", key)
	case version != c.lost.Version:
		c.add("document", "changed", key, "document %s changed, and the passage is still in it", key)
	case c.now == nil:
		c.add("document", "cut", key, "document %s is the same, and is cut into other passages", key)
	}
	for i := from; i < len(c.out.Causes); i++ {
		c.out.Causes[i].Confirmed = c.now == nil
	}
	return nil
}

var (
	// ofModels begin the names of settings that say which models there are.
	ofModels = []string{"chat", "embedding", "rerank", "roles"}
	// ofQueries are settings that a query may have otherwise.
	ofQueries = []string{"retrieval.method", "retrieval.rule", "retrieval.top_chunks"}
	// withoutEffect begin or end the names of settings that no ranking depends on.
	withoutEffect = strings.Fields("answer budget currency failures gate grace index keep limits overlay " +
		"base_url api_key_env timeout trust_domain prompt completion call")
)

// findSettings finds settings, models and rules of the program that differ. Those of queries are tried: the bad
// generation is asked with the settings of the good one.
func (c *comparison) findSettings(ctx context.Context) error {
	for _, change := range c.bad.Manifest.Made.ListChanges(c.good.Manifest.Made) {
		c.add("program", "changed", change, "the program builds by other rules: %s", change)
	}
	was, is := flatten(c.good.Spec), flatten(c.bad.Spec)
	both := maps.Clone(was)
	maps.Copy(both, is)
	all := slices.Sorted(maps.Keys(both))
	for _, name := range slices.DeleteFunc(all, func(name string) bool { return slices.Contains(ofQueries, name) }) {
		head, _, _ := strings.Cut(name, ".")
		last := name[strings.LastIndexByte(name, '.')+1:]
		if was[name] == is[name] || slices.Contains(withoutEffect, head) || slices.Contains(withoutEffect, last) {
			continue
		}
		kind := map[bool]string{true: "model", false: "setting"}[slices.Contains(ofModels, head)]
		c.add(kind, "changed", name, "%s was %s and is %s", name, cmp.Or(was[name], "not set"), cmp.Or(is[name], "not set"))
	}
	from := len(c.out.Causes)
	for _, name := range ofQueries {
		given := name == ofQueries[0] && c.Method != "" || name == ofQueries[2] && c.TopChunks != nil
		if was[name] != is[name] && !given {
			c.add("setting", "changed", name, "%s was %s and is %s", name, was[name], is[name])
		}
	}
	return c.confirm(ctx, from, func(body *answer.Request) {
		top := answer.Count(c.out.Good.Top)
		body.Method, body.Rule, body.TopChunks = c.good.answer.Method, c.good.answer.Rule, &top
	})
}

// flatten returns the settings of an index by their names.
func flatten(spec core.Spec) map[string]string {
	out := map[string]string{}
	var visit func(name string, value any)
	visit = func(name string, value any) {
		fields, ok := value.(map[string]any)
		for field, below := range fields {
			visit(strings.TrimPrefix(name+"."+field, "."), below)
		}
		if !ok {
			raw, _ := json.Marshal(value) // it was read from JSON
			out[name] = strings.Trim(string(raw), `"`)
		}
	}
	raw, _ := json.Marshal(spec) // plain structs of strings and numbers always marshal
	var fields any
	_ = json.Unmarshal(raw, &fields)
	visit("", fields)
	return out
}

// findAbove finds documents that the night brought among the passages of the bad generation, and asks it without them.
func (c *comparison) findAbove(ctx context.Context) error {
	from := len(c.out.Causes)
	var without []string
	for _, chunk := range c.bad.answer.Chunks {
		key, change := chunk.Document, c.changeOf(chunk)
		if change != "same" && key != c.lost.Document && !slices.Contains(without, key) {
			without = append(without, key)
			c.add("passage_above", change, key, "document %s was %s and is at rank %d", key, change, chunk.Rank)
		}
	}
	return c.confirm(ctx, from, func(body *answer.Request) { body.Without.Documents = without })
}

// findEntities finds out what became of the entities through which the good generation found the passage, and which
// new ones the bad generation searches from; it asks that one without them.
func (c *comparison) findEntities(ctx context.Context) error {
	for _, entity := range c.lost.Entities {
		if err := c.compareEntity(ctx, entity); err != nil {
			return err
		}
	}
	from := len(c.out.Causes)
	var without []string
	for _, entity := range c.bad.answer.Entities {
		if c.good.Live.FindClass(idOf(entity.ID)) == nil {
			without = append(without, entity.ID)
			c.add("entity", "added", entity.Name, "entity %q is new, and the search starts from it, at rank %d", entity.Name,
				entity.Rank)
		}
	}
	return c.confirm(ctx, from, func(body *answer.Request) { body.Without.Entities = without })
}

// compareEntity finds out what became of an entity that voted for the passage.
func (c *comparison) compareEntity(ctx context.Context, entity answer.EntityRef) error {
	live, name, key := c.bad.Live, entity.Name, names.Key(entity.Name, c.bad.Spec.Parity)
	was, is := c.good.Live.FindClass(idOf(entity.ID)), live.FindClass(idOf(entity.ID))
	to := c.bad.Manifest.Aliases.ResolveKey(key)
	rankIn := func(response answer.Response) int {
		return 1 + slices.IndexFunc(response.Entities, func(one answer.Entity) bool { return one.ID == entity.ID })
	}
	switch {
	case is == nil && to != key:
		c.add("entity", "merged", name, "entity %q is merged into %q: aliases map its name", name, to)
	case is == nil:
		var now []string
		for _, place := range live.Graph.ClassesOf(c.now.Number) {
			now = append(now, live.Name(live.NameAt(place)))
		}
		c.add("entity", "removed", name, "entity %q is gone; the passage mentions now: %s", name,
			strings.Join(now[:min(5, len(now))], ", "))
	case !slices.Contains(live.Graph.ChunksOf(uint32(live.ClassPlace(is.ID))), c.now.Number):
		c.add("entity", "left", name, "the passage does not mention entity %q any more", name)
	case was.Record != is.Record:
		before, err := c.index.Searcher.ClassRecords(ctx, c.good.Generation, []*liveset.Class{was})
		if err != nil {
			return err
		}
		after, err := c.index.Searcher.ClassRecords(ctx, c.bad.Generation, []*liveset.Class{is})
		if err != nil {
			return err
		}
		c.add("entity", "changed", name, "entity %q was described as %.200q, and %q is as %.200q", before[0].Name,
			before[0].Text, after[0].Name, after[0].Text)
	case rankIn(c.good.answer) > 0 && rankIn(c.bad.answer) == 0:
		c.add("entity", "outranked", name, "the search started from entity %q, at rank %d, and starts from %d others now",
			name, rankIn(c.good.answer), len(c.bad.answer.Entities))
	}
	return nil
}

// findScores sets the figures of the passage in both generations against each other.
func (c *comparison) findScores(context.Context) error {
	figures := func(chunk answer.Chunk) string {
		if chunk.Rank == 0 {
			return fmt.Sprintf("not among the first %d", deepest)
		}
		out := fmt.Sprintf("rank %d, score %.4f", chunk.Rank, chunk.Score)
		if chunk.Similarity != nil {
			out += fmt.Sprintf(", similarity %.4f", *chunk.Similarity)
		}
		if chunk.BM25 != nil {
			out += fmt.Sprintf(", bm25 %.3f", *chunk.BM25)
		}
		return out
	}
	c.add("score", "changed", c.lost.Document, "the passage is the same; before: %s; after: %s",
		figures(c.good.find(c.lost.ID)), figures(c.bad.find(c.lost.ID)))
	return nil
}
