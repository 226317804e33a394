// Package retrieve answers a question with the chunks of one generation: it searches, collects the ballots of classes,
// and elects chunks. It opens a generation as a handle, so that a query sees exactly one. It knows nothing of HTTP.
//
//	generation.go, rows.go   an open generation and what it holds
//	method.go, param.go      what a method is, and the registry of them
//	method_*.go              one method each
//	query.go, search.go      a query under way: searches, ballots, filling up
//	filter.go                what filter and without leave in
package retrieve

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/idf"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/text"
)

// Generation is an open generation. It is safe for concurrent use; it closes when the last holder lets go of it.
type Generation struct {
	Manifest *core.Manifest
	Spec     core.Spec
	Release  int64 // the pointer's epoch it was opened with
	Live     *liveset.Set
	IDF      *idf.Table // of the built-in embedder; nil: none

	cache      *localfile.Cache
	mapped     []string // contents of the files that it may have mapped
	release    func()   // lets go of the files of Live
	releaseIDF func()
	chunkWords sideWords
	classWords sideWords
	graph      *walk.Graph

	titlesNamed float64 // measureTitles
	versions    versions
	verdicts    verdictCache

	art      artifact.Index
	texts    map[uint32]*textseg.Reader
	docs     map[uint32]*artifact.Reader
	extracts map[uint32]*artifact.Reader
	refs     atomic.Int64
	left     func(holders int64)

	parts sync.Map // name → *part: what methods read beside

	views   views       // where documents have labels: what readers see of it
	base    *Generation // of a view: what it is a view of; nil: it is none
	visible string      // of a view: the sets of labels of documents that may be read
}

// Opening says what to open, and from where.
type Opening struct {
	Artifacts blob.Store
	Cache     *localfile.Cache
	Vectors   vectors.Store
	Index     string
	Manifest  string // its sha256
	Release   int64  // the pointer's epoch

	// Admit, where set, is asked once, when the manifest is known and before anything is copied, with what the
	// generation will hold (see Footprint); what it waits does not count as time of the opening. Its error ends that.
	Admit func(ctx context.Context, bytes int64) error
	// Left, where set, is called whenever a holder has let go, with how many are left: 0, once, when all is unmapped.
	Left func(holders int64)
}

// Open opens the generation: its splits and class runs are copied and mapped, other segments are read by range, the
// collections are loaded, all beside each other. The caller holds it and must Close it; ending ctx ends the opening
// and nothing else, and so does a time that follows from what there is to copy. Errors: fault.SegmentDamage also where
// the manifest or what it names is gone, fault.FormatUnknown for segments of another version or analyser, those of the
// stores, and Admit's.
func (o Opening) Open(ctx context.Context) (*Generation, error) {
	store, cache := blob.Store(whole{o.Artifacts, o.Index}), o.Cache
	art := artifact.Index{Store: store, Name: o.Index}
	first, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	content, err := art.Manifest(first, o.Manifest)
	if err != nil {
		return nil, err
	}
	content.Index = o.Index // a branch made it, where it was promoted
	if o.Admit != nil {
		if err := o.Admit(ctx, EstimateFootprint(content)); err != nil {
			return nil, err
		}
	}
	ctx, cancel = context.WithTimeout(ctx, patienceOf(content))
	defer cancel()
	generation := &Generation{
		Manifest: content,
		Release:  o.Release,
		art:      art,
		texts:    map[uint32]*textseg.Reader{},
		docs:     map[uint32]*artifact.Reader{},
		extracts: map[uint32]*artifact.Reader{},
		left:     o.Left,
		cache:    cache,
		mapped:   mappedFiles(content.Segments),
	}
	if generation.Spec, err = art.Spec(ctx, content.Spec); err != nil {
		return nil, err
	}
	if err := generation.mapSet(ctx, cache); err != nil {
		return nil, err
	}
	generation.refs.Store(1)
	if err := parallel.RunTogether(ctx,
		func(ctx context.Context) error { return generation.mapIDF(ctx, cache) },
		generation.openRows,
		func(ctx context.Context) error { return generation.loadVectors(ctx, o.Vectors) },
	); err != nil {
		generation.Close()
		return nil, err
	}
	return generation, nil
}

const (
	// openPatience is how long an opening may take that copies nothing.
	openPatience = 10 * time.Minute
	// slowestCopy is what a store gives in a second at least; one that is slower does not serve.
	slowestCopy = 2 << 20
)

