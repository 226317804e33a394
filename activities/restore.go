package activities

import (
	"context"
	"fmt"
	"sort"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/stage/verify"
	"github.com/unweaver/unweaver/workflows"
)

// restorePart is one segment to check and rewrite.
type restorePart struct {
	Manifest   string         `json:"manifest"`
	Segment    corpus.Segment `json:"segment"`
	Collection string         `json:"collection"` // empty: class records
	Dimension  int            `json:"dimension"`
	Search     bool           `json:"search,omitempty"` // the search segment: read back, and made again where it is damaged
}

// OpenRestore lists the segments of the kept generations, the current one first.
func (a *Activities) OpenRestore(ctx context.Context, b workflows.Build) (workflows.Restored, error) {
	r := &run{Activities: a, b: b, art: artifact.Index{Store: a.Artifacts, Name: b.Index}, stage: "restore", id: RunName(b)}
	r.scratch = r.art.RunKey(b.Generation, "restore")
	parts, err := r.restoreParts(ctx)
	if err == nil {
		err = r.writeJSON(ctx, "parts.json", parts)
	}
	if err == nil {
		err = r.state(ctx, func(s *corpus.RunState) {
			*s = corpus.RunState{Stage: "restore", Total: int64(len(parts)), StageAt: now(), Workflow: workflows.RestoreID(b.Index)}
			s.Report = corpus.Report{Index: b.Index, Generation: b.Generation, Run: r.id, Status: corpus.StatusRunning, Started: now()}
		})
	}
	return workflows.Restored{Build: b, Parts: len(parts)}, r.outcome(ctx, err)
}

func (r *run) restoreParts(ctx context.Context) ([]restorePart, error) {
	cur, _, err := r.art.Current(ctx)
	if err != nil {
		return nil, err
	}
	refs, err := r.art.Refs(ctx)
	if err != nil {
		return nil, err
	}
	if len(refs) == 0 {
		return nil, fault.New(fault.UnknownIndex, fault.Fatal, "restore", r.b.Index, "no generation of it was ever built", "build it with: unweaver index")
	}
	order := make([]string, 0, len(refs))
	for g := range refs {
		order = append(order, g)
	}
	sort.Slice(order, func(i, j int) bool {
		if (order[i] == cur.Generation) != (order[j] == cur.Generation) {
			return order[i] == cur.Generation
		}
		return refs[order[i]].Seq > refs[order[j]].Seq
	})
	var parts []restorePart
	seen := map[string]bool{}
	for _, g := range order {
		sha := refs[g].Manifest
		m, err := r.art.Manifest(ctx, sha)
		if err != nil {
			return nil, err
		}
		add := func(segs []corpus.Segment, coll string, dim int) {
			for _, s := range segs {
				if k := s.SHA256 + coll; !seen[k] {
					seen[k] = true
					parts = append(parts, restorePart{Manifest: sha, Segment: s, Collection: coll, Dimension: dim})
				}
			}
		}
		for _, s := range m.Segments.Search {
			parts = append(parts, restorePart{Manifest: sha, Segment: s, Search: true})
		}
		add(m.Segments.Classes, "", 0)
		add(m.Segments.ClassVecs, m.Collections.Classes, m.Class.Dimension)
		add(m.Segments.ChunkVecs, m.Collections.Chunks, m.Chunk.Dimension)
	}
	return parts, nil
}

