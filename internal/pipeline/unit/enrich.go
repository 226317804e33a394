package unit

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/aliases/pairstage"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/plan"
)

// enrichment is what a build makes of a generation beside what every one has, where the configuration names it. It
// works from the draft of the generation, whose chunks are fixed.
type enrichment interface {
	// DigestRules is a digest of all that shapes it: settings, models, versions of its own rules. Where the parent's has
	// the same and no chunk changed, the parent's files stay.
	DigestRules(r *Run) (string, error)
	// Pay puts into the ledger what it needs of part n of the chunks, of parts. It may be repeated.
	Pay(ctx context.Context, r *Run, manifest *core.Manifest, n, parts int) error
	// Seal makes the files, asking the ledger. Equal chunks and rules give equal bytes, whatever the parent.
	Seal(ctx context.Context, r *Run, manifest *core.Manifest) (Enriched, error)
}

// explained is an enrichment with settings of its own: what changed of them, and what that has made again.
type explained interface {
	// ListChanges names what the settings of a generation have made otherwise now, where its enrichment is what made says.
	ListChanges(was, now core.Spec) []string
}

// Enriched is what one enrichment made.
type Enriched struct {
	Enrichment core.Enrichment     `json:"enrichment"`
	Files      []core.EnrichedFile `json:"files"`
	Fresh      int64               `json:"fresh"` // files that were not there
}

// Enrichments by name, as indexes.*.enrich names them.
var Enrichments = map[string]enrichment{}

// listDue says why a generation is published though its documents and what is made of them are the parent's: its
// enrichments are not those that the configuration names, or queries are answered by other models.
func (r *Run) listDue(ctx context.Context, parent *core.Manifest) ([]string, error) {
	if parent == nil {
		return nil, nil
	}
	settings, unread := r.Index.Spec(ctx, parent.Spec)
	if unread != nil && !artifact.IsDamage(unread) {
		return nil, unread
	}
	again, err := r.RetriesAll(ctx)
	if err != nil {
		return nil, err
	}
	var reasons []string
	if unread == nil {
		reasons = plan.AnswerChanges(settings, r.Settings)
	}
	for _, name := range r.Settings.Enrich {
		made, ok := Enrichments[name]
		if !ok {
			return nil, fault.BadConfig.At("enrich", name).Because("this program knows no enrichment of that name").
				Advise("bring the workers to the version of the program that started the run")
		}
		rules, err := made.DigestRules(r)
		if err != nil {
			return nil, err
		}
		was := parent.Enrichment(name)
		if was == nil {
			reasons = append(reasons, "enrich: "+name+" is new")
			continue
		}
		var named []string
		if one, ok := made.(explained); ok && unread == nil {
			named = one.ListChanges(settings, r.Settings)
		}
		if was.Rules != rules && len(named) == 0 {
			named = []string{name + " is made by other rules or models"}
		}
		if failed := was.Counts["failed"]; failed > 0 && again {
			of := "chunks"
			if name == pairstage.Enrichment {
				of = "pairs"
			}
			named = append(named, fmt.Sprintf("%s: %d %s that gave no answer of use are asked for again", name, failed, of))
		}
		for _, reason := range named {
			reasons = append(reasons, "enrich: "+reason)
		}
	}
	for _, was := range parent.Enriched {
		if !slices.Contains(r.Settings.Enrich, was.Name) {
			reasons = append(reasons, "enrich: "+was.Name+" is not wanted any more")
		}
	}
	return reasons, nil
}

// findEnrichment gives an enrichment that the configuration names.
func (r *Run) findEnrichment(name string) (enrichment, error) {
	if made, ok := Enrichments[name]; ok {
		return made, nil
	}
	return nil, fault.BadConfig.At("enrich", name).Because("this program knows no enrichment of that name").
		Advise("bring the workers to the version of the program that started the run")
}

