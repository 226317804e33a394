package retrieve

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/postings"
)

// HasLabels reports whether the documents of the generation have labels: it answers by View alone then.
func (g *Generation) HasLabels() bool { return g.Manifest.Labelled || g.Spec.ReadAs().Labels.IsOn() }

// whole returns the generation, of a view that which it is a view of.
func (g *Generation) whole() *Generation {
	if g.base != nil {
		return g.base
	}
	return g
}

// ViewKey says which documents a view is of; empty: the documents of the generation have no labels.
func (g *Generation) ViewKey() string { return g.visible }

// checkView refuses to answer from documents that nobody asked whether they may be read.
func (g *Generation) checkView() error {
	if g.base == nil && g.HasLabels() {
		return fault.Internal.At("answer from generation", g.Manifest.Generation).
			Because("its documents have labels, and it was opened for no reader").Advise("report this")
	}
	return nil
}

// View returns what somebody sees of a generation who holds some labels: a generation as if no other documents existed.
// It takes the caller's hold over: closing it closes the generation. One without labels is its own view.
// Who may read the same documents shares a view; the first request for one makes it, in a time that follows from the
// number of documents and entities. Those used last are kept, as many as memory was taken for (EstimateFootprint).
func (g *Generation) View(ctx context.Context, readers core.Readers) (*Generation, error) {
	if !g.HasLabels() || g.base != nil {
		return g, nil
	}
	seen := []string{"labels"}
	for _, set := range g.views.listSets(g.Live) {
		if readers.MayRead(set) {
			seen = append(seen, string(set))
		}
	}
	one := g.views.take(strings.Join(seen, "\n"))
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.made == nil {
		made, err := g.newView(ctx, readers, one.key)
		if err != nil {
			return nil, err
		}
		one.made = made
		g.views.dropOldest(one, viewSize(made.Live), viewBytes(g.Manifest))
	}
	return one.made, nil
}

// newView numbers what may be read. It ends with the context.
func (g *Generation) newView(ctx context.Context, readers core.Readers, key string) (*Generation, error) {
	set, err := g.Live.Restrict(ctx, g.Manifest.Index, readers.MayRead)
	if err != nil {
		return nil, err
	}
	manifest := *g.Manifest
	documents, chunks, classes := set.Counts()
	tokens, windows := set.SumChunks()
	manifest.Counts = core.Counts{
		Documents: int64(documents), Chunks: int64(chunks), Classes: int64(classes), Edges: int64(len(set.Graph.ClassTo)),
		Tokens: tokens, Windows: windows,
	}
	view := &Generation{
		Manifest: &manifest, Spec: g.Spec, Release: g.Release, cache: g.cache, art: g.art, texts: g.texts, docs: g.docs,
		extracts: g.extracts, base: g, visible: key,
	}
	return view, view.setLive(set, countHidden, nil)
}

// views are the views of a generation, by what they are of.
type views struct {
	mu    sync.Mutex
	sets  []core.LabelSet // of its documents
	known map[string]*view
	order []*view // those used last at the end
}

// view is one of them; it is being made while its lock is held.
type view struct {
	key   string
	bytes int64

	mu   sync.Mutex
	made *Generation
}

// listSets returns the different sets of labels of a generation's documents.
func (v *views) listSets(live *liveset.Set) []core.LabelSet {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.sets == nil {
		v.sets = live.LabelSets()
	}
	return v.sets
}

// take returns the view of a key.
func (v *views) take(key string) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = map[string]*view{}
	}
	one := v.known[key]
	if one == nil {
		one = &view{key: key}
		v.known[key] = one
	}
	v.order = append(slices.DeleteFunc(v.order, func(other *view) bool { return other == one }), one)
	return one
}

// dropOldest notes the size of a view that was made, and drops others until all together are small enough. Requests
// that have one keep it.
func (v *views) dropOldest(made *view, size, most int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	made.bytes = size
	sum := int64(0)
	for _, one := range v.order {
		sum += one.bytes
	}
	v.order = slices.DeleteFunc(v.order, func(one *view) bool {
		if sum <= most || one == made || one.bytes == 0 {
			return false
		}
		sum -= one.bytes
		delete(v.known, one.key)
		return true
	})
}

// viewBytes returns how many bytes the views of a generation may hold: two that are of all documents.
func viewBytes(manifest *core.Manifest) int64 { return 3 * estimateLiveBytes(manifest) }

// viewSize returns about how many bytes a view holds.
func viewSize(live *liveset.Set) int64 {
	documents, chunks, classes := live.Counts()
	rows := len(live.AllNumbers()) + len(live.AllPlaces())
	return int64(4*rows + 12*documents + 16*chunks + 80*classes + 8*len(live.Graph.ClassTo))
}

// countHidden counts what the dead rows of a side count: of a view, those that may not be read among them. Words are
// counted when they are asked for.
func countHidden(_ string, parts []lexical.Part) lexical.Dead {
	out := &hiddenCounts{parts: parts, known: map[string]uint64{}}
	for _, part := range parts {
		for row, length := range part.Side.Lengths {
			if part.Dead.IsDead(row) {
				out.totals.Documents++
				out.totals.Terms += uint64(length)
			}
		}
	}
	return out
}

// hiddenCounts is lexical.Dead of a view.
type hiddenCounts struct {
	parts  []lexical.Part
	totals postings.Totals

	mu    sync.Mutex
	known map[string]uint64
}

// mostHidden words are remembered.
const mostHidden = 10_000

// Totals implements lexical.Dead.
func (h *hiddenCounts) Totals() postings.Totals { return h.totals }

// Frequency implements lexical.Dead.
func (h *hiddenCounts) Frequency(term string) (dead uint64) {
	h.mu.Lock()
	dead, ok := h.known[term]
	h.mu.Unlock()
	if ok {
		return dead
	}
	for _, part := range h.parts {
		list, held := part.Side.Find(term)
		if !held {
			continue
		}
		rows, _ := list.All()
		for _, row := range rows {
			if part.Dead.IsDead(int(row)) {
				dead++
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.known) >= mostHidden {
		clear(h.known)
	}
	h.known[strings.Clone(term)] = dead
	return dead
}
