// Package retrieve is the read path: question, ballots, election, chunks. It is pure of HTTP; it reads one generation
// through a handle, so that a query sees exactly one (DESIGN §11.3).
package retrieve

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/idf"
	"github.com/unweaver/unweaver/internal/format/live"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/format/search"
	"github.com/unweaver/unweaver/internal/format/textseg"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/localfile"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Generation is an open generation. It is safe for concurrent use; it closes when the last holder lets go of it.
type Generation struct {
	Manifest *corpus.Manifest
	Spec     corpus.Spec
	Release  int64 // the pointer's epoch it was opened with
	Live     *live.File
	Search   *search.File // nil: built before there were search segments
	IDF      *idf.Table   // of the built-in embedder; nil: none

	art      artifact.Index
	texts    map[uint32]*textseg.Reader
	docs     map[uint32]*artifact.Reader
	extracts map[uint32]*artifact.Reader
	refs     atomic.Int64

	frameMu sync.Mutex
	frames  map[frameID][]byte

	metaOnce sync.Once
	meta     []docMeta
	metaErr  error
}

type docMeta struct {
	meta     map[string]string
	modified time.Time
}

// Open opens a generation by its manifest: the live segment is copied and mapped, other segments are read by range, the
// collections are loaded. The caller holds it and must Close it.
func Open(
	ctx context.Context,
	store blob.Store,
	cache *localfile.Cache,
	vs vectors.Store,
	index, manifest string,
	release int64,
) (*Generation, error) {
	art := artifact.Index{Store: store, Name: index}
	m, err := art.Manifest(ctx, manifest)
	if err != nil {
		return nil, err
	}
	generation := &Generation{
		Manifest: m,
		Release:  release,
		art:      art,
		texts:    map[uint32]*textseg.Reader{},
		docs:     map[uint32]*artifact.Reader{},
		extracts: map[uint32]*artifact.Reader{},
	}
	if generation.Spec, err = art.Spec(ctx, m.Spec); err != nil {
		return nil, err
	}
	if len(m.Segments.Live) == 0 {
		return nil, fault.SegmentDamage.At("open generation", m.Generation).
			Because("it has no live segment").
			Advise("publish another generation")
	}
	sha := m.Segments.Live[0].SHA256
	if generation.Live, err = localfile.Open(ctx, cache, store, art.SegmentKey(sha), sha, live.Open); err != nil {
		return nil, err
	}
	generation.refs.Store(1)
	if err := generation.mapped(ctx, cache); err != nil {
		generation.Close()
		return nil, err
	}
	if err := generation.open(ctx, vs); err != nil {
		generation.Close()
		return nil, err
	}
	return generation, nil
}

// mapped copies and maps the search segment and the embedder's table.
func (g *Generation) mapped(ctx context.Context, cache *localfile.Cache) error {
	var err error
	if l := g.Manifest.Segments.Search; len(l) > 0 {
		g.Search, err = localfile.Open(
			ctx,
			cache,
			g.art.Store,
			g.art.SegmentKey(l[0].SHA256),
			l[0].SHA256,
			func(path string) (*search.File, error) {
				return search.Open(path, len(g.Live.Documents), len(g.Live.Chunks), len(g.Live.Classes))
			},
		)
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.SegmentDamage) {
			return fault.SegmentDamage.At("open search segment of", g.Manifest.Generation).
				Because(err).
				Advise("make it again with: unweaver restore --index " + g.Manifest.Index)
		}
	}
	if l := g.Manifest.Segments.IDF; err == nil && len(l) > 0 {
		g.IDF, err = localfile.Open(
			ctx,
			cache,
			g.art.Store,
			g.art.SegmentKey(l[0].SHA256),
			l[0].SHA256,
			idf.Open,
		)
	}
	return err
}

