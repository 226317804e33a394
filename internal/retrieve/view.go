package retrieve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/stream/parallel"
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
// It takes the caller's hold over, unless it fails: closing it closes the generation. One without labels is its view.
// Who may read the same documents shares a view; the first request for one makes it, in a time that follows from the
// number of documents and entities. Those used last are kept, as many as memory was taken for (EstimateFootprint).
func (g *Generation) View(ctx context.Context, readers core.Readers) (*Generation, error) {
	if !g.HasLabels() || g.base != nil {
		return g, nil
	}
	one, first := g.views.take(g.views.findKey(g.Live, readers))
	defer g.views.leaveView(one)
	if first {
		g.Hold() // the caller holds it, so that it is open
		go g.makeView(one, readers)
	}
	select {
	case <-one.done:
		if ctx.Err() == nil || one.err == nil {
			return one.made, one.err
		}
	case <-ctx.Done():
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, ctx.Err()
	}
	return nil, g.newViewBusy()
}

func (g *Generation) newViewBusy() error {
	return fault.GenBusy.At("open generation", g.Manifest.Generation).
		Because("what may be read of it is still being numbered").Advise("try again in a moment")
}

// makeView makes a view when its turn comes, unless no one waits for it then.
func (g *Generation) makeView(one *view, readers core.Readers) {
	defer g.Close()
	leave := g.views.enter()
	defer leave()
	if !g.views.isAwaited(one) {
		return
	}
	defer close(one.done)
	defer g.views.keepView(one, viewBytes(g.Manifest))
	defer parallel.CatchPanic(&one.err)
	one.made, one.err = g.newView(context.Background(), readers, one.key)
}

// newView numbers what may be read.
func (g *Generation) newView(ctx context.Context, readers core.Readers, key string) (*Generation, error) {
	set, err := g.Live.Restrict(ctx, g.Manifest.Index, readers.Filter())
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

// SeenDigest returns a digest of all that an answer of a view follows from: its documents, passages and entities, the
// settings of retrieval, and what enrichments made. Two views with one digest give every question the same
// passages. It reads the whole view.
func (g *Generation) SeenDigest() core.Digest {
	documents, chunks, classes := g.Live.Counts()
	settings, _ := json.Marshal([]any{ // plain values
		g.Spec.Retrieval, g.Spec.Parity, g.Manifest.Enriched, g.Manifest.Class, g.Manifest.Chunk, documents, chunks, classes,
	})
	sum := core.NewSumming()
	sum.Add(string(settings))
	for document := range documents {
		_, at := g.Live.FilterFields(document)
		sum.Add(g.Live.Key(document), string(g.Live.MetaBytes(document)), at.String())
	}
	for number := range chunks {
		chunk := g.Live.ByNumber(number)
		sum.Add(string(chunk.ID[:]), string(chunk.Digest[:]), fmt.Sprint(chunk.Document, chunk.Windows, chunk.Ordinal))
	}
	for place := range uint32(classes) {
		for _, row := range g.Live.RowsOfClass(place) {
			sum.Add(string(row.ID[:]), string(row.Row[:]), string(row.Record[:]), string(row.Vector[:]))
		}
		sum.Add(fmt.Sprint(g.Live.Graph.ChunksOf(place)))
	}
	return sum.Digest()
}

// views are the views of a generation, by what they are of.
type views struct {
	mu    sync.Mutex
	sets  []core.LabelSet        // of its documents
	keys  map[core.Digest]string // of views, by what a caller holds: of some callers of late
	known map[string]*view
	order []*view // those used last at the end

	making chan struct{} // holds one for each that is being made
}

// mostMaking views of a generation are made at once: each takes a core, and memory for all rows.
const mostMaking = 2

// enter waits until a view may be made, and returns what lets another be made.
func (v *views) enter() (leave func()) {
	v.mu.Lock()
	if v.making == nil {
		v.making = make(chan struct{}, mostMaking)
	}
	making := v.making
	v.mu.Unlock()
	making <- struct{}{}
	return func() { <-making }
}

// isAwaited reports whether somebody waits for a view. One that no one waits for is forgotten.
func (v *views) isAwaited(one *view) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one.waiting > 0 {
		return true
	}
	delete(v.known, one.key)
	v.order = slices.DeleteFunc(v.order, func(other *view) bool { return other == one })
	return false
}

// leaveView counts a request out that took a view.
func (v *views) leaveView(one *view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	one.waiting--
}

// view is one of them.
type view struct {
	key     string
	bytes   int64 // 0: it is being made
	waiting int   // requests that wait for it; guarded by views, as bytes

	done chan struct{} // closed when it was made, or could not be
	made *Generation
	err  error
}

// mostKeys of views are remembered by what a caller holds.
const mostKeys = 1_000

// findKey returns the key of what readers see of a generation's documents, which all who may read the same have in
// common.
func (v *views) findKey(live *liveset.Set, readers core.Readers) string {
	caller := core.Sum(append([]string{strconv.FormatBool(readers.All)}, readers.Labels...)...)
	v.mu.Lock()
	defer v.mu.Unlock()
	if key, known := v.keys[caller]; known {
		return key
	}
	if v.sets == nil {
		v.sets = live.LabelSets()
	}
	may, seen := readers.Filter(), []string{"labels"}
	for _, set := range v.sets {
		if may(set) {
			seen = append(seen, string(set))
		}
	}
	if v.keys == nil || len(v.keys) == mostKeys {
		v.keys = map[core.Digest]string{}
	}
	v.keys[caller] = core.Sum(seen...).String()
	return v.keys[caller]
}

// take returns the view of a key, and whether the caller is to make it.
func (v *views) take(key string) (one *view, first bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = map[string]*view{}
	}
	if one = v.known[key]; one == nil {
		one, first = &view{key: key, done: make(chan struct{})}, true
		v.known[key] = one
	}
	one.waiting++
	v.order = append(slices.DeleteFunc(v.order, func(other *view) bool { return other == one }), one)
	return one, first
}

// keepView takes over a view that was made, and drops others until all together are small enough; requests that have
// one keep it. One that could not be made is made again by the next request.
func (v *views) keepView(made *view, most int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if made.err == nil {
		made.bytes = viewSize(made.made.Live)
	}
	sum := int64(0)
	for _, one := range v.order {
		sum += one.bytes
	}
	v.order = slices.DeleteFunc(v.order, func(one *view) bool {
		if one == made && made.err == nil || one != made && (one.bytes == 0 || sum <= most) {
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
