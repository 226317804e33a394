package unit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/idf"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/text"
)

// ReadPlan reads the plan, with what was known only once the chunks were there.
func (r *Run) ReadPlan(ctx context.Context) (run.Plan, error) {
	fixed, err := run.ReadKept(ctx, r.BaseRun(), run.PlanFile)
	if err != nil {
		return fixed, err
	}
	switch frozen, err := run.ReadKept(ctx, r.BaseRun(), run.FrozenFile); {
	case err == nil:
		fixed.Frozen = frozen
	case !fault.Is(err, fault.NotFound):
		return fixed, err
	}
	return fixed, nil
}

// ParityChunks is the template of chunks that are embedded without their title.
const ParityChunks = "text/1"

// FindFingerprints returns the fingerprints of the embedders. A dimension that is not configured is the parent's, or
// that of another index which was embedded by the same model, or what the ledger says; else it is asked for with one
// call, or is 0 without pay.
func (r *Run) FindFingerprints(
	ctx context.Context, models model.Set, parent *core.Manifest, pay bool,
) (class, chunk core.Fingerprint, err error) {
	var old struct{ class, chunk core.Fingerprint }
	if parent != nil {
		old.class, old.chunk = parent.Class, parent.Chunk
	}
	classTemplate, chunkTemplate := embed.ClassTemplate, embed.ChunkTemplate
	if r.Settings.Parity {
		classTemplate, chunkTemplate = embed.ParityTemplate, ParityChunks
	}
	if class, err = r.fingerprintOf(ctx, models.Classes, classTemplate, old.class, pay); err != nil {
		return class, chunk, err
	}
	chunk, err = r.fingerprintOf(ctx, models.Chunks, chunkTemplate, old.chunk, pay)
	return class, chunk, err
}

func (r *Run) fingerprintOf(
	ctx context.Context, embedder model.Embedder, template string, old core.Fingerprint, pay bool,
) (core.Fingerprint, error) {
	info, dimension := embedder.Info(), embedder.Dimension()
	if dimension == 0 && old.Provider == info.Provider && old.Model == info.Model {
		dimension = old.Dimension
	}
	if dimension == 0 {
		var err error
		if dimension, err = r.findDimension(ctx, embedder, pay); err != nil {
			return core.Fingerprint{}, err
		}
	}
	now := core.Fingerprint{
		Provider: info.Provider, Model: info.Model, Dimension: dimension, Template: template, Windows: embed.WindowRule,
	}
	if _, weighs := model.As[model.Weighable](embedder); weighs {
		if now.IDF = old.IDF; now != old { // frozen for a line of generations; learned again when freeze says so
			now.IDF = ""
		}
	}
	return now, nil
}

// freezeBuild fixes what depends on the chunks.
func (r *Run) freezeBuild(ctx context.Context, shards run.Shards) (run.Frozen, error) {
	fixed, err := run.PlanFile.Read(ctx, r.Scratch)
	if err != nil {
		return run.Frozen{}, err
	}
	parent, err := r.ReadParent(ctx, fixed.Parent)
	if err != nil {
		return run.Frozen{}, err
	}
	frozen := fixed.Frozen
	if r.Settings.Retrieval.Language == core.LanguageAuto {
		if err := r.findLanguage(ctx, &frozen, shards); err != nil {
			return frozen, err
		}
	}
	models, err := r.ModelSet()
	if err != nil {
		return run.Frozen{}, err
	}
	frozen.Class.Model, frozen.Chunk.Model = models.Classes.Info().Model, models.Chunks.Info().Model
	if err := r.learnIDF(ctx, &frozen, models, dropDamagedIDF(parent, fixed.Damage), shards); err != nil {
		return frozen, err
	}
	frozen.Collections = r.chooseCollections(parent, frozen, fixed.Trust, cmp.Or(fixed.Family, r.Job.Index))
	frozen.Import, err = r.planImport(ctx, frozen.Collections)
	return frozen, err
}

// languageSampled is how many chunks, even in their order, say which language the corpus is in.
const languageSampled = 1000

// findLanguage goes on in the language of most chunks. Neither documents nor chunks depend on it.
func (r *Run) findLanguage(ctx context.Context, frozen *run.Frozen, shards run.Shards) error {
	var found text.Detector
	every, at := max(1, shards.CountMade()/languageSampled), int64(0)
	for content, err := range r.readTexts(ctx, shards) {
		if err != nil {
			return err
		}
		if at%every == 0 {
			found.Add(content)
		}
		at++
	}
	var err error
	frozen.Spec, err = r.StoreLanguage(ctx, found.Language())
	return err
}

