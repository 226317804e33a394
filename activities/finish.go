package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/live"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/stage/verify"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/workflows"
)

// WriteSegments writes what queries map, and the manifest as a draft.
func (a *Activities) WriteSegments(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	_, err := unit(a, ctx, u, "manifest.json", func(ctx context.Context, r *run) (corpus.Manifest, error) {
		release, err := r.cpu(ctx)
		if err != nil {
			return corpus.Manifest{}, err
		}
		defer release()
		manifest, err := r.draft(ctx)
		if err != nil {
			return manifest, err
		}
		seg, fresh, err := segment.Live(
			ctx,
			segment.In{
				Artifacts:  r.art,
				Scratch:    r.scratch,
				Segments:   manifest.Segments,
				Shards:     len(manifest.Segments.Extract),
				OnProgress: func(int64) {},
			},
		)
		if err != nil {
			return manifest, err
		}
		manifest.Segments.Live = []corpus.Segment{seg}
		progress := corpus.Progress{Done: 1}
		if fresh {
			progress.Written.Segments = 1
		}
		lf, err := r.liveFile(ctx, r.art, seg.SHA256)
		if err != nil {
			return manifest, err
		}
		if seg, fresh, err = segment.Search(ctx, segment.SearchIn{Artifacts: r.art, Segments: manifest.Segments, Live: lf, Spec: r.spec, OnProgress: func(int64) {}}); err != nil {
			return manifest, err
		}
		manifest.Segments.Search = []corpus.Segment{seg}
		if fresh {
			progress.Written.Segments++
		}
		r.beat(progress)
		return manifest, nil
	})
	return workflows.UnitResult{Done: 1}, err
}

// draft gathers what the stages wrote into a manifest.
func (r *run) draft(ctx context.Context) (corpus.Manifest, error) {
	var sh shards
	var p partitioning
	s, err := r.sealed(ctx)
	if err != nil {
		return corpus.Manifest{}, err
	}
	for name, v := range map[string]any{"shards.json": &sh, "partitions.json": &p} {
		if err := r.readJSON(ctx, name, v); err != nil {
			return corpus.Manifest{}, err
		}
	}
	models, err := r.Models(r.spec)
	if err != nil {
		return corpus.Manifest{}, err
	}
	manifest := corpus.Manifest{
		Format:      corpus.ManifestFormat,
		Index:       r.b.Index,
		Generation:  r.b.Generation,
		Parent:      s.Parent,
		Store:       r.StoreID,
		Config:      r.spec.ConfigDigest(),
		Created:     s.Started,
		Class:       s.Class,
		Chunk:       s.Chunk,
		Partitions:  p.Partitions,
		Collections: s.Collections,
		Counts:      sh.Counts,
		Hashes:      sh.Hashes,
		Models:      corpus.ModelSummary{Chat: models.Chat.Info().Label(), Embedding: models.Chunks.Info().Label()},
	}
	if err := manifest.Spec.UnmarshalText([]byte(r.b.Spec)); err != nil {
		return manifest, err
	}
	if s.IDF != nil {
		manifest.Segments.IDF = []corpus.Segment{*s.IDF}
	}
	manifest.Counts.Fallbacks, manifest.Counts.DeadLetters = p.Fallbacks, p.Dead
	for n := range s.Plan.Units {
		var result chunk.Result
		if err := r.readJSON(ctx, chunkName(n), &result); err != nil {
			return manifest, err
		}
		manifest.Segments.Text = append(manifest.Segments.Text, result.Text)
		manifest.Segments.Documents = append(manifest.Segments.Documents, result.Documents)
	}
	for n := range sh.Shards {
		var e extract.SealResult
		if err := r.readJSON(ctx, sealedName(n), &e); err != nil {
			return manifest, err
		}
		manifest.Segments.Extract = append(manifest.Segments.Extract, e.Extract)
	}
	for n := range p.Partitions {
		var d reduce.Result
		if err := r.readJSON(ctx, reducedName(n), &d); err != nil {
			return manifest, err
		}
		manifest.Segments.Mentions = append(manifest.Segments.Mentions, d.Mentions)
		manifest.Counts.Mentions += d.Counts.Mentions
		manifest.Counts.Edges += d.Counts.Edges
		manifest.Hashes.Content.Merge(d.Content)
	}
	return manifest, r.loaded(ctx, &manifest, p, len(sh.Shards))
}

