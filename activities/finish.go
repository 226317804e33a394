package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/stage/verify"
	"github.com/unweaver/unweaver/internal/vectors"
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
		m, err := r.draft(ctx)
		if err != nil {
			return m, err
		}
		seg, fresh, err := segment.Live(ctx, segment.In{Art: r.art, Scratch: r.scratch, Segments: m.Segments, Shards: len(m.Segments.Extract), Beat: func(int64) {}})
		if err != nil {
			return m, err
		}
		m.Segments.Live = []corpus.Segment{seg}
		p := corpus.Progress{Done: 1}
		if fresh {
			p.Written.Segments = 1
		}
		lf, err := r.liveFile(ctx, r.art, seg.SHA256)
		if err != nil {
			return m, err
		}
		if seg, fresh, err = segment.Search(ctx, segment.SearchIn{Art: r.art, Segments: m.Segments, Live: lf, Spec: r.spec, Beat: func(int64) {}}); err != nil {
			return m, err
		}
		m.Segments.Search = []corpus.Segment{seg}
		if fresh {
			p.Written.Segments++
		}
		r.beat(p)
		return m, nil
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
	m := corpus.Manifest{Format: corpus.ManifestFormat, Index: r.b.Index, Generation: r.b.Generation, Parent: s.Parent, Store: r.StoreID,
		Config: r.spec.ConfigDigest(), Created: s.Started, Class: s.Class, Chunk: s.Chunk, Partitions: p.Partitions, Collections: s.Collections,
		Counts: sh.Counts, Hashes: sh.Hashes, Models: corpus.ModelSummary{Chat: models.Chat.Info().Label(), Embedding: models.Chunks.Info().Label()}}
	if err := m.Spec.UnmarshalText([]byte(r.b.Spec)); err != nil {
		return m, err
	}
	if s.IDF != nil {
		m.Segments.IDF = []corpus.Segment{*s.IDF}
	}
	m.Counts.Fallbacks, m.Counts.DeadLetters = p.Fallbacks, p.Dead
	for n := range s.Plan.Units {
		var c chunk.Result
		if err := r.readJSON(ctx, chunkName(n), &c); err != nil {
			return m, err
		}
		m.Segments.Text = append(m.Segments.Text, c.Text)
		m.Segments.Documents = append(m.Segments.Documents, c.Documents)
	}
	for n := range sh.Shards {
		var e extract.SealResult
		if err := r.readJSON(ctx, sealedName(n), &e); err != nil {
			return m, err
		}
		m.Segments.Extract = append(m.Segments.Extract, e.Extract)
	}
	for n := range p.Partitions {
		var d reduce.Result
		if err := r.readJSON(ctx, reducedName(n), &d); err != nil {
			return m, err
		}
		m.Segments.Mentions = append(m.Segments.Mentions, d.Mentions)
		m.Counts.Mentions += d.Counts.Mentions
		m.Counts.Edges += d.Counts.Edges
		m.Hashes.Content.Merge(d.Content)
	}
	return m, r.loaded(ctx, &m, p, len(sh.Shards))
}

// loaded adds what load wrote, and the parent's vectors that are still used.
func (r *run) loaded(ctx context.Context, m *corpus.Manifest, p partitioning, shards int) error {
	env, _, err := r.env(ctx)
	if err != nil {
		return err
	}
	if env.Parent != nil && env.Parent.Collections.Classes == m.Collections.Classes {
		m.Segments.ClassVecs = append(m.Segments.ClassVecs, env.Parent.Segments.ClassVecs...)
	}
	if env.Parent != nil && env.Parent.Collections.Chunks == m.Collections.Chunks {
		m.Segments.ChunkVecs = append(m.Segments.ChunkVecs, env.Parent.Segments.ChunkVecs...)
	}
	for n := range p.Partitions + shards {
		var l load.Result
		if err := r.readJSON(ctx, loadedName(n), &l); err != nil {
			return err
		}
		m.Hashes.Merge(l.Hashes)
		if n < p.Partitions {
			m.Segments.Classes = append(m.Segments.Classes, l.Rows)
			m.Counts.Classes += l.Counts.Classes
			if l.Vectors.SHA256 != "" {
				m.Segments.ClassVecs = append(m.Segments.ClassVecs, l.Vectors)
			}
			continue
		}
		m.Counts.Windows += l.Counts.Windows
		if l.Vectors.SHA256 != "" {
			m.Segments.ChunkVecs = append(m.Segments.ChunkVecs, l.Vectors)
		}
	}
	return nil
}

