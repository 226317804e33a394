package plan

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// hintedAtOnce is how many objects are asked for at once by name.
const hintedAtOnce = 16

// readCorpus puts what is to be compared with the parent into the sort: the whole corpus, or the objects of In.Hinted.
// Where links are followed the corpus is listed all the same: which of two links to one folder counts, a listing alone
// says.
func (p *planner) readCorpus(ctx context.Context) error {
	if p.Hinted == nil || p.Spec.FollowLinks {
		return p.listCorpus(ctx)
	}
	p.reading, p.hinted = make(chan struct{}, readers), map[string]bool{}
	for _, key := range p.Hinted {
		p.hinted[strings.TrimSuffix(key, document.SidecarSuffix)] = true
	}
	names := slices.Sorted(maps.Keys(p.hinted))
	err := parallel.Each(ctx, len(names), hintedAtOnce, func(ctx context.Context, i int) error {
		part := &listing{planner: p, number: i}
		defer part.addCounts()
		return part.lookUp(ctx, names[i])
	})
	if reported := p.tellListed(); err == nil {
		err = reported
	}
	if err == nil && p.listed == 0 {
		err = p.checkCorpus(ctx)
	}
	return err
}

// lookUp lists an object and its metadata by their names, where they are there. A listing says what a name is, so that
// one which no object can have is one that is not there.
func (l *listing) lookUp(ctx context.Context, key string) error {
	if key == "" || strings.HasSuffix(key, "/") { // the marker of a folder, which no listing has
		return nil
	}
	for _, name := range []string{key, key + document.SidecarSuffix} {
		if err := l.listRange(ctx, name, "", name); err != nil {
			return err
		}
	}
	return nil
}

// checkCorpus refuses to take objects for removed where the corpus has none at all: a folder that is not mounted would
// look the same.
func (p *planner) checkCorpus(ctx context.Context) error {
	for info, err := range p.Corpus.List(ctx, "", "") {
		if err != nil && info.Key == "" {
			return err
		}
		return nil
	}
	return p.emptyFault()
}
