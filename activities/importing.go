package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/workflows"
)

// importing tells which collections are filled by bulk import. Only a collection that no generation names is: what
// lies in it then is left from an abandoned build and may be dropped.
type importing struct {
	Classes bool `json:"classes"`
	Chunks  bool `json:"chunks"`
}

func (r *run) importing(ctx context.Context, collections corpus.Collections) (importing, error) {
	if _, ok := r.Vectors.(vectors.Importer); !ok || r.Staging == nil {
		return importing{}, nil
	}
	refs, err := r.art.Refs(ctx)
	if err != nil {
		return importing{}, err
	}
	out := importing{Classes: true, Chunks: true}
	for _, ref := range refs {
		manifest, err := r.art.Manifest(ctx, ref.Manifest)
		if err != nil {
			return importing{}, err
		}
		out.Classes = out.Classes && manifest.Collections.Classes != collections.Classes
		out.Chunks = out.Chunks && manifest.Collections.Chunks != collections.Chunks
	}
	return out, nil
}

// ImportVectors has the vector store import what load wrote for collections that are new.
func (a *Activities) ImportVectors(ctx context.Context, b workflows.Build) error {
	r, err := a.open(ctx, b, "load", -1, 0)
	if err != nil {
		return r.outcome(ctx, err)
	}
	return r.work(ctx, func(ctx context.Context) error {
		var p partitioning
		var sh shards
		s, err := r.sealed(ctx)
		if err != nil {
			return err
		}
		for name, v := range map[string]any{"partitions.json": &p, "shards.json": &sh} {
			if err := r.readJSON(ctx, name, v); err != nil {
				return err
			}
		}
		kinds := []load.ImportIn{
			{Kind: "classes", Collection: s.Collections.Classes, Dimension: s.Class.Dimension},
			{Kind: "chunks", Collection: s.Collections.Chunks, Dimension: s.Chunk.Dimension},
		}
		for n := range p.Partitions + len(sh.Shards) {
			var result load.Result
			if err := r.readJSON(ctx, loadedName(n), &result); err != nil {
				return err
			}
			if k := &kinds[min(1, n/p.Partitions)]; result.Vectors.SHA256 != "" {
				k.Files = append(k.Files, result.Vectors)
			}
		}
		for i, on := range []bool{s.Import.Classes, s.Import.Chunks} {
			if !on {
				continue
			}
			in := kinds[i]
			in.Artifacts, in.Staging, in.Vectors, in.State = r.art, r.Staging, r.Vectors, r.key(
				"import-"+in.Kind+".json",
			)
			in.Prefix = "unweaver-import/" + r.StoreID[:8] + "/" + r.scratch + "/" + in.Kind
			in.Log = r.Log.With("run_id", r.id, "stage", "load", "kind", in.Kind)
			if err := load.Import(ctx, in); err != nil {
				return err
			}
		}
		return nil
	})
}