// VerifyPart checks one partition's records and vectors, or one shard's vectors.
func (a *Activities) VerifyPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	_, err := unit(a, ctx, u, fmt.Sprintf("verified-%05d.json", u.N), func(ctx context.Context, r *run) (verify.Result, error) {
		var m corpus.Manifest
		if err := r.readJSON(ctx, "manifest.json", &m); err != nil {
			return verify.Result{}, err
		}
		var l load.Result
		if err := r.readJSON(ctx, loadedName(u.N), &l); err != nil {
			return verify.Result{}, err
		}
		in := verify.In{Art: r.art, Manifest: &m, Classes: r.Classes, Vectors: r.Vectors, Beat: func(int64) {}}
		var res verify.Result
		coll, dim := m.Collections.Chunks, m.Chunk.Dimension
		if u.N < m.Partitions {
			coll, dim = m.Collections.Classes, m.Class.Dimension
			var err error
			if res, err = verify.Records(ctx, in, l.Rows); err != nil {
				return res, err
			}
		}
		if l.Vectors.SHA256 != "" {
			v, err := verify.Vectors(ctx, in, l.Vectors, coll, dim)
			if err != nil {
				return res, err
			}
			res.Checked += v.Checked
			res.Rewritten += v.Rewritten
		}
		r.beat(corpus.Progress{Done: 1})
		return res, nil
	})
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
	var m corpus.Manifest
	s, err := r.sealed(ctx)
	if err != nil {
		return workflows.Outcome{}, err
	}
	for name, v := range map[string]any{"shards.json": &sh, "manifest.json": &m} {
		if err := r.readJSON(ctx, name, v); err != nil {
			return workflows.Outcome{}, err
		}
	}
	total, err := r.total(ctx)
	if err != nil {
		return workflows.Outcome{}, err
	}
	m.Tokens, m.Cost = total.Tokens, total.Cost
	reason, detail := publish.Gate(r.spec, m.Counts, s.Plan.Diff, sh.Failed, s.ParentDocs)
	out := workflows.Outcome{Status: corpus.StatusCompleted, Reason: reason}
	state := "published"
	switch {
	case reason != "":
		out.Status, state = corpus.StatusHeld, "held"
	case m.Counts.DeadLetters > 0 || sh.Failed > 0 || s.Plan.Diff.Unusable > 0:
		out.Status = corpus.StatusErrors
	}
	var ref corpus.GenerationRef
	if ref, err = r.art.GenerationRef(ctx, m.Generation); err == nil { // a repeated attempt keeps its number
		m.Seq = ref.Seq
	} else if m.Seq, err = publish.Seq(ctx, r.art); err != nil {
		return out, err
	}
	if err := r.reused(ctx, &m); err != nil {
		return out, err
	}
	if err := r.collectionsReady(ctx, &m, total.Written.Rows); err != nil {
		return out, err
	}
	sha, err := publish.Store(ctx, r.art, &m, state)
	if err != nil {
		return out, err
	}
	if state == "held" {
		return out, r.writeJSON(ctx, "held.json", failure{reason, detail})
	}
	if _, err = publish.Flip(ctx, r.art, r.Classes, m.Generation, sha, m.Seq, s.Epoch); err != nil {
		return out, err
	}
	r.alias(ctx, &m)
	return out, nil
}