// loaded adds what load wrote, and the parent's vectors that are still used.
func (r *run) loaded(ctx context.Context, manifest *corpus.Manifest, p partitioning, shards int) error {
	env, _, err := r.env(ctx)
	if err != nil {
		return err
	}
	if env.Parent != nil && env.Parent.Collections.Classes == manifest.Collections.Classes {
		manifest.Segments.ClassVecs = append(manifest.Segments.ClassVecs, env.Parent.Segments.ClassVecs...)
	}
	if env.Parent != nil && env.Parent.Collections.Chunks == manifest.Collections.Chunks {
		manifest.Segments.ChunkVecs = append(manifest.Segments.ChunkVecs, env.Parent.Segments.ChunkVecs...)
	}
	for n := range p.Partitions + shards {
		var result load.Result
		if err := r.readJSON(ctx, loadedName(n), &result); err != nil {
			return err
		}
		manifest.Hashes.Merge(result.Hashes)
		if n < p.Partitions {
			manifest.Segments.Classes = append(manifest.Segments.Classes, result.Rows)
			manifest.Counts.Classes += result.Counts.Classes
			if result.Vectors.SHA256 != "" {
				manifest.Segments.ClassVecs = append(manifest.Segments.ClassVecs, result.Vectors)
			}
			continue
		}
		manifest.Counts.Windows += result.Counts.Windows
		if result.Vectors.SHA256 != "" {
			manifest.Segments.ChunkVecs = append(manifest.Segments.ChunkVecs, result.Vectors)
		}
	}
	return nil
}

// VerifyPart checks one partition's records and vectors, or one shard's vectors.
func (a *Activities) VerifyPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	_, err := unit(
		a,
		ctx,
		u,
		fmt.Sprintf("verified-%05d.json", u.N),
		func(ctx context.Context, r *run) (verify.Result, error) {
			var manifest corpus.Manifest
			if err := r.readJSON(ctx, "manifest.json", &manifest); err != nil {
				return verify.Result{}, err
			}
			var result load.Result
			if err := r.readJSON(ctx, loadedName(u.N), &result); err != nil {
				return verify.Result{}, err
			}
			in := verify.In{
				Artifacts:  r.art,
				Manifest:   &manifest,
				Classes:    r.Classes,
				Vectors:    r.Vectors,
				OnProgress: func(int64) {},
			}
			var res verify.Result
			coll, dim := manifest.Collections.Chunks, manifest.Chunk.Dimension
			if u.N < manifest.Partitions {
				coll, dim = manifest.Collections.Classes, manifest.Class.Dimension
				var err error
				if res, err = verify.Records(ctx, in, result.Rows); err != nil {
					return res, err
				}
			}
			if result.Vectors.SHA256 != "" {
				v, err := verify.Vectors(ctx, in, result.Vectors, coll, dim)
				if err != nil {
					return res, err
				}
				res.Checked += v.Checked
				res.Rewritten += v.Rewritten
			}
			r.beat(corpus.Progress{Done: 1})
			return res, nil
		},
	)
	return workflows.UnitResult{Done: 1}, err
}

// PublishBuild puts the built generation through the gates and makes it the served one.
func (a *Activities) PublishBuild(ctx context.Context, u workflows.Unit) (workflows.Outcome, error) {
	r, err := a.open(ctx, u.Build, u.Stage, 0, 0)
	if err != nil {
		return workflows.Outcome{}, r.outcome(ctx, err)
	}
	var out workflows.Outcome
	err = r.work(ctx, func(ctx context.Context) error {
		var err error
		out, err = r.publish(ctx)
		if fault.Is(err, fault.PointerMoved) {
			out, err = workflows.Outcome{Status: corpus.StatusHeld, Reason: string(fault.PointerMoved)}, nil
		}
		r.beat(corpus.Progress{Done: 1})
		return err
	})
	return out, err
}

