package extract

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/entitytype"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Chooser chooses the request that a chunk is extracted by, where some keep an earlier one. What it chooses follows
// from the parent and from what the plan fixed, and never from what the ledger has: a run that goes on chooses as it
// began.
type Chooser struct {
	Asked core.Asked
	// Former reads what the parent has of a chunk; false: it has nothing.
	Former func(ctx context.Context, id core.ID) (rows.Extract, bool, error)

	own     []string         // by earlier request: its ownVersion
	changed [][]string       // by earlier request: types that differ
	terms   map[string]terms // names that stand for a type, by type
}

// terms are keys of names.
type terms []string

// NewChooser returns one; nil where no chunk keeps an earlier request.
func NewChooser(
	asked core.Asked, former func(ctx context.Context, id core.ID) (rows.Extract, bool, error),
) *Chooser {
	if len(asked.Earlier) == 0 {
		return nil
	}
	out := &Chooser{Asked: asked, Former: former, terms: map[string]terms{}}
	out.addTerms(asked.Request)
	for _, earlier := range asked.Earlier {
		out.own = append(out.own, ownVersion(earlier))
		out.changed = append(out.changed, asked.Request.Changed(earlier))
		out.addTerms(earlier)
	}
	return out
}

// addTerms takes the names of types, and of the entities of examples.
func (c *Chooser) addTerms(of core.Request) {
	for _, kind := range of.Types {
		c.terms[kind] = append(c.terms[kind], names.Key(kind, false))
	}
	var examples []entitytype.Example
	_ = json.Unmarshal([]byte(of.Examples), &examples) // none: they were checked when they were read
	for _, example := range examples {
		for _, one := range example.Entities {
			c.terms[one.Type] = append(c.terms[one.Type], names.Key(one.Name, false))
		}
	}
}

// chooseFor returns the specification by which a chunk is extracted.
func (c *Chooser) chooseFor(
	ctx context.Context, spec core.Spec, info model.Info, id core.ID, content string,
) (core.Spec, error) {
	if c == nil || !info.Paid {
		return spec, nil
	}
	was, found, err := c.Former(ctx, id)
	if err != nil || !found || was.Key.IsZero() {
		return spec, err
	}
	for i, earlier := range c.Asked.Earlier {
		if keyOf(info, versionWith(spec, c.own[i], content), content) != was.Key {
			continue
		}
		if c.Asked.Apply == core.ApplyMentions && c.isConcerned(was, spec, content, c.changed[i]) {
			return spec, nil
		}
		return spec.WithRequest(earlier), nil
	}
	return spec, nil
}

// isConcerned reports whether a chunk names what has a type that changed: by what was extracted from it, or by the name
// of such a type, or of an example of it, in its text. Without types, what else changed concerns every chunk.
func (c *Chooser) isConcerned(was rows.Extract, spec core.Spec, content string, changed []string) bool {
	if len(changed) == 0 || slices.ContainsFunc(was.Entities, func(one rows.Entity) bool {
		return one.Type != "" && slices.Contains(changed, one.Type)
	}) {
		return true
	}
	folded := names.NewTextOf(text.LanguageOf(spec.Retrieval.Language), content)
	for _, kind := range changed {
		for _, name := range c.terms[kind] {
			if name != "" && len(folded.Spans(name, 1)) > 0 {
				return true
			}
		}
	}
	return false
}