func (g *Generation) open(ctx context.Context, vs vectors.Store) error {
	manifest := g.Manifest
	for _, segment := range manifest.Segments.Text {
		reader, err := textseg.Open(context.WithoutCancel(ctx), g.art.Store, g.art.SegmentKey(segment.SHA256))
		if err != nil {
			return err
		}
		g.texts[uint32(segment.Part)] = reader
	}
	for _, l := range []struct {
		segs []corpus.Segment
		to   map[uint32]*artifact.Reader
	}{{manifest.Segments.Documents, g.docs}, {manifest.Segments.Extract, g.extracts}} {
		for _, x := range l.segs {
			r, err := artifact.OpenRows(context.WithoutCancel(ctx), g.art.Store, g.art.SegmentKey(x.SHA256))
			if err != nil {
				return err
			}
			l.to[uint32(x.Part)] = r
		}
	}
	for _, c := range []string{manifest.Collections.Classes, manifest.Collections.Chunks} {
		if err := vs.Load(ctx, c); fault.Is(err, fault.NotFound) {
			return fault.StoreDown.At("load collection", c).
				Because("the store of vectors has lost it").
				Advise("run: unweaver restore --index " + manifest.Index)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Hold takes the generation for one more user; false when it is closed already.
func (g *Generation) Hold() bool {
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

// Close lets go of the generation.
func (g *Generation) Close() {
	if g.refs.Add(-1) == 0 {
		g.Live.Close()
		if g.Search != nil {
			g.Search.Close()
		}
		if g.IDF != nil {
			g.IDF.Close()
		}
	}
}

// Document reads the row of document i.
func (g *Generation) Document(ctx context.Context, i int) (rows.Document, error) {
	key := g.Live.Key(i)
	reader := g.docs[g.Live.Documents[i].Part]
	if reader == nil {
		return rows.Document{}, g.damaged("documents")
	}
	raw, err := reader.Get(ctx, key)
	if err != nil {
		return rows.Document{}, err
	}
	if raw == nil {
		return rows.Document{}, g.damaged("documents")
	}
	return rows.DecodeDocument(raw)
}

func (g *Generation) damaged(kind string) error {
	return fault.SegmentDamage.At("read "+kind+" of generation", g.Manifest.Generation).
		Because("a row that the live segment names is missing").
		Advise("publish another generation, or rebuild the index")
}

// Text reads the text of a chunk.
func (g *Generation) Text(ctx context.Context, chunk *live.Chunk) (string, error) {
	reader := g.texts[chunk.Text]
	if reader == nil {
		return "", g.damaged("text")
	}
	return reader.Clone().
		Slice(ctx, g.Live.Key(int(chunk.Document)), int(chunk.TextFrame), int(chunk.Start), int(chunk.End))
}

// DocumentText reads [start, end) of a document's decoded text, in code points; end < 0 means its end.
func (g *Generation) DocumentText(ctx context.Context, i, start, end int) (string, error) {
	document, err := g.Document(ctx, i)
	if err != nil {
		return "", err
	}
	reader := g.texts[g.Live.Documents[i].Part]
	if reader == nil {
		return "", g.damaged("text")
	}
	if start >= document.Runes {
		return "", nil
	}
	return reader.Clone().Slice(ctx, g.Live.Key(i), document.Frame, start, end)
}

// Extraction reads what a model said about a chunk.
func (g *Generation) Extraction(ctx context.Context, chunk *live.Chunk) (rows.Extract, error) {
	reader := g.extracts[chunk.Extract]
	if reader == nil {
		return rows.Extract{}, g.damaged("extract")
	}
	raw, err := g.frame(ctx, reader, frameID{chunk.Extract, chunk.ExtFrame})
	if err != nil {
		return rows.Extract{}, err
	}
	v := findRow(raw, string(chunk.ID[:]))
	if v == nil {
		return rows.Extract{}, g.damaged("extract")
	}
	return rows.DecodeExtract(v)
}

// frameID is a frame of the extract segments.
type frameID struct{ part, frame uint32 }

// maxFrames of at most 64 KiB are kept: chunks that are asked for are asked for again.
const maxFrames = 256

// frame reads and unpacks a frame of the extract segments, or has it still.
func (g *Generation) frame(ctx context.Context, reader *artifact.Reader, id frameID) ([]byte, error) {
	g.frameMu.Lock()
	raw, ok := g.frames[id]
	g.frameMu.Unlock()
	if ok {
		return raw, nil
	}
	raw, err := reader.Frame(ctx, int(id.frame))
	if err != nil {
		return nil, err
	}
	g.frameMu.Lock()
	defer g.frameMu.Unlock()
	if g.frames == nil {
		g.frames = map[frameID][]byte{}
	}
	for old := range g.frames { // any of them goes
		if len(g.frames) < maxFrames {
			break
		}
		delete(g.frames, old)
	}
	g.frames[id] = raw
	return raw, nil
}

// metaOf gives metadata and time of document i: from the search segment, or, where there is none, from the documents
// segments, which are then read once.
func (g *Generation) metaOf(ctx context.Context, i int) (map[string]string, time.Time, error) {
	if g.Search != nil {
		m, t := g.Search.Document(i)
		return m, t, nil
	}
	g.metaOnce.Do(func() {
		for _, s := range g.Manifest.Segments.Documents {
			for row, err := range artifact.ScanAll(context.WithoutCancel(ctx), g.art.Store, g.art.SegmentKey(s.SHA256)) {
				var document rows.Document
				if err == nil {
					document, err = rows.DecodeDocument(row.Value)
				}
				if err != nil {
					g.metaErr = err
					return
				}
				g.meta = append(g.meta, docMeta{document.Meta, document.Modified})
			}
		}
	})
	if g.metaErr != nil || i >= len(g.meta) {
		return nil, time.Time{}, g.metaErr
	}
	return g.meta[i].meta, g.meta[i].modified, nil
}
