package retrieve

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// allowed is the induced subgraph of a query.
type allowed struct {
	generation *Generation
	filter     Filter
	without    Without
	inForce    *TimeView // nil: of no time
	lo, hi     int       // documents by prefix
	all        bool
	rest       Filter          // without the prefix, which lo and hi have
	verdicts   verdicts        // of rest; nil: it leaves everything in
	few        []uint32        // chunks, where few are left in and more than half are not; nil: it is not so, or not known
	share      float64         // of the chunks that listFew looked at; 0: it did not
	known      []int8          // of each document: 1 it is allowed, -1 it is not, 0 it was not asked for; nil: none was
	ctx        context.Context //nolint:containedctx // once it is over, nothing is read for the question
}

func (g *Generation) newAllowed(ctx context.Context, query Query) *allowed {
	documents, _, _ := g.Live.Counts()
	a := &allowed{
		generation: g,
		filter:     query.Filter,
		without:    query.Without,
		hi:         documents,
		ctx:        ctx,
	}
	if !query.AsOf.IsZero() {
		a.inForce = g.ViewVersions(query.AsOf, query.Without.Documents)
	}
	a.rest = query.Filter
	if a.rest.Prefix = ""; !a.rest.IsEmpty() {
		a.verdicts = g.verdicts.open(&a.rest, documents)
	}
	a.all = query.Filter.IsEmpty() && len(query.Without.Documents) == 0 && (a.inForce == nil || len(g.versions.of) == 0)
	if query.Filter.Prefix != "" {
		a.lo, a.hi = g.findPrefix(query.Filter.Prefix)
	}
	return a
}

func (a *allowed) allowsChunk(chunk *liveset.Chunk) bool {
	return a.all || a.ofDocument(chunk.Document)
}

// allowsNumber reports whether the chunk of a number is allowed.
func (a *allowed) allowsNumber(n uint32) bool {
	return a.all || a.ofDocument(a.generation.Live.DocumentOf(n))
}

func (a *allowed) ofDocument(i uint32) bool {
	if a.known == nil {
		documents, _, _ := a.generation.Live.Counts()
		a.known = make([]int8, documents)
	}
	if a.known[i] == 0 {
		a.known[i] = -1
		if a.allowsDocument(int(i)) {
			a.known[i] = 1
		}
	}
	return a.known[i] > 0
}

func (a *allowed) allowsDocument(i int) bool {
	if i < a.lo || i >= a.hi || a.ctx.Err() != nil || a.without.Documents[a.generation.Live.Key(i)] || !a.holds(i) {
		return false
	}
	if a.verdicts == nil {
		return true
	}
	meets, known := a.verdicts.find(i)
	if !known {
		meets = a.rest.allows(a.readFields(i))
		a.verdicts.note(i, meets)
	}
	return meets
}

// holds reports whether a document is in force at the time of the question, where it has one.
func (a *allowed) holds(i int) bool {
	return a.inForce == nil || a.inForce.holds(uint32(i)) //nolint:gosec // documents are counted in 32 bits
}

// readFields returns what filters look at of a document.
func (a *allowed) readFields(i int) *documentFields {
	meta, modified := a.generation.Live.FilterFields(i)
	return &documentFields{key: a.generation.Live.Key(i), meta: meta, modified: modified}
}

// listFew returns the numbers of the chunks that are left in, where they are at most fetchedRows and less than half of
// all; else nil. share is that of the chunks left in among those it looked at, above 0.
func (a *allowed) listFew() (few []uint32, share float64) {
	if a.share > 0 || a.all {
		return a.few, cmp.Or(a.share, 1)
	}
	_, chunks, _ := a.generation.Live.Counts()
	few = []uint32{}
	looked := 0
	for ; looked < chunks && len(few) <= fetchedRows; looked++ {
		if number := uint32(looked); a.allowsNumber(number) { //nolint:gosec // chunks are counted in 32 bits
			few = append(few, number)
		}
	}
	a.share = max(1, float64(len(few))) / float64(max(1, looked))
	if len(few) <= fetchedRows && 2*len(few) < chunks {
		a.few = few
	}
	return a.few, a.share
}

// IsEmpty reports whether the filter leaves everything in.
func (f *Filter) IsEmpty() bool {
	return f.Prefix == "" && len(f.Metadata) == 0 && f.From.IsZero() && f.To.IsZero() && len(f.Any) == 0
}

// allows reports whether a document meets the filter.
func (f *Filter) allows(document *documentFields) bool {
	for i := range f.Metadata {
		if !f.Metadata[i].allows(document) {
			return false
		}
	}
	return (f.From.IsZero() || !document.modified.Before(f.From)) && (f.To.IsZero() || document.modified.Before(f.To)) &&
		strings.HasPrefix(document.key, f.Prefix) &&
		(len(f.Any) == 0 || slices.ContainsFunc(f.Any, func(one Filter) bool { return one.allows(document) }))
}

// allowsNone reports whether no document is left in.
func (a *allowed) allowsNone() bool {
	for i := a.lo; i < a.hi; i++ {
		if a.all || a.ofDocument(uint32(i)) { //nolint:gosec // documents are counted in 32 bits
			return false
		}
	}
	return true
}