func (r *run) publish(ctx context.Context) (workflows.Outcome, error) {
	var sh shards
	var manifest corpus.Manifest
	s, err := r.sealed(ctx)
	if err != nil {
		return workflows.Outcome{}, err
	}
	for name, v := range map[string]any{"shards.json": &sh, "manifest.json": &manifest} {
		if err := r.readJSON(ctx, name, v); err != nil {
			return workflows.Outcome{}, err
		}
	}
	total, err := r.total(ctx)
	if err != nil {
		return workflows.Outcome{}, err
	}
	manifest.Tokens, manifest.Cost = total.Tokens, total.Cost
	reason, detail := publish.Gate(r.spec, manifest.Counts, s.Plan.Diff, sh.Failed, s.ParentDocs)
	out := workflows.Outcome{Status: corpus.StatusCompleted, Reason: reason}
	state := "published"
	switch {
	case reason != "":
		out.Status, state = corpus.StatusHeld, "held"
	case manifest.Counts.DeadLetters > 0 || sh.Failed > 0 || s.Plan.Diff.Unusable > 0:
		out.Status = corpus.StatusErrors
	}
	var ref corpus.GenerationRef
	if ref, err = r.art.GenerationRef(ctx, manifest.Generation); err == nil { // a repeated attempt keeps its number
		manifest.Seq = ref.Seq
	} else if manifest.Seq, err = publish.Seq(ctx, r.art); err != nil {
		return out, err
	}
	if err := r.reused(ctx, &manifest); err != nil {
		return out, err
	}
	if err := r.collectionsReady(ctx, &manifest, total.Written.Rows); err != nil {
		return out, err
	}
	sha, err := publish.Store(ctx, r.art, &manifest, state)
	if err != nil {
		return out, err
	}
	if state == "held" {
		return out, r.writeJSON(ctx, "held.json", failure{reason, detail})
	}
	if _, err = publish.Flip(ctx, r.art, r.Classes, manifest.Generation, sha, manifest.Seq, s.Epoch); err != nil {
		return out, err
	}
	r.alias(ctx, &manifest)
	return out, nil
}

// reused samples the vectors that the parent wrote; what this run wrote is verified row by row.
func (r *run) reused(ctx context.Context, manifest *corpus.Manifest) error {
	env, _, err := r.env(ctx)
	if err != nil || env.Parent == nil {
		return err
	}
	in := verify.In{
		Artifacts:  r.art,
		Manifest:   manifest,
		Classes:    r.Classes,
		Vectors:    r.Vectors,
		OnProgress: func(int64) {},
	}
	for _, k := range []struct {
		old, now string
		segs     []corpus.Segment
		dim      int
	}{
		{env.Parent.Collections.Classes, manifest.Collections.Classes, env.Parent.Segments.ClassVecs, manifest.Class.Dimension},
		{env.Parent.Collections.Chunks, manifest.Collections.Chunks, env.Parent.Segments.ChunkVecs, manifest.Chunk.Dimension},
	} {
		if k.old != k.now {
			continue
		}
		for _, s := range k.segs {
			if _, err := verify.Sample(ctx, in, s, k.now, k.dim); err != nil {
				return err
			}
		}
	}
	return nil
}

// alias points the aliases for other programs that read the vector store at what is published. Ours never use them,
// so a failure is told and changes nothing.
func (r *run) alias(ctx context.Context, manifest *corpus.Manifest) {
	aliaser, ok := r.Vectors.(vectors.Aliaser)
	if !ok {
		return
	}
	for _, c := range []string{manifest.Collections.Classes, manifest.Collections.Chunks} {
		parts := strings.Split(c, "_") // uw_<hash>_<kind>_<fingerprint>_<n>
		if err := aliaser.Alias(ctx, strings.Join(parts[:3], "_"), c); err != nil {
			r.Log.Warn("alias not pointed", "run_id", r.id, "collection", c, "code", string(fault.CodeOf(err)))
		}
	}
}

// collectionsReady makes sure that both collections are there and loaded.
func (r *run) collectionsReady(ctx context.Context, manifest *corpus.Manifest, written int64) error {
	for _, c := range []struct {
		name string
		dim  int
	}{{manifest.Collections.Classes, manifest.Class.Dimension}, {manifest.Collections.Chunks, manifest.Chunk.Dimension}} {
		if err := r.Vectors.Create(ctx, c.name, c.dim); err != nil {
			return err
		}
		if sealer, ok := r.Vectors.(vectors.Sealer); ok && written > 0 {
			if err := sealer.Seal(ctx, c.name); err != nil {
				return err
			}
		}
		if err := r.Vectors.Load(ctx, c.name); err != nil {
			return err
		}
	}
	return nil
}

// total sums what every attempt of every batch of the run reported.
func (r *run) total(ctx context.Context) (corpus.Progress, error) {
	all, err := r.Classes.Progress(ctx, r.id)
	if err != nil {
		return corpus.Progress{}, err
	}
	var progress corpus.Progress
	for _, b := range all {
		var p corpus.Progress
		if json.Unmarshal(b, &p) == nil && p.Stage != "" {
			progress.Add(p)
		}
	}
	return progress, nil
}

