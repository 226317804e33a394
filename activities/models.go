package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/format/idf"
	"github.com/unweaver/unweaver/internal/format/textseg"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/store/artifact"
)

// modelled is models.json: what is fixed once the chunks are there. The built-in embedder weighs words by how many
// chunks hold them, and its table is part of its fingerprint, which names the collections.
type modelled struct {
	Class       corpus.Fingerprint `json:"class"`
	Chunk       corpus.Fingerprint `json:"chunk"`
	Collections corpus.Collections `json:"collections"`
	Import      importing          `json:"import"`
	IDF         *corpus.Segment    `json:"idf,omitempty"`
}

func (r *run) models(ctx context.Context, sh shards) (modelled, error) {
	var s sealed
	if err := r.readJSON(ctx, "build.json", &s); err != nil {
		return modelled{}, err
	}
	var parent *corpus.Manifest
	if s.Parent != "" {
		var err error
		if parent, err = r.art.Manifest(ctx, s.Parent); err != nil {
			return modelled{}, err
		}
	}
	set, err := r.Models(r.spec)
	if err != nil {
		return modelled{}, err
	}
	m := &s.modelled
	if err := r.learn(ctx, m, set, parent, sh); err != nil {
		return *m, err
	}
	m.Collections = r.collections(parent, *m)
	m.Import, err = r.importing(ctx, m.Collections)
	return *m, err
}

// learn takes the parent's table over, or learns one: at a full build, and when there are twice as many chunks.
func (r *run) learn(ctx context.Context, m *modelled, set model.Set, parent *corpus.Manifest, sh shards) error {
	var fps []*corpus.Fingerprint
	for _, x := range []struct {
		e  model.Embedder
		fp *corpus.Fingerprint
	}{{set.Classes, &m.Class}, {set.Chunks, &m.Chunk}} {
		if _, ok := x.e.(model.Weighable); ok {
			fps = append(fps, x.fp)
		}
	}
	if len(fps) == 0 {
		return nil
	}
	if parent != nil && len(parent.Segments.IDF) > 0 && fps[0].IDF == parent.Segments.IDF[0].SHA256 {
		old := parent.Segments.IDF[0]
		table, err := r.idf(ctx, old.SHA256)
		if err != nil {
			return err
		}
		if sh.Counts.Chunks < 2*table.Total() {
			m.IDF = &old
			for _, fp := range fps {
				fp.IDF = old.SHA256
			}
			return nil
		}
	}
	file, err := artifact.NewFile()
	if err != nil {
		return err
	}
	defer file.Discard()
	if err := idf.Learn(ctx, file, sh.Counts.Chunks, r.texts(ctx, sh)); err != nil {
		return err
	}
	seg, _, err := file.PutSegment(ctx, r.art)
	m.IDF = &seg
	for _, fp := range fps {
		fp.IDF = seg.SHA256
	}
	return err
}

// texts reads the chunks of all shards in chunk order.
func (r *run) texts(ctx context.Context, sh shards) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		for _, shard := range sh.Shards {
			var result chunk.Result
			if err := r.readJSON(ctx, chunkName(shard.Unit), &result); err != nil {
				yield("", err)
				return
			}
			reader, err := textseg.Open(ctx, r.Artifacts, r.art.SegmentKey(result.Text.SHA256))
			if err != nil {
				yield("", err)
				return
			}
			for ref, err := range items.Refs(ctx, r.Artifacts, r.scratch, shard.Unit, shard.From, shard.To) {
				s := ""
				if err == nil {
					s, err = reader.Slice(ctx, ref.Document, ref.Frame, ref.Start, ref.End)
				}
				if !yield(s, err) || err != nil {
					return
				}
			}
		}
	}
}

// idf maps a table once per process.
func (r *run) idf(ctx context.Context, sha string) (*idf.Table, error) {
	return mapOnce(ctx, r.Activities, r.art, &r.idfs, sha, idf.Open)
}

// weigh gives the built-in embedders the table of this build.
func (r *run) weigh(ctx context.Context, s sealed, set *model.Set) error {
	if s.IDF == nil {
		return nil
	}
	table, err := r.idf(ctx, s.IDF.SHA256)
	if err != nil {
		return err
	}
	for _, e := range []*model.Embedder{&set.Classes, &set.Chunks} {
		if w, ok := (*e).(model.Weighable); ok {
			*e = w.WithIDF(table.Weight)
		}
	}
	return nil
}
