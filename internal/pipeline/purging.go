package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/text"
)

// purgeRun is what a run is for that does nothing but a purge.
type purgeRun struct {
	Purge string `json:"purge"`
}

func purgeFile(index artifact.Index, generation string) string {
	return index.GenerationKey(generation, "purge.json")
}

// ChoosePurge keeps what a run is for: to it the corpus is what the current generation has of it.
func ChoosePurge(ctx context.Context, index artifact.Index, generation, purge string) error {
	_, err := blob.WriteJSON(ctx, index.Store, purgeFile(index, generation), purgeRun{purge}, blob.Cond{})
	return err
}

// chosenPurge is the purge that the run is for; empty: it is a run like others.
func (r *Run) chosenPurge(ctx context.Context) (string, error) {
	var chosen purgeRun
	_, err := blob.ReadJSON(ctx, r.Artifacts, purgeFile(r.Index, r.Generation), &chosen)
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return chosen.Purge, err
}

// planPurges fixes what the run leaves out, and which purges it goes on with. What these look for is found before the
// first run of them changes anything.
func (r *Run) planPurges(ctx context.Context, fixed *Plan) error {
	base, err := r.Index.Base(ctx)
	if err != nil {
		return err
	}
	all, err := purges.List(ctx, base)
	if err != nil || len(all) == 0 {
		return err
	}
	if base.Name != r.Index.Name { // a branch leaves out what its base does; a purge waits until there is none
		fixed.Excluded, _ = purges.Excluded(all)
		return nil
	}
	if fixed.Purge, err = r.chosenPurge(ctx); err != nil {
		return err
	}
	fixed.Excluded, _ = purges.Excluded(all)
	for _, purge := range all {
		if purge.State != core.PurgePending {
			continue
		}
		fixed.Pending = append(fixed.Pending, purge.ID)
		if _, err := r.traces(ctx, purge); err != nil {
			return err
		}
	}
	return nil
}

// purged are the documents that nothing may be made of any more, as far as is known now: those of the index, or of the
// base of a branch.
func (r *Run) purged(ctx context.Context) (purges.Set, error) {
	base, err := r.Index.Base(ctx)
	if err != nil {
		return purges.Set{}, err
	}
	all, err := purges.List(ctx, base)
	excluded, _ := purges.Excluded(all)
	return excluded, err
}

// traces are what a purge looks for. They are found once; a run that goes on with it adds what came since, such as a
// generation that was held meanwhile.
func (r *Run) traces(ctx context.Context, purge core.Purge) (*purges.Traces, error) {
	former, err := purges.Load(ctx, r.Index, purge.ID)
	if err != nil && !artifact.IsDamage(err) {
		return nil, err
	}
	documents, _ := purges.Excluded([]core.Purge{purge})
	found, err := purges.Gather(ctx, r.Index, documents, r.Progress.Touch)
	if err != nil {
		return nil, err
	}
	indexes, err := indexesOf(ctx, r.Artifacts)
	if err != nil {
		return nil, err
	}
	if err := found.Strike(ctx, indexes, r.Job.Index, documents, r.Progress.Touch); err != nil {
		return nil, err
	}
	if former != nil {
		found.Merge(former)
	}
	return found, found.Save(ctx, r.Index, purge.ID)
}

// excludedOf are the documents that were purged and stay out of an index, or of the branches of it.
func excludedOf(ctx context.Context, index artifact.Index) (purges.Set, error) {
	base, err := index.Base(ctx)
	if err != nil {
		return purges.Set{}, err
	}
	all, err := purges.List(ctx, base)
	if err != nil {
		return purges.Set{}, err
	}
	excluded, _ := purges.Excluded(all)
	return excluded, nil
}

func purgedOf(excluded purges.Set) func(key string) bool {
	if excluded.Empty() {
		return nil
	}
	return excluded.Has
}

