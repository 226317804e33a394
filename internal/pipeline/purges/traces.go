package purges

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Traces are what documents led to, in all generations that are kept: digests and ids alone. They grow with the
// documents that are purged.
type Traces struct {
	Chunks  map[core.ID]bool                `json:"chunks"`
	Classes map[core.ID]bool                `json:"classes"` // that they mention
	Keys    map[string]map[core.Digest]bool `json:"keys"`    // of the ledger, by task
	Words   map[core.Digest]bool            `json:"words"`   // of their texts, as the table of words has them
	Holders map[string]bool                 `json:"holders"` // generations with a segment that may hold any of it

	// Unlisted: the list of what an enrichment of one of these was paid for cannot be read.
	Unlisted bool `json:"unlisted,omitempty"`

	derived []string              // texts that were extracted
	found   map[core.Digest]int64 // documents, with their chunks
	parts   []string              // attachments of documents, which leave with them
	rows    map[string][]string   // the first rows of objects that are no document themselves
}

// shownRows is how many rows of an object a plan names.
const shownRows = 3

// derivedBytes is the length from which on a description that a class's text contains shows that the text was made
// from it. Shorter ones stand in another text by chance.
const derivedBytes = 24

// WordOf returns the digest by which traces know a word.
func WordOf(word string) core.Digest { return core.Sum("purged-word/1", word) }

