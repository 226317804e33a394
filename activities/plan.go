package activities

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/embed"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

// TakeLease makes this run the only builder of its index and gives its fence. A lease passes on only when Temporal says
// that its run is closed.
func (a *Activities) TakeLease(ctx context.Context, b workflows.Build) (int64, error) {
	r, err := a.open(ctx, b, "lease", 0, 0)
	if err != nil {
		return 0, r.outcome(ctx, err)
	}
	fence, err := r.lease(ctx)
	return fence, r.outcome(ctx, err)
}

func (r *run) lease(ctx context.Context) (int64, error) {
	ex := activity.GetInfo(ctx).WorkflowExecution
	var old corpus.Lease
	in, err := blob.ReadJSON(ctx, r.Artifacts, r.art.LeaseKey(), &old)
	cond := blob.Cond{Match: in.ETag}
	switch {
	case fault.Is(err, fault.NotFound):
		cond = blob.Cond{Absent: true}
	case err != nil:
		return 0, err
	case old.Workflow == ex.ID && old.Run == ex.RunID:
		return old.Fence, nil
	case old.Workflow != "":
		closed, err := r.Engine.Closed(ctx, old.Workflow, old.Run)
		if err != nil {
			return 0, err
		}
		if !closed {
			return 0, fault.LeaseHeld.At("build", r.b.Index).
				Because("another run builds this index: " + strings.TrimPrefix(old.Workflow, "build/")).
				Advise(
					"wait for it (unweaver status), or cancel it")
		}
	}
	next := corpus.Lease{Workflow: ex.ID, Run: ex.RunID, Fence: old.Fence + 1, Taken: time.Now().UTC()}
	_, err = blob.WriteJSON(ctx, r.Artifacts, r.art.LeaseKey(), next, cond)
	if fault.Is(err, fault.Precondition) {
		return 0, fault.LeaseHeld.At("build", r.b.Index).Because("another run took the lease at the same time")
	}
	return next.Fence, err
}

// PlanBuild lists the corpus, compares it with the parent and fixes what the rest of the run depends on.
func (a *Activities) PlanBuild(ctx context.Context, b workflows.Build) (workflows.Planned, error) {
	r, err := a.open(ctx, b, "plan", 0, 0)
	if err != nil {
		return workflows.Planned{}, r.outcome(ctx, err)
	}
	var out workflows.Planned
	err = r.work(ctx, func(ctx context.Context) error {
		var s sealed
		ok, err := r.done(ctx, "build.json", &s)
		if err != nil {
			return err
		}
		if !ok {
			if s, err = r.plan(ctx); err != nil {
				return err
			}
			if err := r.writeJSON(ctx, "build.json", s); err != nil {
				return err
			}
		}
		out = workflows.Planned{
			Unchanged: s.Plan.Diff.Unchanged || s.unchanged(),
			Units:     len(s.Plan.Units),
			Documents: s.Plan.Documents,
		}
		return nil
	})
	return out, err
}

// unchanged survives in build.json although Diff.Unchanged is not stored.
func (s sealed) unchanged() bool {
	return s.Parent != "" && s.Plan.Diff == corpus.Diff{Same: s.Plan.Documents} && s.Plan.Documents == s.ParentDocs
}

func (r *run) plan(ctx context.Context) (sealed, error) {
	s := sealed{Started: time.Now().UTC()}
	models, err := r.Models(r.spec)
	if err != nil {
		return s, err
	}
	cur, _, err := r.art.Current(ctx)
	if err != nil {
		return s, err
	}
	s.Epoch = cur.Epoch
	var parent *corpus.Manifest
	if cur.Manifest != "" {
		if parent, err = r.art.Manifest(ctx, cur.Manifest); err != nil {
			return s, err
		}
		if err := r.sameCorpus(ctx, parent); err != nil {
			return s, err
		}
		s.Parent, s.ParentDocs = cur.Manifest, parent.Counts.Documents
	}
	if s.Class, s.Chunk, err = r.fingerprints(ctx, models, parent); err != nil {
		return s, err
	}
	if parent != nil &&
		(parent.Config != r.spec.ConfigDigest() || parent.Class != s.Class || parent.Chunk != s.Chunk) {
		s.ParentDocs = -1 // built differently: nothing is unchanged
	}
	docs, err := r.Corpora(ctx, r.spec.Corpus)
	if err != nil {
		return s, err
	}
	s.Plan, err = plan.Run(
		ctx,
		plan.In{
			Spec:       r.spec,
			Corpus:     docs,
			Artifacts:  r.art,
			Scratch:    r.scratch,
			Parent:     parent,
			OnProgress: r.count,
		},
	)
	s.Plan.Diff.Unchanged = s.Plan.Diff.Unchanged && s.unchanged()
	return s, err
}