// learnIDF takes the parent's table over, or learns one: at a full build, and when there are twice as many chunks.
func (r *Run) learnIDF(
	ctx context.Context, frozen *run.Frozen, models model.Set, parent *core.Manifest, shards run.Shards,
) error {
	var prints []*core.Fingerprint
	if _, weighs := model.As[model.Weighable](models.Classes); weighs {
		prints = append(prints, &frozen.Class)
	}
	if _, weighs := model.As[model.Weighable](models.Chunks); weighs {
		prints = append(prints, &frozen.Chunk)
	}
	if len(prints) == 0 || r.Settings.ReadAs().Labels.IsOn() { // it would tell readers of words of what they may not read
		return nil
	}
	// A fingerprint names the table that the line began with; a purge takes words out of it that weigh in no vector.
	if parent != nil && len(parent.Segments.IDF) > 0 && prints[0].IDF != "" {
		table, release, err := r.OpenIdf(ctx, parent.Segments.IDF[0].SHA256)
		if err != nil {
			return err
		}
		total := table.Total()
		release()
		if fixed, err := run.ReadKept(ctx, r.BaseRun(), run.PlanFile); err != nil {
			return err
		} else if fixed.Part && !core.IsHinted(r.Generation) && shards.Counts.Chunks >= 2*total {
			return fault.Outgrown.At("weigh the words of", r.Job.Index).
				Because(fmt.Sprintf("it has %d chunks, and they were learned from %d", shards.Counts.Chunks, total)).
				Advise("nothing: this run embeds the index again")
		}
		if core.IsHinted(r.Generation) || shards.Counts.Chunks < 2*total { // a night that changes something learns anew
			table := parent.Segments.IDF[0]
			frozen.IDF = &table
			return nil
		}
	}
	file, err := artifact.NewFile()
	if err != nil {
		return err
	}
	defer file.Discard()
	language := text.LanguageOf(r.Settings.Retrieval.Language)
	if err := idf.Learn(ctx, file, language, shards.Counts.Chunks, r.readTexts(ctx, shards)); err != nil {
		return err
	}
	table, _, err := file.PutSegment(ctx, r.Index)
	frozen.IDF = &table
	for _, fingerprint := range prints {
		fingerprint.IDF = table.SHA256
	}
	return err
}

// readTexts reads the chunks of all shards in chunk order.
func (r *Run) readTexts(ctx context.Context, shards run.Shards) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		for number, shard := range shards.Shards {
			if number%16 == 0 {
				r.Progress.Touch()
			}
			chunked, err := run.ReadKept(ctx, r.BaseRun(), run.ChunkFile(shard.Unit))
			if err != nil {
				yield("", err)
				return
			}
			texts, err := textseg.Open(ctx, r.Artifacts, r.Index.SegmentKey(chunked.Text.SHA256))
			if err != nil {
				yield("", err)
				return
			}
			chunks := r.ChunksKey(shard.Unit, chunked)
			for ref, err := range join.StreamRefs(ctx, r.Artifacts, chunks, shard.From, shard.To) {
				text := ""
				if err == nil {
					text, err = texts.Slice(ctx, ref.Document, ref.Frame, ref.Start, ref.End)
				}
				if !yield(text, err) || err != nil {
					return
				}
			}
		}
	}
}

// weighEmbedders gives the built-in embedders the table of this build; release it when they are not used any more.
func (r *Run) weighEmbedders(ctx context.Context, frozen run.Frozen, models *model.Set) (release func(), err error) {
	if frozen.IDF == nil {
		return func() {}, nil
	}
	table, release, err := r.OpenIdf(ctx, frozen.IDF.SHA256)
	if err != nil {
		return release, err
	}
	for _, embedder := range []*model.Embedder{&models.Classes, &models.Chunks} {
		if weighable, ok := model.As[model.Weighable](*embedder); ok {
			*embedder = weighable.WithIDF(table.Weight)
		}
	}
	return release, nil
}

// chooseCollections returns the parent's where the fingerprint and whose vectors they are is the same, since rows are
// shared by generations. Vectors of another server never lie beside those that are served: a collection that follows
// one of another domain, or of another fingerprint, is named by its domain too. family is the index that they are named
// after.
func (r *Run) chooseCollections(
	parent *core.Manifest, frozen run.Frozen, domains run.Trusted, family string,
) core.Collections {
	name := func(kind string, now, was core.Fingerprint, old string) string {
		number := 0
		same := parent != nil && was == now && (now.Provider == "builtin" || !domains.Moved)
		if same {
			number, _ = strconv.Atoi(old[strings.LastIndexByte(old, '_')+1:]) // else the first
		}
		plain := core.NameCollection(r.StoreID, family, kind, now.Digest(), number)
		if parent == nil || now.Provider == "builtin" || domains.Embedding == "" {
			return plain
		}
		own := core.NameCollection(r.StoreID, family, kind, ledger.ScopeKey(domains.Embedding, now.Digest()), number)
		if same && old != own {
			return plain
		}
		return own
	}
	var was core.Manifest
	if parent != nil {
		was = *parent
	}
	return core.Collections{
		Classes: name("classes", frozen.Class, was.Class, was.Collections.Classes),
		Chunks:  name("chunks", frozen.Chunk, was.Chunk, was.Collections.Chunks),
	}
}

func (r *Run) planImport(ctx context.Context, collections core.Collections) (run.Importing, error) {
	if _, imports := vectors.As[vectors.Importer](r.Vectors); !imports || r.Staging == nil {
		return run.Importing{}, nil
	}
	named, err := r.Index.FamilyRefs(ctx)
	if artifact.IsDamage(err) { // what one that cannot be read names is not known: nothing is dropped
		return run.Importing{}, nil
	}
	if err != nil {
		return run.Importing{}, err
	}
	var refs []core.GenerationRef
	for _, of := range named {
		refs = slices.AppendSeq(refs, maps.Values(of))
	}
	out := run.Importing{Classes: true, Chunks: true}
	for _, ref := range refs {
		manifest, err := r.Index.Manifest(ctx, ref.Manifest)
		if artifact.IsDamage(err) {
			return run.Importing{}, nil
		}
		if err != nil {
			return run.Importing{}, err
		}
		out.Classes = out.Classes && manifest.Collections.Classes != collections.Classes
		out.Chunks = out.Chunks && manifest.Collections.Chunks != collections.Chunks
	}
	return out, nil
}