// EnrichPart pays for what enrichments need of a part of the chunks.
func (r *Run) EnrichPart(ctx context.Context, n int) error {
	_, err := FinishUnit(ctx, r, run.EnrichFile(n), func(ctx context.Context) (struct{}, core.Progress, error) {
		progress := core.Progress{Done: 1}
		manifest, err := run.ReadKept(ctx, r.BaseRun(), run.ManifestFile)
		if err != nil {
			return struct{}{}, progress, err
		}
		partitions, err := run.ReadKept(ctx, r.BaseRun(), run.PartitionsFile)
		if err != nil {
			return struct{}{}, progress, err
		}
		for _, name := range r.Settings.Enrich {
			made, err := r.findEnrichment(name)
			if err == nil {
				err = made.Pay(ctx, r, &manifest, n, partitions.Partitions)
			}
			if err != nil {
				return struct{}{}, progress, err
			}
		}
		return struct{}{}, progress, nil
	})
	return err
}

// SealEnrichment writes the files of the enrichments.
func (r *Run) SealEnrichment(ctx context.Context) error {
	_, err := FinishUnit(ctx, r, enrichedFile, func(ctx context.Context) ([]Enriched, core.Progress, error) {
		progress := core.Progress{Done: 1}
		manifest, err := run.ReadKept(ctx, r.BaseRun(), run.ManifestFile)
		if err != nil {
			return nil, progress, err
		}
		var all []Enriched
		for _, name := range r.Settings.Enrich {
			made, err := r.findEnrichment(name)
			if err != nil {
				return nil, progress, err
			}
			one, err := r.sealEnrichment(ctx, name, made, &manifest)
			if err != nil {
				return nil, progress, err
			}
			progress.Written.Segments += one.Fresh
			all = append(all, one)
		}
		return all, progress, nil
	})
	return err
}

// WithEnrichments adds to a draft what was made of it.
func (r *Run) WithEnrichments(ctx context.Context, manifest *core.Manifest) error {
	if len(r.Settings.Enrich) == 0 {
		return nil
	}
	all, found, err := enrichedFile.Find(ctx, r.Scratch)
	if err != nil || !found { // a run of a format that has no such stage
		return err
	}
	for _, one := range all {
		manifest.Enriched = append(manifest.Enriched, one.Enrichment)
		manifest.Segments.Enriched = append(manifest.Segments.Enriched, one.Files...)
	}
	return nil
}

// ChunkText is a chunk of a draft with its text.
type ChunkText struct {
	ID       core.ID
	Document string
	Title    string
	Ordinal  int
	Text     string
}

// ChunkTexts gives the chunks that count in a draft, or part n of them, of parts. Their order is that of the files that
// they lie in, and a chunk that was made again with the same text may come twice.
func (r *Run) ChunkTexts(
	ctx context.Context, manifest *core.Manifest, n, parts int,
) iter.Seq2[ChunkText, error] {
	return func(yield func(ChunkText, error) bool) {
		failed := func(err error) { yield(ChunkText{}, err) }
		table, err := r.OpenTable(ctx, manifest)
		if err != nil {
			failed(err)
			return
		}
		defer table.Release()
		texts := map[int]core.Segment{}
		for _, segment := range manifest.Segments.Text {
			texts[segment.Part] = segment
		}
		// A part reads segments of its own where there are enough.
		place, whole := -1, len(manifest.Segments.Documents) >= parts
		for number, segment := range manifest.Segments.Documents {
			if whole && number%parts != n {
				continue
			}
			reader, err := textseg.Open(ctx, r.Index.Store, r.Index.SegmentKey(texts[segment.Part].SHA256))
			if err != nil {
				failed(err)
				return
			}
			for row, err := range artifact.ScanAll(ctx, r.Index.Store, r.Index.SegmentKey(segment.SHA256)) {
				if err != nil {
					failed(err)
					return
				}
				key := string(row.Key)
				if place++; !whole && place%parts != n {
					continue
				}
				placed, counts := table.ChunksOf(key)
				if !counts {
					continue
				}
				document, err := rows.DecodeDocument(row.Value)
				if err != nil {
					failed(err)
					return
				}
				live := map[core.ID]int{} // with its place, which may differ from that in a former document
				for ordinal, chunk := range placed {
					live[chunk.ID] = ordinal
				}
				for _, chunk := range document.Chunks {
					ordinal, counts := live[chunk.ID]
					if !counts { // the document was made again since
						continue
					}
					content, err := reader.Slice(ctx, key, document.Frame, chunk.Start, chunk.End)
					if !yield(ChunkText{chunk.ID, key, document.Title, ordinal, content}, err) || err != nil {
						return
					}
				}
				r.Progress.Touch()
			}
		}
	}
}