// Gather finds what is stored of documents: in every generation with a reference, also rows that are dead there. alive
// is called as it gets on.
func Gather(ctx context.Context, index artifact.Index, documents Set, alive func()) (*Traces, error) {
	refs, err := index.ListByName(ctx)
	if err != nil {
		return nil, err
	}
	t := &Traces{
		Chunks: map[core.ID]bool{}, Classes: map[core.ID]bool{}, Words: map[core.Digest]bool{},
		Keys:    map[string]map[core.Digest]bool{},
		Holders: map[string]bool{}, found: map[core.Digest]int64{}, rows: map[string][]string{},
	}
	for _, task := range ledger.Tasks() {
		t.Keys[task] = map[core.Digest]bool{}
	}
	g := &gathering{
		Traces: t, index: index, documents: documents, alive: alive,
		seen: map[string][]rows.Document{}, extracted: map[string]bool{}, made: map[string]bool{},
		labels: map[core.LabelSet]bool{}, names: map[string]bool{}, specs: map[core.Digest]core.Spec{},
	}
	var found []generation
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		manifest, err := index.Manifest(ctx, refs[name].Manifest)
		if artifact.IsDamage(err) { // what cannot be read is left to collect, which deletes nothing that it might need
			continue
		}
		if err != nil {
			return nil, err
		}
		if g.specs[manifest.Spec], err = index.Spec(ctx, manifest.Spec); err != nil {
			return nil, err
		}
		found = append(found, generation{name, manifest})
	}
	for _, gather := range []func(context.Context, generation) error{
		g.gatherDocuments, g.gatherMentions,
		func(context.Context, generation) error { g.addClasses(found); return nil }, g.gatherClasses,
	} {
		for _, one := range found {
			if err := gather(ctx, one); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// generation is one that can be read.
type generation struct {
	name     string
	manifest *core.Manifest
}

type gathering struct {
	*Traces
	index     artifact.Index
	documents Set
	alive     func()
	seen      map[string][]rows.Document // segments of documents: what of them is purged
	extracted map[string]bool            // segments of extractions that were looked through
	made      map[string]bool            // segments of classes in which a row was made from what is purged
	labels    map[core.LabelSet]bool     // of the documents, as any of the specs gives them
	names     map[string]bool            // keys of the classes that they mention, without aliases
	specs     map[core.Digest]core.Spec  // of all generations
}

// gatherDocuments takes in what a generation has of the documents, dead or not.
func (g *gathering) gatherDocuments(ctx context.Context, of generation) error {
	manifest, spec := of.manifest, g.specs[of.manifest.Spec]
	texts := map[int]core.Segment{}
	for _, segment := range manifest.Segments.Text {
		texts[segment.Part] = segment
	}
	for _, segment := range manifest.Segments.Documents {
		found, err := g.documentsOf(ctx, manifest, spec, segment, texts[segment.Part])
		if err != nil {
			return err
		}
		if found {
			g.Holders[of.name] = true
		}
	}
	return nil
}

// gatherMentions takes in what a generation has of the extractions from the documents.
func (g *gathering) gatherMentions(ctx context.Context, of generation) error {
	for _, segment := range of.manifest.Segments.Extract {
		if err := g.gatherExtractions(ctx, segment); err != nil {
			return err
		}
	}
	return g.gatherLetters(ctx, of.name)
}

// documentsOf looks through a segment of documents, once.
func (g *gathering) documentsOf(
	ctx context.Context, manifest *core.Manifest, spec core.Spec, segment, texts core.Segment,
) (bool, error) {
	made := segment.SHA256 + "/" + texts.SHA256 + "/" + manifest.Chunk.Digest().String()
	if known, ok := g.seen[made]; ok {
		return len(known) > 0, nil
	}
	g.seen[made] = nil
	for row, err := range artifact.ScanAll(ctx, g.index.Store, g.index.SegmentKey(segment.SHA256)) {
		if err != nil {
			return false, err
		}
		key, asked := string(row.Key), g.documents.Has(string(row.Key))
		if !asked && !g.documents.isAttached(key) {
			continue
		}
		document, err := rows.DecodeDocument(row.Value)
		if err != nil {
			return false, err
		}
		if kind, _, _ := stage.TypeOf(spec, document.Object); !asked && !kind.HasAttachments() {
			object, _, _ := strings.Cut(key, "#")
			if known := g.rows[object]; len(known) < shownRows && !slices.Contains(known, key) {
				g.rows[object] = append(known, key)
			}
			continue
		} else if !asked {
			g.parts = append(g.parts, key)
			g.documents.Keys[core.PurgedKey(g.index.Name, key)] = true
		}
		g.seen[made] = append(g.seen[made], document)
		if err := g.gatherDocument(ctx, manifest, spec, key, document, texts); err != nil {
			return false, err
		}
		g.alive()
	}
	return len(g.seen[made]) > 0, nil
}

func (g *gathering) gatherDocument(
	ctx context.Context, manifest *core.Manifest, spec core.Spec, key string, document rows.Document,
	texts core.Segment,
) error {
	g.found[core.PurgedKey(g.index.Name, key)] += int64(len(document.Chunks))
	for _, spec := range g.specs { // a segment may be one of generations with other rules, which is looked through once
		labels, _ := stage.LabelsOf(spec, key, document.Meta) // what cannot be used is Nobody
		g.labels[labels] = true
	}
	g.addName(document.Title)
	if !document.Parsed.IsZero() {
		g.Keys[ledger.Parse][document.Parsed] = true
	}
	for _, key := range document.Transcribed {
		g.Keys[ledger.Transcribe][key] = true
	}
	if len(document.Chunks) == 0 {
		return nil
	}
	reader, err := textseg.Open(ctx, g.index.Store, g.index.SegmentKey(texts.SHA256))
	if err != nil {
		return err
	}
	title := document.Title
	if spec.Parity {
		title = ""
	}
	for _, chunk := range document.Chunks {
		g.Chunks[chunk.ID] = true
		content, err := reader.Slice(ctx, key, document.Frame, chunk.Start, chunk.End)
		if err != nil {
			return err
		}
		for _, window := range embed.CutWindows(title, content, spec.Embedding.MaxInputTokens) {
			g.noteEmbedded(manifest, embed.Digest(window, manifest.Chunk.Digest()))
		}
		for _, word := range text.LanguageOf(spec.Retrieval.Language).SurfaceWords(title + " " + content) {
			g.Words[WordOf(word)] = true
		}
	}
	return nil
}

// addName notes a name, as any of the specs reads it.
func (g *gathering) addName(name string) {
	for _, spec := range g.specs {
		if key := names.Key(name, spec.Parity); key != "" {
			g.names[key] = true
		}
	}
}

// addClasses adds the classes of all names, and what documents with the labels of those that are purged say of them, in
// any of the generations.
func (g *gathering) addClasses(found []generation) {
	for key := range g.names {
		keys := map[string]bool{key: true}
		for _, one := range found {
			keys[one.manifest.Aliases.ResolveKey(key)] = true
		}
		for key := range keys {
			for labels := range g.labels {
				g.Classes[core.FragmentID(key, labels)] = true
			}
		}
	}
}

// noteEmbedded notes a text that vectors were paid for, in whatever domain.
func (g *gathering) noteEmbedded(manifest *core.Manifest, key core.Digest) {
	g.Keys[ledger.Embed][key] = true
	if trust := manifest.Trust; trust != nil && trust.Embedding != "" {
		g.Keys[ledger.Embed][ledger.ScopeKey(trust.Embedding, key)] = true
	}
}

// gatherExtractions takes in what was extracted from the chunks, and which classes that names.
func (g *gathering) gatherExtractions(ctx context.Context, segment core.Segment) error {
	if g.extracted[segment.SHA256] || len(g.Chunks) == 0 {
		return nil
	}
	g.extracted[segment.SHA256] = true
	for row, err := range artifact.ScanAll(ctx, g.index.Store, g.index.SegmentKey(segment.SHA256)) {
		if err != nil {
			return err
		}
		if len(row.Key) != len(core.ID{}) || !g.Chunks[core.ID(row.Key)] {
			continue
		}
		found, err := rows.DecodeExtract(row.Value)
		if err != nil {
			return err
		}
		if !found.Key.IsZero() {
			g.Keys[ledger.Extract][found.Key] = true
		}
		for _, entity := range found.Entities {
			if len(entity.Description) >= derivedBytes {
				g.derived = append(g.derived, entity.Description)
			}
			g.addName(entity.Name)
		}
	}
	g.alive()
	return nil
}

// gatherLetters takes in the paid failures of the documents' chunks.
func (g *gathering) gatherLetters(ctx context.Context, generation string) error {
	for info, err := range g.index.Store.List(ctx, extract.DeadLetterKey(g.index, generation, ""), "") {
		if err != nil {
			return err
		}
		var letter extract.DeadLetter
		if _, err := blob.ReadJSON(ctx, g.index.Store, info.Key, &letter); err != nil {
			if artifact.IsDamage(err) {
				continue
			}
			return err
		}
		if !g.documents.Has(letter.Document) {
			continue
		}
		var key core.Digest
		if key.UnmarshalText([]byte(letter.Key)) == nil {
			g.Keys[ledger.Extract][key] = true
		}
	}
	return nil
}

// gatherClasses takes in what texts of the classes were paid for, and whether a generation that has none of the
// documents has such a text among what is dead in its class runs.
func (g *gathering) gatherClasses(ctx context.Context, of generation) error {
	manifest := of.manifest
	if len(g.Classes) == 0 {
		return nil
	}
	dead := map[string]bool{}
	for _, tomb := range manifest.Segments.Tombs {
		dead[tomb.Of] = true
	}
	isDead := func(part int) bool { // something of the run that has the part
		return slices.ContainsFunc(manifest.Segments.Runs, func(run core.Run) bool {
			return dead[run.SHA256] && part >= run.Classes && part-run.Classes < run.Parts
		})
	}
	for _, segment := range manifest.Segments.Classes {
		derived, known := g.made[segment.SHA256]
		if !known {
			var err error
			if derived, err = g.classesOf(ctx, manifest, segment); err != nil {
				return err
			}
			g.made[segment.SHA256] = derived
		}
		if derived && isDead(segment.Part) {
			g.Holders[of.name] = true
		}
	}
	return nil
}

// classesOf looks through a segment of classes, and reports whether a text in it has words that were extracted from the
// documents. Of a text that a model shortened this is not known: it counts as one.
func (g *gathering) classesOf(
	ctx context.Context, manifest *core.Manifest, segment core.Segment,
) (derived bool, err error) {
	for row, err := range artifact.ScanAll(ctx, g.index.Store, g.index.SegmentKey(segment.SHA256)) {
		if err != nil {
			return derived, err
		}
		if len(row.Key) != len(core.ID{}) || !g.Classes[core.ID(row.Key)] {
			continue
		}
		class, err := rows.DecodeClass(row.Value)
		if err != nil {
			return derived, err
		}
		for _, key := range class.Keys {
			g.Keys[ledger.Shorten][key] = true
		}
		g.noteEmbedded(manifest, class.Vector)
		record, err := rows.DecodeRecord(class.Record)
		if err != nil {
			return derived, err
		}
		derived = derived || len(class.Keys) > 0 || slices.ContainsFunc(g.derived, func(text string) bool {
			return strings.Contains(record.Text, text)
		})
	}
	g.alive()
	return derived, nil
}

// Merge adds what was found otherwise.
func (t *Traces) Merge(other *Traces) {
	maps.Copy(t.Chunks, other.Chunks)
	maps.Copy(t.Classes, other.Classes)
	maps.Copy(t.Words, other.Words)
	for task, keys := range other.Keys {
		maps.Copy(t.Keys[task], keys)
	}
	maps.Copy(t.Holders, other.Holders)
	t.Unlisted = t.Unlisted || other.Unlisted
}

// Load reads the traces of a purge; nil where there are none.
func Load(ctx context.Context, index artifact.Index, id string) (*Traces, error) {
	var out Traces
	_, err := blob.ReadJSON(ctx, index.Store, TracesKey(index, id), &out)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return &out, err
}

// Save writes them.
func (t *Traces) Save(ctx context.Context, index artifact.Index, id string) error {
	_, err := blob.WriteJSON(ctx, index.Store, TracesKey(index, id), t, blob.Cond{})
	return err
}
