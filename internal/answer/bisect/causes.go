package bisect

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/core"
)

// explain enters into the result what changed between two generations.
func (s *search) explain(ctx context.Context, good, bad asked) (err error) {
	s.out.Good, s.out.Bad, s.before, s.after = good.Probe, bad.Probe, good.response, bad.response
	if s.good, err = s.index.Open(ctx, s.index.Name, good.Generation); err != nil {
		return err
	}
	defer s.good.Close()
	if s.bad, err = s.index.Open(ctx, s.index.Name, bad.Generation); err != nil {
		return err
	}
	defer s.bad.Close()
	if s.bad.Manifest.Parent != good.manifest {
		s.out.Notices = append(s.out.Notices, fmt.Sprintf("generation %s was not built from %s: the change may be of any "+
			"night between them", bad.Generation, good.Generation))
	}
	s.lost = s.before.Chunks[good.Rank-1]
	err = s.findSettings(ctx)
	if err == nil && bad.Indexed {
		err = s.compareRankings(ctx)
	}
	s.findDocument()
	slices.SortStableFunc(s.out.Causes, func(a, b Cause) int { return min(b.Rank, 1) - min(a.Rank, 1) }) // proven ones
	return err
}

// idOf reads an id of a response; what is none is of nothing.
func idOf(text string) core.ID {
	id, _ := core.ParseID(text)
	return id
}

// add notes a cause, which a text describes.
func (s *search) add(kind, change, object, text string, values ...any) {
	cause := Cause{Kind: kind, Change: change, Object: object, Text: fmt.Sprintf(text, values...)}
	s.out.Causes = append(s.out.Causes, cause)
}

// confirm asks the bad generation without the causes from a place on. What it returns then proves one cause, or that
// several are one together: they are not asked one by one.
func (s *search) confirm(ctx context.Context, from int, edit func(*answer.Request)) error {
	causes := s.out.Causes[from:]
	if len(causes) == 0 || !s.out.Bad.Indexed {
		return nil
	}
	response, err := s.ask(ctx, s.out.Bad.Generation, edit)
	rank := s.rankIn(response.Chunks)
	if err != nil || rank == 0 {
		return err
	}
	without := "; without this"
	if len(causes) > 1 {
		without = fmt.Sprintf("without these %d together", len(causes))
		s.add(causes[0].Kind, "together", "", "")
	}
	last := &s.out.Causes[len(s.out.Causes)-1]
	last.Text += fmt.Sprintf("%s, %q is at rank %d", without, s.Expect, rank)
	last.Confirmed, last.Rank = true, rank
	return nil
}

// compareRankings lists the passages that either generation returns, and the expected ones, with their ranks. It finds
// what stands above the document in the bad generation, and what became of its entities.
func (s *search) compareRankings(ctx context.Context) error {
	deep, err := s.ask(ctx, s.out.Bad.Generation, func(body *answer.Request) {
		deepest, off := answer.Count(100), false // a reranker may take fewer
		body.TopChunks, body.Rerank = &deepest, &off
	})
	s.order = slices.Concat(s.after.Chunks, slices.DeleteFunc(deep.Chunks, func(chunk answer.Chunk) bool {
		return placeOf(s.after.Chunks, chunk.ID) > 0
	}))
	for i, chunk := range slices.Concat(s.order, s.before.Chunks) {
		before, after := placeOf(s.before.Chunks, chunk.ID), placeOf(s.order, chunk.ID)
		row := Row{chunk.Document, before, after, s.isExpected(chunk), s.changeOf(chunk)}
		first := i < len(s.order) || after == 0
		if first && (row.Expected || before > 0 || after <= len(s.after.Chunks)) {
			s.out.Ranking = append(s.out.Ranking, row)
		}
	}
	if err == nil {
		err = s.findAbove(ctx)
	}
	if err == nil {
		err = s.findEntities(ctx)
	}
	return err
}

// placeOf returns the place of a passage among others, from 1; 0: it is not there.
func placeOf(chunks []answer.Chunk, id string) int {
	return 1 + slices.IndexFunc(chunks, func(chunk answer.Chunk) bool { return chunk.ID == id })
}

// changeOf returns what became of the document of a passage, as Row.Change has it.
func (s *search) changeOf(chunk answer.Chunk) string {
	id := idOf(chunk.ID)
	switch {
	case s.good.Live.FindChunk(id) != nil && s.bad.Live.FindChunk(id) != nil:
		return "same"
	case s.good.Live.FindDocument(chunk.Document) < 0:
		return "added"
	case s.bad.Live.FindDocument(chunk.Document) < 0:
		return "removed"
	}
	return "changed"
}

