package bisect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/artifact"
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
	deep          answer.Response // the first 100 of the bad one, by the search alone; empty: unknown
	lost          answer.Chunk    // the expected passage as the good generation returns it
	now           *liveset.Chunk  // the same passage in the bad one; nil: it is gone
	untried       bool            // a question failed that might have proven another cause
}

// explain enters into the result what changed between two generations.
func (s *search) explain(ctx context.Context, good, bad artifact.Generation) (err error) {
	c := &comparison{search: s, before: s.answers[good.Generation], after: s.answers[bad.Generation]}
	s.out.Good, s.out.Bad = s.probes[good.Generation], s.probes[bad.Generation]
	if c.good, err = s.index.Open(ctx, good.Generation); err != nil {
		return err
	}
	defer c.good.Close()
	if c.bad, err = s.index.Open(ctx, bad.Generation); err != nil {
		return err
	}
	defer c.bad.Close()
	if c.bad.Manifest.Parent != good.Manifest {
		s.notice("generation %s was not built from %s: the change may be of any night between them", bad.Generation,
			good.Generation)
	}
	c.lost = c.before.Chunks[s.out.Good.Rank-1]
	c.now = c.bad.Live.FindChunk(idOf(c.lost.ID))
	if err := c.findDocument(ctx); err != nil {
		return err
	}
	ofDocument := len(s.out.Causes)
	c.findSettings(ctx)
	if s.out.Bad.Indexed {
		c.deep = c.askBad(ctx, "by the search alone", func(body *answer.Request) {
			deepest, off := answer.Count(100), false // a reranker may take fewer
			body.TopChunks, body.Rerank = &deepest, &off
		})
		c.findAbove(ctx)
		c.findEntities(ctx)
		c.listRanking()
	}
	other := c.untried || slices.ContainsFunc(s.out.Causes, func(cause Cause) bool { return cause.Confirmed })
	for i := range ofDocument {
		s.out.Causes[i].Confirmed = c.now == nil && !other
	}
	slices.SortStableFunc(s.out.Causes, func(a, b Cause) int { // true comes after false
		return strings.Compare(strconv.FormatBool(b.Confirmed), strconv.FormatBool(a.Confirmed))
	})
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

// askBad asks the bad generation once more, otherwise. Where that fails, a notice says so: the night is found already.
func (c *comparison) askBad(ctx context.Context, how string, edit func(*answer.Request)) answer.Response {
	response, err := c.ask(ctx, c.out.Bad.Generation, edit)
	if err != nil {
		c.untried = true
		c.notice("generation %s could not be asked %s: %v", c.out.Bad.Generation, how, err)
		return answer.Response{}
	}
	return response
}

// confirm asks the bad generation without the causes from a place on. What it returns then proves one cause, or that
// several are one together: they are not asked one by one.
func (c *comparison) confirm(ctx context.Context, from int, edit func(*answer.Request)) {
	causes := c.out.Causes[from:]
	if len(causes) == 0 || !c.out.Bad.Indexed {
		return
	}
	without := "without this"
	if len(causes) > 1 {
		without = fmt.Sprintf("without these %d together", len(causes))
	}
	rank := c.rankIn(c.askBad(ctx, "without the changes of kind "+causes[0].Kind, edit))
	switch {
	case rank == 0:
		return
	case len(causes) == 1:
		causes[0].Text += "; "
	default:
		c.add(causes[0].Kind, "together", "", "")
		causes = c.out.Causes[len(c.out.Causes)-1:]
	}
	causes[0].Text += fmt.Sprintf("%s, %q is at rank %d", without, c.Expect, rank)
	causes[0].Confirmed, causes[0].Rank = true, rank
}

// listRanking lists the passages that either generation returns, and the expected ones, with their ranks.
func (c *comparison) listRanking() {
	deeper := c.deep.Chunks[min(len(c.after.Chunks), len(c.deep.Chunks)):]
	after := slices.Concat(c.after.Chunks, deeper)
	all, listed := slices.Concat(c.after.Chunks, c.before.Chunks, deeper), map[string]bool{}
	for i, chunk := range all {
		same := func(one answer.Chunk) bool { return one.ID == chunk.ID }
		if listed[chunk.ID] || i >= len(all)-len(deeper) && !c.isExpected(chunk) {
			continue
		}
		listed[chunk.ID] = true
		c.out.Ranking = append(c.out.Ranking, Row{
			chunk.ID, chunk.Document, 1 + slices.IndexFunc(c.before.Chunks, same), 1 + slices.IndexFunc(after, same),
			c.isExpected(chunk), c.changeOf(chunk),
		})
	}
	if rank := c.rankIn(c.deep); rank > 0 && rank <= len(c.after.Chunks) {
		c.notice("asked for 100 passages, without a reranker, generation %s returns %q at rank %d", c.out.Bad.Generation,
			c.Expect, rank)
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

// findDocument finds out what became of the document itself.
func (c *comparison) findDocument(ctx context.Context) error {
	key := c.lost.Document
	at := c.bad.Live.FindDocument(key)
	if at < 0 {
		c.add("document", "removed", key, "document %q was removed, or has another key", key)
		return nil
	}
	row, err := c.bad.ReadDocument(ctx, at)
	same := err == nil && row.Version.String() == c.lost.Version
	switch {
	case same && c.now == nil:
		c.add("document", "cut", key, "document %q is the same, and is cut into other passages", key)
	case c.now == nil:
		c.add("document", "changed", key, "document %q changed, and the passage is not in it any more", key)
	case !same:
		c.add("document", "changed", key, "document %q changed, and the passage is still in it", key)
	}
	return err
}

var (
	// ofQueries are settings that a query may have otherwise.
	ofQueries = []string{"retrieval.method", "retrieval.rule", "retrieval.top_chunks"}
	// withoutEffect are parts of the names of settings that no ranking depends on.
	withoutEffect = strings.Fields("answer budget currency failures gate grace index keep limits overlay " +
		"base_url api_key_env timeout trust_domain price batch mode file")
)

// findSettings finds settings, models and rules of the program that differ. Those of queries are tried: the bad
// generation is asked with the settings of the good one.
func (c *comparison) findSettings(ctx context.Context) {
	for _, change := range c.bad.Manifest.Made.ListChanges(c.good.Manifest.Made) {
		c.add("program", "changed", change, "the program builds by other rules: %s", change)
	}
	was, is, own := c.good.Spec.ListSettings(), c.bad.Spec.ListSettings(), "indexes."+c.bad.Spec.Index+"."
	both := maps.Clone(was)
	maps.Copy(both, is)
	note := func(name string) {
		kind := "setting"
		if strings.HasPrefix(name, "models.") {
			kind = "model"
		}
		if was[name] != is[name] {
			c.add(kind, "changed", name, "%s was %s and is %s", name, core.ShowSetting(was[name]), core.ShowSetting(is[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(both)) {
		short := strings.TrimPrefix(name, own)
		ignored := func(part string) bool { return slices.Contains(withoutEffect, part) }
		if !slices.Contains(ofQueries, short) && !slices.ContainsFunc(strings.Split(short, "."), ignored) {
			note(name)
		}
	}
	from := len(c.out.Causes)
	for _, name := range ofQueries {
		if name == ofQueries[0] && c.Method == "" || name == ofQueries[1] || name == ofQueries[2] && c.TopChunks == nil {
			note(own + name)
		}
	}
	c.confirm(ctx, from, func(body *answer.Request) {
		top := answer.Count(c.out.Good.Top)
		body.Method, body.Rule, body.TopChunks = c.before.Method, c.before.Rule, &top
	})
}

// findAbove finds documents that the night brought above the document in the bad generation, and asks it without them.
func (c *comparison) findAbove(ctx context.Context) {
	from := len(c.out.Causes)
	var without []string
	chunks := c.deep.Chunks
	if rank := c.rankIn(c.deep); rank > 0 {
		chunks = chunks[:rank-1]
	}
	for _, chunk := range slices.Concat(c.after.Chunks, chunks) {
		key, change := chunk.Document, c.changeOf(chunk)
		if change != "same" && key != c.lost.Document && !c.isExpected(chunk) && !slices.Contains(without, key) {
			without = append(without, key)
			c.add("passage_above", change, key, "document %q was %s and is at rank %d", key, change, chunk.Rank)
		}
	}
	c.confirm(ctx, from, func(body *answer.Request) { body.Without.Documents = without })
}

// findEntities finds out what became of the entities through which the good generation found the passage, and which
// new ones the bad generation searches from; it asks that one without them.
func (c *comparison) findEntities(ctx context.Context) {
	for _, entity := range c.lost.Entities {
		c.compareEntity(entity)
	}
	from := len(c.out.Causes)
	var without []string
	for _, entity := range c.after.Entities {
		if c.good.Live.FindClass(idOf(entity.ID)) == nil {
			without = append(without, entity.ID)
			c.add("entity", "added", entity.Name, "entity %q is new, and the search starts from it, at rank %d", entity.Name,
				entity.Rank)
		}
	}
	c.confirm(ctx, from, func(body *answer.Request) { body.Without.Entities = without })
}

// compareEntity finds out what became of an entity that voted for the passage.
func (c *comparison) compareEntity(entity answer.EntityRef) {
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
