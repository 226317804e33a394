// Package retrievetest makes small generations for tests: real segments, vectors of the built-in embedder and class
// records, written by the stages that write them in builds, from documents whose entities the test names.
package retrievetest

import (
	"context"
	"sort"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/idf"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	memory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/names"
)

// StoreID is the id of the artifact store that fixtures pretend to have.
const StoreID = "0123456789abcdef0123456789abcdef"

// Chunk is one passage and the names of the entities that it mentions.
type Chunk struct {
	Text     string
	Entities []string
}

// Document is one document; its text is its chunks one after another. Documents are given in the order of their keys.
type Document struct {
	Key      string
	Title    string
	Meta     map[string]string
	Modified time.Time
	Stale    bool // what it says is of an earlier version
	Chunks   []Chunk
}

// Stores are what a query reads.
type Stores struct {
	Blobs   blob.Store
	Records *Records
	Readers *memory.Store
	Vectors *Vectors
	Cache   *localfile.Cache
}

// NewStores makes empty stores in a temporary folder.
func NewStores(t testing.TB) Stores {
	t.Helper()
	vecs := musttest.Get(files.Open(t.TempDir()))(t)
	cache := musttest.Get(localfile.New(t.TempDir(), 0))(t)
	t.Cleanup(func() { check(t, vecs.Close()) })
	blobs := blobmemory.New()
	check(t, musttest.Err(artifact.OpenStoreID(t.Context(), blobs)))
	return Stores{
		Blobs: blobs, Records: NewRecords(), Readers: memory.New(), Vectors: &Vectors{Store: vecs}, Cache: cache,
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	require.NoError(t, err)
}

// Options change what Build makes; the zero value makes everything.
type Options struct {
	Generation string            // its name; empty: g1
	Analyser   string            // rewrites the one in the split
	Seq        int64             // 0: 1
	Unasked    bool              // leave the enrichment gem out
	Facts      bool              // make the enrichment facts, by rule
	Spec       func(*core.Spec)  // changes the spec
	Types      map[string]string // of entities, by name
	Edit       func(*core.Manifest)
}

// Built is a generation that was written, not yet published.
type Built struct {
	Manifest *core.Manifest
	SHA      string // of the manifest
	Index    artifact.Index
}

// Build writes a generation of documents.
func Build(t testing.TB, stores Stores, index string, documents []Document, options Options) Built {
	t.Helper()
	cache, err := localfile.New(t.TempDir(), 0) // not the readers', who must find out by themselves
	check(t, err)
	builder := &builder{t: t, ctx: t.Context(), stores: stores, cache: cache, documents: documents, types: options.Types}
	builder.index = artifact.Index{Store: stores.Blobs, Name: index}
	builder.spec = core.Spec{
		Index:      index,
		Retrieval:  core.Retrieval{Method: "hybrid", Rule: "weighted", TopChunks: 5, Language: "en", MinSimilarity: 0.05},
		Shortening: core.Shortening{},
		Chat:       core.ChatModel{Provider: "builtin"},
		Embedding:  core.EmbedModel{Provider: "builtin"},
	}
	if options.Spec != nil {
		options.Spec(&builder.spec)
	}
	if options.Generation == "" {
		options.Generation = "g1"
	}
	if options.Seq == 0 {
		options.Seq = 1
	}
	builder.manifest = &core.Manifest{
		Format: core.ManifestFormat, Index: index, Generation: options.Generation, Seq: options.Seq, Store: StoreID,
		Created:    time.Date(2026, time.March, 1, 2, 3, 4, 0, time.UTC),
		Labelled:   builder.spec.ReadAs().Labels.IsOn(),
		Partitions: 1, Models: core.ModelSummary{Chat: "built-in models", Embedding: "built-in models"},
	}
	builder.number()
	builder.learnIDF()
	builder.writeDocuments()
	builder.writeClasses()
	builder.writeChunks()
	builder.writeSplit(options.Analyser)
	builder.writeVectors()
	if !options.Unasked {
		builder.writeMemory()
	}
	if options.Facts {
		builder.writeFacts()
	}
	digest := musttest.Get(builder.index.PutSpec(builder.ctx, builder.spec))(t)
	builder.manifest.Spec, builder.manifest.Config = digest, builder.spec.ConfigDigest()
	if options.Edit != nil {
		options.Edit(builder.manifest)
	}
	sha := musttest.Get(builder.index.PutManifest(builder.ctx, builder.manifest))(t)
	return Built{builder.manifest, sha, builder.index}
}

// Publish names the generation and lets current.json point to it under an epoch; the mirror stays as it is.
func Publish(t testing.TB, built Built, epoch int64) {
	t.Helper()
	Hold(t, built, "published")
	pointer := core.Pointer{
		Generation: built.Manifest.Generation, Manifest: built.SHA, Seq: built.Manifest.Seq, Epoch: epoch,
	}
	check(t, musttest.Err(blob.WriteJSON(t.Context(), built.Index.Store, built.Index.CurrentKey(), pointer, blob.Cond{})))
}

// Hold names the generation without publishing it.
func Hold(t testing.TB, built Built, state string) {
	t.Helper()
	ref := core.GenerationRef{Manifest: built.SHA, Seq: built.Manifest.Seq, State: state}
	key := built.Index.GenerationKey(built.Manifest.Generation, "manifest.json")
	check(t, musttest.Err(blob.WriteJSON(t.Context(), built.Index.Store, key, ref, blob.Cond{})))
}

// ChunkID returns the id of the n-th chunk of a document.
func ChunkID(document Document, n int) core.ID {
	earlier := 0
	for _, c := range document.Chunks[:n] {
		if c.Text == document.Chunks[n].Text {
			earlier++
		}
	}
	return core.ChunkID(document.Key, document.Chunks[n].Text, earlier)
}

// ClassID returns the id of the class of a name.
func ClassID(name string) core.ID { return core.ClassID(names.Key(name, false)) }

// placed is a chunk with its place.
type placed struct {
	Chunk
	document   int
	ordinal    int
	start, end int
	id         core.ID
	digest     core.Digest
	extract    int // frame
}

// mention of a class by a chunk.
type mention struct {
	number, position int
	name             string
}

// class is one entity of the corpus.
type class struct {
	id       core.ID
	name     string
	text     string
	mentions []mention
	row      rows.Class
}

type builder struct {
	t         testing.TB
	ctx       context.Context //nolint:containedctx // a test's
	stores    Stores
	cache     *localfile.Cache
	index     artifact.Index
	documents []Document
	spec      core.Spec
	manifest  *core.Manifest
	chunks    []placed
	starts    []int // frame of each document's text
	classes   []class
	embedder  builtin.Embedder
	types     map[string]string
}

// number gives every chunk its place in chunk order, and gathers the classes.
func (b *builder) number() {
	byID := map[core.ID]*class{}
	for d, document := range b.documents {
		at := 0
		labels, _ := stage.LabelsOf(b.spec, document.Key, document.Meta)
		for n, chunk := range document.Chunks {
			size := utf8.RuneCountInString(chunk.Text)
			for position, name := range chunk.Entities {
				id := core.FragmentID(names.Key(name, false), labels)
				if byID[id] == nil {
					byID[id] = &class{id: id, name: name, text: name}
				}
				byID[id].mentions = append(byID[id].mentions, mention{len(b.chunks), position, name})
			}
			b.chunks = append(b.chunks, placed{
				Chunk: chunk, document: d, ordinal: n, start: at, end: at + size, id: ChunkID(document, n),
			})
			at += size
		}
	}
	for _, c := range byID {
		b.classes = append(b.classes, *c)
	}
	sort.Slice(b.classes, func(i, j int) bool { return string(b.classes[i].id[:]) < string(b.classes[j].id[:]) })
	b.manifest.Counts = core.Counts{
		Documents: int64(len(b.documents)), Chunks: int64(len(b.chunks)), Windows: int64(len(b.chunks)),
		Classes: int64(len(b.classes)),
	}
}

// text returns the text of a document: its chunks one after another.
func (d Document) text() string {
	var out strings.Builder
	for _, c := range d.Chunks {
		out.WriteString(c.Text)
	}
	return out.String()
}

// learnIDF writes the table of the built-in embedder and takes it up into the fingerprints.
func (b *builder) learnIDF() {
	defer b.chooseCollections()
	if b.manifest.Labelled {
		return
	}
	file := musttest.Get(artifact.NewFile())(b.t)
	defer file.Discard()
	check(b.t, idf.Learn(b.ctx, file, text.LanguageOf(""), int64(len(b.chunks)), func(yield func(string, error) bool) {
		for _, c := range b.chunks {
			if !yield(embed.ChunkText(b.documents[c.document].Title, c.Text), nil) {
				return
			}
		}
	}))
	segment, _, err := file.PutSegment(b.ctx, b.index)
	check(b.t, err)
	b.manifest.Segments.IDF = []core.Segment{segment}
	path := b.localCopy(segment)
	table := musttest.Get(idf.Open(path))(b.t)
	b.t.Cleanup(table.Close)
	b.embedder = builtin.Embedder{IDF: table.Weight}
}

// chooseCollections makes the fingerprints, and names the collections by them.
func (b *builder) chooseCollections() {
	fingerprint := core.Fingerprint{
		Provider: "builtin", Model: builtin.EmbedderModel, Dimension: builtin.Dimension, Windows: embed.WindowRule,
	}
	for _, table := range b.manifest.Segments.IDF {
		fingerprint.IDF = table.SHA256
	}
	b.manifest.Class, b.manifest.Chunk = fingerprint, fingerprint
	b.manifest.Collections = core.Collections{
		Classes: core.NameCollection(StoreID, b.index.Name, "classes", fingerprint.Digest(), 1),
		Chunks:  core.NameCollection(StoreID, b.index.Name, "chunks", fingerprint.Digest(), 1),
	}
}

// rowFile writes one segment of rows.
func (b *builder) rowFile(write func(*artifact.Rows)) core.Segment {
	file := musttest.Get(artifact.NewRows())(b.t)
	defer file.Discard()
	write(file)
	segment, _, err := file.StoreSegment(b.ctx, b.index, 0)
	check(b.t, err)
	return segment
}

func (b *builder) writeDocuments() {
	segments := &b.manifest.Segments
	segments.Text = []core.Segment{b.rowFile(func(file *artifact.Rows) {
		for _, document := range b.documents {
			b.starts = append(b.starts, file.Append(document.Key, textseg.EncodePiece(0, document.text())))
		}
	})}
	segments.Documents = []core.Segment{b.rowFile(func(file *artifact.Rows) {
		for d, document := range b.documents {
			row := rows.Document{
				Object: document.Key, Version: core.Sum(document.text()), Title: document.Title, Kind: "text",
				Meta: document.Meta, Modified: document.Modified, Runes: utf8.RuneCountInString(document.text()),
				Frame: b.starts[d], Stale: document.Stale,
			}
			if document.Stale {
				row.Problem = string(fault.Unreadable)
			}
			for _, c := range b.chunks {
				if c.document == d {
					row.Chunks = append(row.Chunks, rows.Place{ID: c.id, Start: c.start, End: c.end})
				}
			}
			file.Append(document.Key, row.Encode())
		}
	})}
	segments.Extract = []core.Segment{b.rowFile(func(file *artifact.Rows) {
		for i := range b.chunks {
			chunk := &b.chunks[i]
			row := rows.Extract{Rung: "strict"}
			for _, name := range chunk.Entities {
				entity := rows.Entity{Name: name, Description: name, Type: b.types[name]}
				if at := strings.Index(chunk.Text, name); at >= 0 {
					start := utf8.RuneCountInString(chunk.Text[:at])
					entity.Spans = [][2]int{{start, start + utf8.RuneCountInString(name)}}
				}
				row.Entities = append(row.Entities, entity)
			}
			chunk.extract = file.Append(string(chunk.id[:]), row.Encode())
		}
	})}
}

func (b *builder) writeClasses() {
	segments := &b.manifest.Segments
	segments.Mentions = []core.Segment{b.rowFile(func(file *artifact.Rows) {
		for _, c := range b.classes {
			for _, m := range c.mentions {
				row := rows.Mention{Number: int64(m.number), Position: m.position, Surface: m.name, Description: m.name}
				file.Append(string(c.id[:]), row.Encode())
			}
		}
	})}
	segments.Classes = []core.Segment{b.rowFile(func(file *artifact.Rows) {
		for i := range b.classes {
			c := &b.classes[i]
			record := rows.Record{ID: c.id, Name: c.name, Text: c.text, Type: b.types[c.name]}
			c.row = rows.Class{
				Record: record.Encode(), Vector: embed.Digest(c.text, b.manifest.Class.Digest()), Text: core.Sum(c.text),
				Mentions: int64(len(c.mentions)),
			}
			for n, m := range c.mentions {
				if n == 0 || c.mentions[n-1].number != m.number {
					c.row.Chunks++
				}
			}
			file.Append(string(c.id[:]), c.row.Encode())
			key := core.RecordKey(StoreID, b.index.Name, c.id, rows.RecordDigest(c.row.Record))
			check(b.t, b.stores.Records.PutRecords(b.ctx, []records.Record{{Key: key, Value: c.row.Record}}))
		}
	})}
}

// writeChunks writes the chunks segment, which the split is made from.
func (b *builder) writeChunks() {
	b.manifest.Segments.Chunks = []core.Segment{b.rowFile(func(file *artifact.Rows) {
		for i := range b.chunks {
			chunk := &b.chunks[i]
			document := b.documents[chunk.document]
			chunk.digest = embed.ChunkDigest(document.Title, chunk.Text, b.manifest.Chunk.Digest())
			row := rows.SplitChunk{
				Document: document.Key, Digest: chunk.digest, Ordinal: chunk.ordinal,
				Start: chunk.start, End: chunk.end, Tokens: len(chunk.Text) / 4, TextFrame: b.starts[chunk.document],
				ExtFrame: chunk.extract, Windows: 1,
			}
			file.Append(string(chunk.id[:]), row.Encode())
		}
	})}
}

// writeSplit writes one split and one class run of everything.
func (b *builder) writeSplit(analyser string) {
	segments := &b.manifest.Segments
	made, expect, _, err := segment.WriteSplit(b.ctx, segment.SplitIn{
		Artifacts: b.index, Spec: b.spec, OnProgress: func(int64) {},
		Units: []segment.SplitUnit{{
			Documents: segments.Documents[0], Text: segments.Text[0],
			Shards: []segment.SplitShard{{
				Chunks:   b.index.SegmentKey(segments.Chunks[0].SHA256),
				Mentions: b.index.SegmentKey(segments.Mentions[0].SHA256),
			}},
		}},
	})
	check(b.t, err)
	if analyser != "" {
		made = b.analysedBy(made, analyser)
	}
	made.Rows = int64(expect.Chunks)
	segments.Splits = []core.Split{{
		Segment: made, Documents: int64(expect.Documents), Chunks: int64(expect.Chunks), Classes: int64(expect.Classes),
		Texts: 1, Extracts: 1,
	}}
	run, of, _, err := segment.ClassRun(b.ctx, segment.ClassRunIn{
		Artifacts: b.index, Spec: b.spec, Classes: segments.Classes, OnProgress: func(int64) {},
	})
	check(b.t, err)
	run.Rows = int64(of.Classes)
	segments.Runs = []core.Run{{Segment: run, Parts: 1}}
}

// localCopy returns the path of the local copy of a segment.
func (b *builder) localCopy(segment core.Segment) string {
	key, open := b.index.SegmentKey(segment.SHA256), func(path string) (string, error) { return path, nil }
	return musttest.Get(localfile.Open(b.ctx, b.cache, b.stores.Blobs, key, segment.SHA256, open))(b.t)
}

// analysedBy writes a copy of the split that another analyser seems to have made.
func (b *builder) analysedBy(made core.Segment, analyser string) core.Segment {
	path := b.localCopy(made)
	old := musttest.Get(mapped.Open(path, split.Kind, split.Version))(b.t)
	defer old.Close()
	file := musttest.Get(artifact.NewFile())(b.t)
	defer file.Discard()
	writer := mapped.NewWriter(file, split.Kind, split.Version, nil)
	for _, name := range old.Sections() {
		content := old.Bytes(name)
		if name == "stats" {
			content = []byte(strings.ReplaceAll(string(content), text.Analyser, analyser))
		}
		writer.BeginSection(name)
		check(b.t, musttest.Err(writer.Write(content)))
	}
	check(b.t, writer.Close())
	segment, _, err := file.PutSegment(b.ctx, b.index)
	check(b.t, err)
	return segment
}

func (b *builder) writeVectors() {
	var classes, chunks []vectors.Row
	for _, c := range b.classes {
		classes = append(classes, vectors.Row{Key: core.ClassRow(c.id, c.row.Vector), Vector: b.vector(c.text)})
	}
	for _, c := range b.chunks {
		vector := b.vector(embed.ChunkText(b.documents[c.document].Title, c.Text))
		chunks = append(chunks, vectors.Row{Key: core.ChunkRow(c.id, 0, c.digest), Vector: vector})
	}
	for name, rows := range map[string][]vectors.Row{
		b.manifest.Collections.Classes: classes, b.manifest.Collections.Chunks: chunks,
	} {
		check(b.t, b.stores.Vectors.Create(b.ctx, name, builtin.Dimension))
		if len(rows) > 0 {
			check(b.t, b.stores.Vectors.Upsert(b.ctx, name, rows))
		}
	}
}

func (b *builder) vector(input string) []float32 {
	vectors, _, err := b.embedder.Embed(b.ctx, []string{input})
	check(b.t, err)
	return vectors[0]
}
