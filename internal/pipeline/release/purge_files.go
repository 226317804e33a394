package release

import (
	"context"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/text"
)

// cleanseFiles takes out of the files of a generation what says of purged documents though no table of it leads there:
// the vectors of rows that do not count any more, and words in the table of weights that no other text has.
func (r *Run) cleanseFiles(ctx context.Context, manifest *core.Manifest, written *core.Written) error {
	fixed, err := r.ReadPlan(ctx)
	if err != nil || len(fixed.Pending) == 0 {
		return err
	}
	table, err := r.OpenTable(ctx, manifest)
	if err != nil {
		return err
	}
	defer table.Release()
	rewriting := r.NewRewriting(table)
	for _, list := range []*[]core.Segment{&manifest.Segments.ClassVecs, &manifest.Segments.ChunkVecs} {
		var out []core.Segment
		for _, one := range *list {
			made, fresh, err := rewriting.DropDead(ctx, one)
			if err != nil {
				return r.ReusedDamage(err)
			}
			if fresh {
				written.Segments++
			}
			if made.SHA256 != "" {
				out = append(out, made)
			}
		}
		*list = out
	}
	return r.cleanseWords(ctx, fixed, manifest, written)
}

// cleanseWords writes the table of words without those that only purged documents have. They weigh in no vector that
// stays, so that the fingerprint goes on naming the table that the line began with.
func (r *Run) cleanseWords(
	ctx context.Context, fixed run.Plan, manifest *core.Manifest, written *core.Written,
) error {
	if len(manifest.Segments.IDF) == 0 {
		return nil
	}
	wanted := map[core.Digest]bool{}
	for _, id := range fixed.Pending {
		traces, err := purges.Load(ctx, r.Index, id)
		if err != nil {
			return err
		}
		if traces == nil {
			return fault.Internal.At("cleanse words of", r.Name()).Because("purge " + id + " has no traces")
		}
		for word := range traces.Words {
			wanted[word] = true
		}
	}
	was := manifest.Segments.IDF[0]
	table, release, err := r.OpenIdf(ctx, was.SHA256)
	if err != nil {
		return err
	}
	defer release()
	only := map[string]bool{}
	for term := range table.Terms() {
		if wanted[purges.WordOf(term)] {
			only[strings.Clone(term)] = true
		}
	}
	if err := r.otherWords(ctx, manifest, only); err != nil || len(only) == 0 {
		return err
	}
	file, err := artifact.NewFile()
	if err != nil {
		return err
	}
	defer file.Discard()
	if err := table.WriteWithout(file, func(term string) bool { return only[term] }); err != nil {
		return err
	}
	made, fresh, err := file.PutSegment(ctx, r.Index)
	if fresh {
		written.Segments++
	}
	made.Rows, made.Part = was.Rows, was.Part
	manifest.Segments.IDF = []core.Segment{made}
	return err
}

// otherWords takes those words out of a set that a text of the generation has which is embedded.
func (r *Run) otherWords(ctx context.Context, manifest *core.Manifest, only map[string]bool) error {
	language := text.LanguageOf(r.Settings.Retrieval.Language)
	take := func(content string) {
		for _, word := range language.SurfaceWords(content) {
			delete(only, word)
		}
	}
	for chunk, err := range r.ChunkTexts(ctx, manifest, 0, 1) {
		if err != nil || len(only) == 0 {
			return err
		}
		take(embed.ChunkText(chunk.Title, chunk.Text))
	}
	for _, segment := range manifest.Segments.Classes {
		for row, err := range artifact.ScanAll(ctx, r.Index.Store, r.Index.SegmentKey(segment.SHA256)) {
			if err != nil {
				return err
			}
			class, err := rows.DecodeClass(row.Value)
			if err != nil {
				return err
			}
			record, err := rows.DecodeRecord(class.Record)
			if err != nil {
				return err
			}
			take(record.Name + " " + record.Text)
		}
		r.Progress.Touch()
	}
	return nil
}