// reused samples the vectors that the parent wrote; what this run wrote is verified row by row.
func (r *run) reused(ctx context.Context, m *corpus.Manifest) error {
	env, _, err := r.env(ctx)
	if err != nil || env.Parent == nil {
		return err
	}
	in := verify.In{Art: r.art, Manifest: m, Classes: r.Classes, Vectors: r.Vectors, Beat: func(int64) {}}
	for _, k := range []struct {
		old, now string
		segs     []corpus.Segment
		dim      int
	}{{env.Parent.Collections.Classes, m.Collections.Classes, env.Parent.Segments.ClassVecs, m.Class.Dimension},
		{env.Parent.Collections.Chunks, m.Collections.Chunks, env.Parent.Segments.ChunkVecs, m.Chunk.Dimension}} {
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

// alias points the aliases for other programs that read the vector store at what is published. Ours never use them, so a
// failure is told and changes nothing.
func (r *run) alias(ctx context.Context, m *corpus.Manifest) {
	a, ok := r.Vectors.(vectors.Aliaser)
	if !ok {
		return
	}
	for _, c := range []string{m.Collections.Classes, m.Collections.Chunks} {
		parts := strings.Split(c, "_") // uw_<hash>_<kind>_<fingerprint>_<n>
		if err := a.Alias(ctx, strings.Join(parts[:3], "_"), c); err != nil {
			r.Log.Warn("alias not pointed", "run_id", r.id, "collection", c, "code", string(fault.CodeOf(err)))
		}
	}
}

// collectionsReady makes sure that both collections are there and loaded.
func (r *run) collectionsReady(ctx context.Context, m *corpus.Manifest, written int64) error {
	for _, c := range []struct {
		name string
		dim  int
	}{{m.Collections.Classes, m.Class.Dimension}, {m.Collections.Chunks, m.Chunk.Dimension}} {
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
	var t corpus.Progress
	for _, b := range all {
		var p corpus.Progress
		if json.Unmarshal(b, &p) == nil && p.Stage != "" {
			t.Add(p)
		}
	}
	return t, nil
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
		cur, _, err := r.art.Current(ctx)
		if err != nil {
			return err
		}
		refs, err := r.art.Refs(ctx)
		if err != nil {
			return err
		}
		leased, err := r.Classes.Leased(ctx, u.Index)
		if err != nil {
			return err
		}
		_, err = collect.Run(ctx, collect.In{Art: r.art, Keep: r.spec.Keep, Grace: time.Duration(r.spec.Grace), Scratch: r.art.Name + "/runs",
			Refs: refs, Current: cur, Leased: leased, Vectors: r.Vectors, Now: time.Now().UTC(),
			CollPrefix: "uw_" + corpus.Sum(r.StoreID, u.Index).Short(8) + "_", Beat: func(int64) {}})
		if err != nil {
			return err
		}
		for _, task := range []string{ledger.Extract} {
			if _, err := r.Ledger.Sweep(ctx, task, time.Now()); err != nil {
				return err
			}
		}
		r.beat(corpus.Progress{Done: 1})
		return nil
	})
	return workflows.UnitResult{Done: 1}, err
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
	var v []byte
	if err == nil {
		v, err = json.Marshal(c)
	}
	if err == nil {
		err = a.Classes.SetControl(ctx, r.id, v)
	}
	return r.outcome(ctx, err)
}

// EstimateShard looks a shard's chunks up in the ledger and pays nothing.
func (a *Activities) EstimateShard(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	res, err := unit(a, ctx, u, fmt.Sprintf("estimate-%05d.json", u.N), func(ctx context.Context, r *run) (extract.Estimate, error) {
		var s shards
		if err := r.readJSON(ctx, "shards.json", &s); err != nil {
			return extract.Estimate{}, err
		}
		var c chunk.Result
		if err := r.readJSON(ctx, chunkName(s.Shards[u.N].Unit), &c); err != nil {
			return extract.Estimate{}, err
		}
		m, err := r.Models(r.spec)
		if err != nil {
			return extract.Estimate{}, err
		}
		e, err := extract.Count(ctx, extract.In{Spec: r.spec, Art: r.art, Scratch: r.scratch, Text: c.Text, Shard: s.Shards[u.N], Lo: s.Shards[u.N].Lo, Hi: s.Shards[u.N].Hi,
			Chat: m.Chat, Ledger: r.Ledger, Attempt: u.Attempt})
		r.beat(corpus.Progress{Done: e.Chunks, Calls: corpus.Calls{Extract: e.Calls}, Hits: corpus.Calls{Extract: e.Hits}, Tokens: corpus.Tokens{Prompt: e.Prompt, Completion: e.Completion},
			Cost: (float64(e.Prompt)*r.spec.Chat.Price.Prompt + float64(e.Completion)*r.spec.Chat.Price.Completion) / 1e6})
		return e, err
	})
	return workflows.UnitResult{Done: res.Chunks}, err
}