// CollectGarbage deletes scratch and what nothing names any more.
func (a *Activities) CollectGarbage(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	r, err := a.open(ctx, u.Build, u.Stage, 0, 0)
	if err != nil {
		return workflows.UnitResult{}, r.outcome(ctx, err)
	}
	err = r.work(ctx, func(ctx context.Context) error {
		if err := r.report(ctx, workflows.End{Build: u.Build, Status: corpus.StatusRunning}); err != nil {
			return err // the scratch that the report is made from goes now
		}
		if _, err := collect.Run(ctx, r.collectIn(u.Fence)); err != nil {
			return err
		}
		names, err := artifact.Names(ctx, r.Artifacts)
		if err != nil {
			return err
		}
		indexes := make([]artifact.Index, len(names))
		for i, name := range names {
			indexes[i] = artifact.Index{Store: r.Artifacts, Name: name}
		}
		for _, task := range ledger.Tasks() {
			if _, err := r.Ledger.Upkeep(ctx, task, collect.Listed(ctx, indexes, task), time.Now()); err != nil {
				return err
			}
		}
		r.beat(corpus.Progress{Done: 1})
		return nil
	})
	return workflows.UnitResult{Done: 1}, err
}

func (r *run) collectIn(fence int64) collect.In {
	return collect.In{
		Artifacts:   r.art,
		Keep:        r.spec.Keep,
		Grace:       time.Duration(r.spec.Grace),
		Fence:       fence,
		Readers:     r.Classes,
		Records:     r.Classes,
		Vectors:     r.Vectors,
		Collections: "uw_" + corpus.Sum(r.StoreID, r.art.Name).Short(8) + "_",
		OpenLive: func(ctx context.Context, sha string) (*live.File, func(), error) {
			file, err := r.liveFile(ctx, r.art, sha)
			return file, func() {}, err
		},
		Guard: func(ctx context.Context) error {
			var lease corpus.Lease
			_, err := blob.ReadJSON(ctx, r.Artifacts, r.art.LeaseKey(), &lease)
			if err == nil && lease.Fence != fence {
				err = fault.LeaseHeld.At("collect", r.art.Name).Because("another run has taken the lease")
			}
			return err
		},
		Now: now(),
	}
}

// SetPaused writes what the activities of a run poll.
func (a *Activities) SetPaused(ctx context.Context, b workflows.Build, pause bool) error {
	r, err := a.open(ctx, b, "resume", 0, 0)
	r.records = true
	c := control{Pause: pause, Over: r.control(ctx).Over}
	if err == nil && !pause {
		err = r.state(ctx, func(s *corpus.RunState) {
			c.Over = c.Over || s.Report.Reason == string(fault.BudgetSpent)
			s.Report.Status, s.Report.Reason, s.Report.Detail = corpus.StatusRunning, "", ""
		})
	}
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(c)
	}
	if err == nil {
		err = a.Classes.SetControl(ctx, r.id, raw)
	}
	return r.outcome(ctx, err)
}

// EstimateShard looks a shard's chunks up in the ledger and pays nothing.
func (a *Activities) EstimateShard(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	res, err := unit(
		a,
		ctx,
		u,
		fmt.Sprintf("estimate-%05d.json", u.N),
		func(ctx context.Context, r *run) (extract.Estimate, error) {
			var s shards
			if err := r.readJSON(ctx, "shards.json", &s); err != nil {
				return extract.Estimate{}, err
			}
			var result chunk.Result
			if err := r.readJSON(ctx, chunkName(s.Shards[u.N].Unit), &result); err != nil {
				return extract.Estimate{}, err
			}
			set, err := r.Models(r.spec)
			if err != nil {
				return extract.Estimate{}, err
			}
			estimate, err := extract.Count(
				ctx,
				extract.In{
					Spec:      r.spec,
					Artifacts: r.art,
					Scratch:   r.scratch,
					Text:      result.Text,
					Shard:     s.Shards[u.N],
					From:      s.Shards[u.N].From,
					To:        s.Shards[u.N].To,
					Chat:      set.Chat,
					Ledger:    r.Ledger,
					Attempt:   u.Attempt,
				},
			)
			r.beat(
				corpus.Progress{
					Done:   estimate.Chunks,
					Calls:  corpus.Calls{Extract: estimate.Calls},
					Hits:   corpus.Calls{Extract: estimate.Hits},
					Tokens: corpus.Tokens{Prompt: estimate.Prompt, Completion: estimate.Completion},
					Cost:   (float64(estimate.Prompt)*r.spec.Chat.Price.Prompt + float64(estimate.Completion)*r.spec.Chat.Price.Completion) / 1e6,
				},
			)
			return estimate, err
		},
	)
	return workflows.UnitResult{Done: res.Chunks}, err
}