// cleanse takes out of the files of a generation what tells of purged documents though no table of it leads there: the
// vectors of rows that do not count any more, and words in the table of weights that no other text has.
func (r *Run) cleanse(ctx context.Context, manifest *core.Manifest, written *core.Written) error {
	fixed, err := r.fixed(ctx)
	if err != nil || len(fixed.Pending) == 0 {
		return err
	}
	table, err := r.table(ctx, manifest)
	if err != nil {
		return err
	}
	defer table.Release()
	rewriting := r.rewriting(table)
	for _, list := range []*[]core.Segment{&manifest.Segments.ClassVecs, &manifest.Segments.ChunkVecs} {
		var out []core.Segment
		for _, one := range *list {
			made, fresh, err := rewriting.Without(ctx, one)
			if err != nil {
				return r.reusedDamage(err)
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

// rowCounts tells whether a vector row is of a class or of a chunk as a generation has it.
func rowCounts(table *stored.Table, key string) bool {
	parts := strings.Split(key, "-") // <class id>-<digest>, or <chunk id>-<window>-<digest>
	id, err := core.ParseID(parts[0])
	switch {
	case err != nil:
		return false
	case len(parts) == 2:
		class, counts := table.Class(id)
		return counts && core.ClassRowOf(id, class.Vector) == key
	case len(parts) == 3:
		chunk, counts := table.Chunk(id)
		window, err := strconv.Atoi(parts[1])
		return err == nil && counts && window < chunk.Windows && core.ChunkRow(id, window, chunk.Digest) == key
	}
	return false
}

// cleanseWords writes the table of words without those that only purged documents have. They weigh in no vector that
// stays, so that the fingerprint goes on naming the table that the line began with.
func (r *Run) cleanseWords(
	ctx context.Context, fixed Plan, manifest *core.Manifest, written *core.Written,
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
	table, release, err := r.segments.idf(ctx, r, was.SHA256)
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
	if err := r.otherWords(ctx, fixed, manifest, only); err != nil || len(only) == 0 {
		return err
	}
	file, err := artifact.NewFile()
	if err != nil {
		return err
	}
	defer file.Discard()
	if err := table.Without(file, func(term string) bool { return only[term] }); err != nil {
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
func (r *Run) otherWords(
	ctx context.Context, fixed Plan, manifest *core.Manifest, only map[string]bool,
) error {
	take := func(content string) {
		for _, word := range text.Surface(content) {
			delete(only, word)
		}
	}
	texts := map[int]core.Segment{}
	for _, segment := range manifest.Segments.Text {
		texts[segment.Part] = segment
	}
	for _, segment := range manifest.Segments.Documents {
		if len(only) == 0 {
			return nil
		}
		reader, err := textseg.Open(ctx, r.Index.Store, r.Index.SegmentKey(texts[segment.Part].SHA256))
		if err != nil {
			return err
		}
		for row, err := range artifact.ScanAll(ctx, r.Index.Store, r.Index.SegmentKey(segment.SHA256)) {
			if err != nil {
				return err
			}
			if fixed.Excluded.Has(string(row.Key)) {
				continue
			}
			document, err := rows.DecodeDocument(row.Value)
			if err != nil {
				return err
			}
			for _, chunk := range document.Chunks {
				content, err := reader.Slice(ctx, string(row.Key), document.Frame, chunk.Start, chunk.End)
				if err != nil {
					return err
				}
				take(embed.ChunkText(document.Title, content))
			}
			r.Progress.Touch()
		}
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

// indexesOf are all indexes of a store, in order.
func indexesOf(ctx context.Context, store blob.Store) ([]artifact.Index, error) {
	names, err := artifact.Names(ctx, store)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	indexes := make([]artifact.Index, 0, len(names))
	for _, name := range names {
		indexes = append(indexes, artifact.Index{Store: store, Name: name})
	}
	return indexes, nil
}

// purgePatience is how long a run waits until nobody has a generation open that has to go.
const purgePatience = 2 * time.Minute

// stillOpen says what a purge waits for.
func stillOpen(generations int64) string {
	return fmt.Sprintf("%d generations that hold it are still open in query-api: they go once closed there", generations)
}
