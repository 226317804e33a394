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
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/plan"
)

// ListDue says why a generation is published though its documents are the parent's: its enrichments are not those that
// the configuration names, queries are answered by other models, or the parent has the settings of an image.
func (r *Run) ListDue(
	ctx context.Context, fixed run.Plan, parent *core.Manifest, models model.Set,
) ([]string, error) {
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
		if settings.Pulled { // what goes by the served settings is refused until they are of this place
			reasons = append(reasons, "settings of this place, was those of an image")
		}
	}
	for _, name := range r.Settings.Enrich {
		made, err := findEnrichment(name)
		if err != nil {
			return nil, err
		}
		was := parent.Enrichment(name)
		if was == nil {
			reasons = append(reasons, "enrich: "+name+" is new")
			continue
		}
		var named []string
		if made.ListChanges != nil && unread == nil {
			named = made.ListChanges(settings, r.Settings)
		}
		if was.Rules != made.DigestRules(r.Settings, models) && len(named) == 0 {
			named = []string{name + " is built with different rules or models"}
		}
		if failed := was.Counts[enrich.Failed]; failed > 0 && again {
			named = append(named, fmt.Sprintf("%s: %d %s without a usable answer are retried", name, failed,
				made.Asks))
		}
		for _, reason := range named {
			reasons = append(reasons, "enrich: "+reason)
		}
	}
	for _, was := range parent.Enriched {
		if !slices.Contains(r.Settings.Enrich, was.Name) {
			reasons = append(reasons, "enrich: "+was.Name+" is no longer configured")
		}
	}
	if why := fixed.Renaming.FindReason(); why != "" {
		reasons = append(reasons, why)
	}
	return reasons, nil
}

// ListPaidEnrichments lists the enrichments of the configuration whose models are paid.
func (r *Run) ListPaidEnrichments(models model.Set) []string {
	return slices.DeleteFunc(slices.Clone(r.Settings.Enrich), func(name string) bool {
		made, err := findEnrichment(name)
		return err != nil || !models.ChatOf(made.Role).Info().Paid
	})
}

// findEnrichment gives an enrichment that the configuration names.
func findEnrichment(name string) (enrich.Enrichment, error) {
	if made, ok := methods.Enrichments[name]; ok {
		return made, nil
	}
	return enrich.Enrichment{}, fault.BadConfig.At("enrich", name).
		Because("this program knows no enrichment of that name").
		Advise("bring the workers to the version of the program that started the run")
}

// lendBuild returns the generation that is enriched with what an enrichment needs of this run. Release it when the
// models are not used any more.
func (r *Run) lendBuild(ctx context.Context, manifest *core.Manifest) (*enrich.Build, func(), error) {
	fixed, err := r.ReadPlan(ctx)
	if err != nil {
		return nil, nil, err
	}
	models, err := r.ModelSet()
	if err != nil {
		return nil, nil, err
	}
	release, err := r.weighEmbedders(ctx, fixed.Frozen, &models)
	if err != nil {
		return nil, nil, err
	}
	return &enrich.Build{
		Manifest: manifest, Spec: r.Settings, Models: models, Ledger: r.Ledger, Index: r.Index, Cache: r.Cache,
		Vectors: r.Vectors, Attempt: r.Attempt, Touch: r.Progress.Touch, HealthOf: r.Book.HealthOf, TakePlace: r.TakePlace,
		ReadParent: func(ctx context.Context) (*core.Manifest, error) { return r.ReadParent(ctx, fixed.Source()) },
		Chunks: func(ctx context.Context, n, parts int) iter.Seq2[enrich.Chunk, error] {
			return r.ChunkTexts(ctx, manifest, n, parts)
		},
	}, release, nil
}

// EnrichPart pays for what enrichments need of a part of the chunks.
func (r *Run) EnrichPart(ctx context.Context, n int) error {
	_, err := FinishUnit(ctx, r, run.EnrichFile(n), func(
		ctx context.Context, _ *core.Progress,
	) (none struct{}, err error) {
		manifest, err := run.ReadKept(ctx, r.BaseRun(), run.ManifestFile)
		if err != nil {
			return none, err
		}
		partitions, err := run.ReadKept(ctx, r.BaseRun(), run.PartitionsFile)
		if err != nil {
			return none, err
		}
		build, release, err := r.lendBuild(ctx, &manifest)
		if err != nil {
			return none, err
		}
		defer release()
		for _, name := range r.Settings.Enrich {
			made, err := findEnrichment(name)
			if err == nil && made.Pay != nil {
				err = made.Pay(ctx, build, n, partitions.Partitions)
			}
			if err != nil {
				return none, err
			}
		}
		return none, nil
	})
	return err
}

// SealEnrichment writes the files of the enrichments.
func (r *Run) SealEnrichment(ctx context.Context) error {
	_, err := FinishUnit(ctx, r, enrichedFile, func(ctx context.Context, progress *core.Progress) ([]enrich.Made, error) {
		manifest, err := run.ReadKept(ctx, r.BaseRun(), run.ManifestFile)
		if err != nil {
			return nil, err
		}
		build, release, err := r.lendBuild(ctx, &manifest)
		if err != nil {
			return nil, err
		}
		defer release()
		var all []enrich.Made
		for _, name := range r.Settings.Enrich {
			made, err := findEnrichment(name)
			if err != nil {
				return nil, err
			}
			one, err := r.sealEnrichment(ctx, made, build)
			if err != nil {
				return nil, err
			}
			progress.Written.Segments += one.Fresh
			all = append(all, one)
		}
		return all, nil
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

// ChunkTexts gives the chunks that count in a draft, or part n of them, of parts. Their order is that of the files that
// they lie in, and a chunk that was made again with the same text may come twice.
func (r *Run) ChunkTexts(
	ctx context.Context, manifest *core.Manifest, n, parts int,
) iter.Seq2[enrich.Chunk, error] {
	return func(yield func(enrich.Chunk, error) bool) {
		failed := func(err error) { yield(enrich.Chunk{}, err) }
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
				if r.Settings.Parity { // titles are not embedded
					document.Title = ""
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
					found := enrich.Chunk{ID: chunk.ID, Document: key, Title: document.Title, Ordinal: ordinal, Text: content}
					if !yield(found, err) || err != nil {
						return
					}
				}
				r.Progress.Touch()
			}
		}
	}
}

const enrichedFile run.File[[]enrich.Made] = "enriched.json"
