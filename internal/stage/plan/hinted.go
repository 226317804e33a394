package plan

import (
	"context"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
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
	var names []string
	for key := range p.hinted {
		if key != "" && !strings.HasSuffix(key, "/") { // markers of folders, which no listing has
			names = append(names, key)
		}
	}
	slices.Sort(names)
	found := make([]bool, len(names))
	err := parallel.Each(ctx, len(names), hintedAtOnce, func(ctx context.Context, i int) (err error) {
		part := &listing{planner: p, number: i}
		defer part.addCounts()
		if found[i], err = part.lookUp(ctx, names[i]); err == nil {
			_, err = part.lookUp(ctx, names[i]+document.SidecarSuffix)
		}
		return err
	})
	if reported := p.tellListed(); err == nil {
		err = reported
	}
	if err == nil && slices.Contains(found, false) {
		err = p.checkCorpus(ctx)
	}
	return err
}

// lookUp lists one object by its name, where it is there. An error of the store ends the stage, as one of a listing
// does: an object of which nothing is known must not count as removed.
func (l *listing) lookUp(ctx context.Context, key string) (found bool, err error) {
	info, err := l.Corpus.Stat(ctx, key)
	switch {
	case fault.Is(err, fault.NotFound):
		return false, nil
	case fault.Is(err, fault.NotFollowed), fault.Is(err, fault.Unreadable):
		return true, l.listObject(ctx, blob.Info{Key: key}, err)
	case err != nil:
		return false, err
	}
	return true, l.listObject(ctx, info, nil)
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