// eachMapped calls f with the files that an open generation has mapped. Those of enrichments are mapped when they are
// asked for.
func eachMapped(segments core.Segments, f func(core.Segment)) {
	for _, one := range segments.IDF {
		f(one)
	}
	for _, one := range segments.Runs {
		f(one.Segment)
	}
	for _, one := range segments.Splits {
		f(one.Segment)
	}
	for _, one := range segments.Tombs {
		f(one.Segment)
	}
	for _, one := range segments.DeadStats {
		f(one.Segment)
	}
	for _, one := range segments.Enriched {
		if one.Kind != core.EnrichedLedger {
			f(one.Segment)
		}
	}
}

// mappedBytes returns the size of the files that an open generation has mapped, with room for those of enrichments.
func mappedBytes(segments core.Segments) (bytes int64) {
	eachMapped(segments, func(one core.Segment) { bytes += one.Bytes })
	return bytes
}

// mappedFiles returns the digests of their contents.
func mappedFiles(segments core.Segments) (contents []string) {
	eachMapped(segments, func(one core.Segment) { contents = append(contents, one.SHA256) })
	return contents
}

// patienceOf returns how long the opening of a generation may take: the larger its files, the longer.
func patienceOf(manifest *core.Manifest) time.Duration {
	return openPatience + time.Duration(mappedBytes(manifest.Segments)/slowestCopy)*time.Second
}

const (
	// heldAlways is what any open generation holds, in bytes: its manifest, its settings, its tables of parts.
	heldAlways = 64 << 10
	// heldPart is what is held of each file that is read by range, besides one part in framesHeld of its size: the
	// places and first keys of its frames.
	heldPart   = 4 << 10
	framesHeld = 512
	// heldDocument is what is held of a document once its metadata were asked for.
	heldDocument = 256
)

// EstimateFootprint returns how many bytes an open generation holds, those of mapped files among them, which is nearly
// all. The rest is an estimate. Collections are the vector store's and not in it.
func EstimateFootprint(manifest *core.Manifest) int64 {
	segments := manifest.Segments
	parts, bytes := int64(0), int64(0) // of what is read by range
	for _, one := range slices.Concat(segments.Text, segments.Documents, segments.Extract) {
		parts, bytes = parts+1, bytes+one.Bytes
	}
	held := heldAlways + mappedBytes(segments) + estimateLiveBytes(manifest) + parts*heldPart + bytes/framesHeld +
		manifest.Counts.Documents*heldDocument
	if manifest.Labelled {
		held += viewBytes(manifest)
	}
	return held
}

// estimateLiveBytes returns what the numbers of what is live hold (liveset.Set).
func estimateLiveBytes(manifest *core.Manifest) int64 {
	classes := int64(0)
	for _, run := range manifest.Segments.Runs {
		classes += run.Rows
	}
	chunks := int64(0)
	for _, one := range manifest.Segments.Splits {
		chunks += one.Chunks
	}
	const heldChunk, heldClass, heldEdge, heldRow = 20, 32, 8, 12 // a document has about two chunks or more
	return chunks*heldChunk + classes*heldClass + manifest.Counts.Edges*heldEdge + manifest.Counts.Documents*heldRow
}

// mapIDF copies and maps the built-in embedder's table, where the generation has one.
func (g *Generation) mapIDF(ctx context.Context, cache *localfile.Cache) (err error) {
	if len(g.Manifest.Segments.IDF) == 0 {
		return nil
	}
	sha := g.Manifest.Segments.IDF[0].SHA256
	g.IDF, g.releaseIDF, err = localfile.Acquire(ctx, cache, g.art.Store, g.art.SegmentKey(sha), sha, idf.Open)
	return err
}

// HasChanged says whether another program wrote to a file that the generation has mapped. It is then to be opened
// again: what it reads there may be anything.
func (g *Generation) HasChanged() bool {
	return slices.ContainsFunc(g.whole().mapped, g.cache.HasChanged)
}

// openWidth is how many footers are read at once.
const openWidth = 32

// openRows reads the footers of the segments that are read by range, side by side: a large generation has thousands.
func (g *Generation) openRows(ctx context.Context) error {
	segments := g.Manifest.Segments
	var mu sync.Mutex
	var steps []func(context.Context) error
	for _, segment := range segments.Text {
		steps = append(steps, func(ctx context.Context) error {
			reader, err := textseg.OpenOf(ctx, g.art.Store, g.art.SegmentKey(segment.SHA256), segment.Bytes)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			g.texts[uint32(segment.Part)] = reader
			return nil
		})
	}
	for _, kind := range []struct {
		segments []core.Segment
		readers  map[uint32]*artifact.Reader
	}{{segments.Documents, g.docs}, {segments.Extract, g.extracts}} {
		for _, segment := range kind.segments {
			steps = append(steps, func(ctx context.Context) error {
				reader, err := artifact.OpenRowsOf(ctx, g.art.Store, g.art.SegmentKey(segment.SHA256), segment.Bytes)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				kind.readers[uint32(segment.Part)] = reader
				return nil
			})
		}
	}
	return parallel.Each(ctx, len(steps), openWidth, func(ctx context.Context, i int) error { return steps[i](ctx) })
}