// findDocument finds out what became of the document itself, and puts it first.
func (s *search) findDocument() {
	text, change, now := "", s.changeOf(s.lost), placeOf(s.order, s.lost.ID)
	switch {
	case change == "removed":
		text = "was removed, or has another key"
	case change == "changed":
		text = "changed, or is cut otherwise: the passage is not in it any more"
	case now > 0 && s.order[now-1].Version != s.lost.Version:
		text = "changed, and the passage is still in it"
	default:
		return
	}
	proven := slices.ContainsFunc(s.out.Causes, func(cause Cause) bool { return cause.Confirmed })
	s.out.Causes = slices.Insert(s.out.Causes, 0, Cause{
		Kind: "document", Change: strings.Replace(change, "same", "changed", 1), Object: s.lost.Document,
		Text: fmt.Sprintf("document %q %s", s.lost.Document, text), Confirmed: change != "same" && !proven,
	})
}

// withoutEffect are names of settings that no ranking depends on.
var withoutEffect = regexp.MustCompile(`(^|\.)(answer|budget|currency|failures|gate|grace|index|keep|limits|overlay|` +
	`base_url|api_key_env|timeout|trust_domain|price|batch|mode|file)(\.|$)`)

// findSettings finds settings, models and rules of the program that differ. Those that a query may have otherwise are
// tried: the bad generation is asked with the settings of the good one.
func (s *search) findSettings(ctx context.Context) error {
	for _, change := range s.bad.Manifest.Made.ListChanges(s.good.Manifest.Made) {
		s.add("program", "changed", change, "the program builds by other rules: %s", change)
	}
	was, is := s.good.Spec.ListSettings(), s.bad.Spec.ListSettings()
	both, from := maps.Clone(was), 0
	maps.Copy(both, is)
	for _, ofQueries := range []bool{false, true} {
		from = len(s.out.Causes)
		for _, name := range slices.Sorted(maps.Keys(both)) {
			short := strings.TrimPrefix(name, "indexes."+s.bad.Spec.Index+".")
			tried := slices.Contains([]string{"retrieval.method", "retrieval.rule", "retrieval.top_chunks"}, short)
			if was[name] != is[name] && tried == ofQueries && !withoutEffect.MatchString(short) {
				s.add("setting", "changed", name, "%s was %s and is %s", name, core.ShowSetting(was[name]),
					core.ShowSetting(is[name]))
			}
		}
	}
	return s.confirm(ctx, from, func(body *answer.Request) {
		top := answer.Count(s.out.Good.Top)
		body.Method, body.Rule, body.TopChunks = s.before.Method, s.before.Rule, &top
	})
}

// findAbove finds documents that the night brought above the document in the bad generation, and asks it without them.
func (s *search) findAbove(ctx context.Context) error {
	from, without, above := len(s.out.Causes), []string{}, s.order
	if rank := s.rankIn(above); rank > 0 {
		above = above[:rank-1]
	}
	for i, chunk := range above {
		key, change := chunk.Document, s.changeOf(chunk)
		if change != "same" && key != s.lost.Document && !s.isExpected(chunk) && !slices.Contains(without, key) {
			without = append(without, key)
			s.add("passage_above", change, key, "document %q was %s and is at rank %d", key, change, i+1)
		}
	}
	return s.confirm(ctx, from, func(body *answer.Request) { body.Without.Documents = without })
}

// findEntities finds out what became of the entities through which the good generation found the passage, and which
// new ones the bad generation searches from; it asks that one without them.
func (s *search) findEntities(ctx context.Context) error {
	for _, entity := range s.lost.Entities {
		was, is := s.good.Live.FindClass(idOf(entity.ID)), s.bad.Live.FindClass(idOf(entity.ID))
		switch {
		case is == nil:
			s.add("entity", "removed", entity.Name, "entity %q is gone, or merged into another", entity.Name)
		case was.Record != is.Record:
			s.add("entity", "changed", entity.Name, "entity %q is described otherwise", entity.Name)
		}
	}
	from, without := len(s.out.Causes), []string{}
	for _, entity := range s.after.Entities {
		if s.good.Live.FindClass(idOf(entity.ID)) == nil {
			without = append(without, entity.ID)
			s.add("entity", "added", entity.Name, "entity %q is new, and the search starts from it, at rank %d", entity.Name,
				entity.Rank)
		}
	}
	return s.confirm(ctx, from, func(body *answer.Request) { body.Without.Entities = without })
}