// RestorePart checks one segment's rows and rewrites what is missing.
func (a *Activities) RestorePart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	r := &run{Activities: a, b: u.Build, art: artifact.Index{Store: a.Artifacts, Name: u.Index}, stage: "restore", id: RunName(u.Build), field: fmt.Sprintf("restore/%05d", u.N)}
	r.scratch = r.art.RunKey(u.Generation, "restore")
	err := r.work(ctx, func(ctx context.Context) error {
		var parts []restorePart
		if err := r.readJSON(ctx, "parts.json", &parts); err != nil {
			return err
		}
		p := parts[u.N]
		m, err := r.art.Manifest(ctx, p.Manifest)
		if err != nil {
			return err
		}
		in := verify.In{Art: r.art, Manifest: m, Classes: r.Classes, Vectors: r.Vectors, Beat: func(int64) {}}
		w := corpus.Written{}
		if p.Search {
			fresh, err := r.restoreSearch(ctx, m, p.Segment)
			if err != nil {
				return err
			}
			if fresh {
				w.Segments = 1
			}
		} else if p.Collection == "" {
			res, err := verify.Records(ctx, in, p.Segment)
			if err != nil {
				return err
			}
			w.Records = res.Rewritten
		} else {
			res, err := verify.Vectors(ctx, in, p.Segment, p.Collection, p.Dimension)
			if err != nil {
				return err
			}
			w.Rows = res.Rewritten
		}
		r.beat(corpus.Progress{Done: 1, Written: w})
		return nil
	})
	return workflows.UnitResult{Done: 1}, err
}

// restoreSearch reads a search segment back and makes it again, from the segments it is made from, where it is damaged.
func (r *run) restoreSearch(ctx context.Context, m *corpus.Manifest, seg corpus.Segment) (bool, error) {
	lf, err := r.liveFile(ctx, r.art, m.Segments.Live[0].SHA256)
	if err != nil {
		return false, err
	}
	r.Cache.Drop(seg.SHA256) // what the store holds counts, not a copy of it
	_, err = r.Cache.Get(ctx, r.Artifacts, r.art.SegmentKey(seg.SHA256), seg.SHA256)
	if err == nil || (!fault.Is(err, fault.NotFound) && !fault.Is(err, fault.SegmentDamage)) {
		return false, err
	}
	if err := r.Artifacts.Delete(ctx, r.art.SegmentKey(seg.SHA256)); err != nil {
		return false, err
	}
	spec, err := r.art.Spec(ctx, m.Spec)
	if err != nil {
		return false, err
	}
	again, fresh, err := segment.Search(ctx, segment.SearchIn{Art: r.art, Segments: m.Segments, Live: lf, Spec: spec, Beat: func(int64) {}})
	if err == nil && again.SHA256 != seg.SHA256 {
		err = fault.New(fault.SegmentDamage, fault.Fatal, "make search segment of", m.Generation, "it comes out with other content: this program's rules of words are newer", "build the index again")
	}
	return fresh, err
}

// EndRestore loads the collections, renews the mirror and records the end.
func (a *Activities) EndRestore(ctx context.Context, end workflows.End) error {
	r := &run{Activities: a, b: end.Build, art: artifact.Index{Store: a.Artifacts, Name: end.Index}, stage: "restore", id: RunName(end.Build)}
	r.scratch = r.art.RunKey(end.Generation, "restore")
	cur, _, err := r.art.Current(ctx)
	if err == nil && cur.Manifest != "" && end.Status == corpus.StatusCompleted {
		var m *corpus.Manifest
		if m, err = r.art.Manifest(ctx, cur.Manifest); err == nil {
			if err = r.Vectors.Load(ctx, m.Collections.Classes); err == nil {
				err = r.Vectors.Load(ctx, m.Collections.Chunks)
			}
		}
		if err == nil {
			err = publish.Mirror(ctx, r.art, r.Classes, cur)
		}
	}
	if err != nil {
		return r.outcome(ctx, err)
	}
	total, err := r.total(ctx)
	if err != nil {
		return r.outcome(ctx, err)
	}
	return r.outcome(ctx, r.state(ctx, func(s *corpus.RunState) {
		t := now()
		s.Close(t)
		s.Stage = ""
		s.Report.Status, s.Report.Reason, s.Report.Detail, s.Report.Ended = end.Status, end.Reason, r.detail(ctx, end), &t
		s.Report.Seconds = t.Sub(s.Report.Started).Seconds()
		s.Report.Fill(total)
	}))
}