// LoadVectors is the operation that fails where the vector store lacks a collection of a generation.
const LoadVectors = "load collection"

// loadVectors makes the collections ready to be searched.
func (g *Generation) loadVectors(ctx context.Context, store vectors.Store) error {
	for _, collection := range []string{g.Manifest.Collections.Classes, g.Manifest.Collections.Chunks} {
		if err := store.Load(ctx, collection); fault.Is(err, fault.NotFound) {
			return fault.StoreDown.At(LoadVectors, collection).
				Because("it is missing from the vector store").
				Advise("run: unweaver restore " + g.Manifest.Index)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Language returns the language of its texts, by whose rules questions are cut into words.
func (g *Generation) Language() *text.Language { return text.LanguageOf(g.Spec.Retrieval.Language) }

// TermWeight returns the idf of a term of its language among the chunks: 0 where none has it.
func (g *Generation) TermWeight(term string) float64 { return g.chunkWords.index.Weight(term) }

// UnknownWeight returns the idf of a term that no chunk has.
func (g *Generation) UnknownWeight() float64 { return g.chunkWords.index.UnknownWeight() }

// Hold takes the generation for one more user; false when it is closed already.
func (g *Generation) Hold() bool {
	g = g.whole()
	for {
		n := g.refs.Load()
		if n <= 0 {
			return false
		}
		if g.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// IsHeld reports whether anyone still has the generation: its mappings stand, and its reader lease must be renewed.
func (g *Generation) IsHeld() bool { return g.whole().refs.Load() > 0 }

// IsShared reports whether more than one has the generation.
func (g *Generation) IsShared() bool { return g.whole().refs.Load() > 1 }

// Close lets go of the generation; the last holder's Close unmaps its files. That of a view lets go of the generation
// that it is a view of.
func (g *Generation) Close() {
	g = g.whole()
	holders := g.refs.Add(-1)
	if g.left != nil && holders >= 0 {
		defer g.left(holders)
	}
	if holders != 0 {
		return
	}
	g.release()
	if g.IDF != nil {
		g.releaseIDF()
	}
	g.parts.Range(func(_, one any) bool {
		one.(*part).close()
		return true
	})
	closed := map[*artifact.Reader]bool{}
	for _, readers := range []map[uint32]*artifact.Reader{g.docs, g.extracts} {
		for _, reader := range readers {
			closed[reader] = true
		}
	}
	for _, text := range g.texts {
		closed[text.File()] = true
	}
	unpacked.Forget(closed)
}

// part is what a method opened of a generation.
type part struct {
	mu      sync.Mutex
	value   any
	release func() // nil: it is not open
}

func (p *part) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.release != nil {
		p.release()
		p.release = nil
	}
}

// OpenPart returns what a method reads of a generation beside its index. The first request for a name opens it, others
// wait for that, and it closes with the generation. An opening that fails is tried again by the next request.
func OpenPart[T any](g *Generation, name string, open func() (value T, release func(), err error)) (T, error) {
	found, _ := g.whole().parts.LoadOrStore(name, new(part))
	one := found.(*part)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.release != nil {
		return one.value.(T), nil
	}
	value, release, err := open()
	if err != nil {
		return value, err
	}
	one.value, one.release = value, release
	return value, nil
}

// FileSource returns where files of the generation are copied to, and where from.
func (g *Generation) FileSource() (*localfile.Cache, artifact.Index) { return g.cache, g.art }

// NameWeights returns the content by which Weigh weighs words; empty: it does not.
func (g *Generation) NameWeights(by core.Fingerprint) string {
	if g.IDF == nil || by.IDF == "" {
		return ""
	}
	return g.Manifest.Segments.IDF[0].SHA256
}

// Weigh gives an embedder the weights of words of a generation, where its vectors have them.
func (g *Generation) Weigh(embedder model.Embedder, by core.Fingerprint) model.Embedder {
	if weighable, ok := model.As[model.Weighable](embedder); ok && g.IDF != nil && by.IDF != "" {
		return weighable.WithIDF(g.IDF.Weight)
	}
	return embedder
}