// sameCorpus refuses to replace an index by one of another corpus, unless asked to.
func (r *run) sameCorpus(ctx context.Context, parent *corpus.Manifest) error {
	old, err := r.art.Spec(ctx, parent.Spec)
	if err != nil || old.Corpus == r.spec.Corpus || r.b.ReplaceCorpus {
		return err
	}
	return fault.CorpusChanged.At("build", r.b.Index).
		Because(fmt.Sprintf("it was built from %s, not from %s", old.Corpus, r.spec.Corpus)).
		Advise(
			"choose another index name, or confirm with --replace-corpus")
}

// fingerprints of the embedders. A dimension that is not configured is the parent's, else it is asked for with one
// call.
func (r *run) fingerprints(
	ctx context.Context,
	set model.Set,
	parent *corpus.Manifest,
) (class, chunk corpus.Fingerprint, err error) {
	var old struct{ class, chunk corpus.Fingerprint }
	if parent != nil {
		old.class, old.chunk = parent.Class, parent.Chunk
	}
	of := func(embedder model.Embedder, template string, old corpus.Fingerprint) (corpus.Fingerprint, error) {
		dim := embedder.Dimension()
		if i := embedder.Info(); dim == 0 && old.Provider == i.Provider && old.Model == i.Model {
			dim = old.Dimension
		}
		if dim == 0 {
			err := retry.Do(ctx, func(ctx context.Context) error {
				vs, _, err := embedder.Embed(ctx, []string{"dimension"})
				if err == nil {
					dim = len(vs[0])
				}
				return err
			})
			if err != nil {
				return corpus.Fingerprint{}, err
			}
		}
		i := embedder.Info()
		fp := corpus.Fingerprint{
			Provider:  i.Provider,
			Model:     i.Model,
			Dimension: dim,
			Template:  template,
			Windows:   embed.WindowRule,
		}
		if _, ok := embedder.(model.Weighable); ok { // frozen for a line of generations; learned again when SealChunks says so
			if fp.IDF = old.IDF; fp != old {
				fp.IDF = ""
			}
		}
		return fp, nil
	}
	ct, kt := embed.ClassTemplate, embed.ChunkTemplate
	if r.spec.Parity {
		ct, kt = embed.ParityTemplate, "text/1"
	}
	if class, err = of(set.Classes, ct, old.class); err != nil {
		return class, chunk, err
	}
	chunk, err = of(set.Chunks, kt, old.chunk)
	return class, chunk, err
}

// collections are the parent's where the fingerprint is the same, since rows are shared by generations.
func (r *run) collections(parent *corpus.Manifest, s modelled) corpus.Collections {
	n := func(old string, same bool) int {
		if !same {
			return 0
		}
		k, err := strconv.Atoi(old[strings.LastIndexByte(old, '_')+1:])
		if err != nil {
			return 0
		}
		return k
	}
	var collections corpus.Collections
	var oc, ok string
	if parent != nil {
		oc, ok = parent.Collections.Classes, parent.Collections.Chunks
	}
	collections.Classes = corpus.Collection(
		r.StoreID,
		r.b.Index,
		"classes",
		s.Class.Digest(),
		n(oc, parent != nil && parent.Class == s.Class),
	)
	collections.Chunks = corpus.Collection(
		r.StoreID,
		r.b.Index,
		"chunks",
		s.Chunk.Digest(),
		n(ok, parent != nil && parent.Chunk == s.Chunk),
	)
	return collections
}