// explainNone returns why no document is left in, as a reason and in words. A field of metadata that no document has
// is probably a wrong name, so the words name those there are.
func (a *allowed) explainNone() (reason, words string) {
	documents, _, _ := a.generation.Live.Counts()
	unknown, known := map[string]bool{}, map[string]bool{}
	a.filter.listRequired(unknown)
	for i := 0; i < documents && len(unknown) > 0 && a.ctx.Err() == nil; i++ {
		meta, _ := a.generation.Live.FilterFields(i)
		for name := range meta {
			delete(unknown, name)
			known[name] = true
		}
	}
	if len(unknown) == 0 {
		_, parts := a.explainParts()
		return NoDocument, "No document is left by " + a.nameParts() + "." + parts
	}
	names := slices.Sorted(maps.Keys(known))
	more := ""
	if len(names) > mostNamed {
		names, more = names[:mostNamed], ", …"
	}
	words = fmt.Sprintf("No document has a field of metadata %.80q", slices.Min(slices.Collect(maps.Keys(unknown))))
	if len(names) == 0 {
		return UnknownField, words + "; none has any field."
	}
	return UnknownField, words + "; known: " + strings.Join(names, ", ") + more + "."
}

// mostNamed fields of metadata, or parts of a filter, are named.
const mostNamed = 20

// listRequired adds the fields without which a condition is not met.
func (f *Filter) listRequired(to map[string]bool) {
	for i := range f.Metadata {
		if !f.Metadata[i].allows(&documentFields{}) {
			to[f.Metadata[i].Field] = true
		}
	}
	for i := range f.Any {
		f.Any[i].listRequired(to)
	}
}

// explainFilter returns how many documents the filter leaves in, and why no more; empty without one.
func (a *allowed) explainFilter() string {
	out := ""
	if !a.all {
		documents, _, _ := a.generation.Live.Counts()
		left, parts := a.explainParts()
		out = fmt.Sprintf("%s leave %d of %d documents.", a.nameParts(), left, documents) + parts
	} else if a.inForce != nil {
		out = "as_of leaves all documents: none says when it holds or what it supersedes."
	}
	versions := &a.generation.versions
	out += " " + versions.cycles
	if versions.unknown > 0 {
		out += fmt.Sprintf(" Keys that supersedes names and no document has: %d.", versions.unknown)
	}
	return strings.TrimSpace(out)
}

// nameParts names what narrows a question.
func (a *allowed) nameParts() string {
	if a.inForce == nil {
		return "filter and without"
	}
	return "filter, without and as_of"
}

// explainParts returns how many documents are left in, and in words how many each part of the filter leaves in when it
// is alone, and of how many a range cannot compare the value.
func (a *allowed) explainParts() (whole int, words string) {
	parts := a.filter.listParts()
	documents, _, _ := a.generation.Live.Counts()
	left, other, inForce := make([]int, len(parts)), make([]int, len(parts)), 0
	for i := 0; i < documents && a.ctx.Err() == nil; i++ {
		document, holds := a.readFields(i), a.holds(i)
		if holds {
			inForce++
		}
		if holds && a.filter.allows(document) && !a.without.Documents[document.key] {
			whole++
		}
		for j := range parts {
			filter := &parts[j].filter
			switch {
			case filter.allows(document):
				left[j]++
			case len(filter.Metadata) > 0 && filter.Metadata[0].isOther(document):
				other[j]++
			}
		}
	}
	var out []string
	for j, part := range parts {
		said := fmt.Sprintf("%s: %d of %d", part.words, left[j], documents)
		if other[j] > 0 {
			said += fmt.Sprintf(" (%d have a value of another kind)", other[j])
		}
		out = append(out, said)
	}
	if a.inForce != nil {
		out = append(out, fmt.Sprintf("as_of %s: %d of %d", a.inForce.describeTime(), inForce, documents))
	}
	if len(out) == 0 {
		return whole, ""
	}
	return whole, " Each part alone leaves: " + strings.Join(out, "; ") + "."
}

// filterPart is one part of a filter, and how people read it.
type filterPart struct {
	words  string
	filter Filter
}

// listParts returns the first parts of a filter.
func (f *Filter) listParts() (out []filterPart) {
	if f.Prefix != "" {
		out = append(out, filterPart{fmt.Sprintf("document_prefix %.80q", f.Prefix), Filter{Prefix: f.Prefix}})
	}
	for _, condition := range f.Metadata {
		words := fmt.Sprintf("%.80s %.160s", condition.Field, condition.Words)
		out = append(out, filterPart{words, Filter{Metadata: []Condition{condition}}})
	}
	if !f.From.IsZero() || !f.To.IsZero() {
		out = append(out, filterPart{"modified", Filter{From: f.From, To: f.To}})
	}
	if len(f.Any) > 0 {
		out = append(out, filterPart{fmt.Sprintf("or (%d filters)", len(f.Any)), Filter{Any: f.Any}})
	}
	return out[:min(len(out), mostNamed)]
}

// testNumbers returns the test of chunk numbers; nil when every chunk is allowed.
func (a *allowed) testNumbers() func(uint32) bool {
	if a.all {
		return nil
	}
	return a.allowsNumber
}

// testPlaces returns the test of classes by place: a class is allowed with one allowed chunk; nil when every class is.
func (a *allowed) testPlaces() func(uint32) bool {
	if a.all && len(a.without.Entities) == 0 {
		return nil
	}
	return func(p uint32) bool {
		if a.without.Entities[a.generation.Live.ClassID(p)] {
			return false
		}
		if a.all {
			return true
		}
		for _, n := range a.generation.Live.Graph.ChunksOf(p) {
			if a.allowsNumber(n) {
				return true
			}
		}
		return false
	}
}

// toView returns the induced subgraph for a walk.
func (a *allowed) toView() walk.View {
	view := walk.View{Chunk: a.testNumbers()}
	if len(a.without.Entities) > 0 {
		view.Class = func(p uint32) bool { return !a.without.Entities[a.generation.Live.ClassID(p)] }
	}
	return view
}
