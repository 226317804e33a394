package activities

import (
	"context"
	"fmt"
	"sort"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/stage/verify"
	"github.com/unweaver/unweaver/internal/store/artifact"
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
func (a *Activities) OpenRestore(ctx context.Context, build workflows.Build) (workflows.Restored, error) {
	r := &run{
		Activities: a,
		b:          build,
		art:        artifact.Index{Store: a.Artifacts, Name: build.Index},
		stage:      "restore",
		id:         RunName(build),
	}
	r.scratch = r.art.RunKey(build.Generation, "restore")
	parts, err := r.restoreParts(ctx)
	if err == nil {
		err = r.writeJSON(ctx, "parts.json", parts)
	}
	if err == nil {
		err = r.state(ctx, func(s *corpus.RunState) {
			*s = corpus.RunState{
				Stage:    "restore",
				Total:    int64(len(parts)),
				StageAt:  now(),
				Workflow: workflows.RestoreID(build.Index),
			}
			s.Report = corpus.Report{
				Index:      build.Index,
				Generation: build.Generation,
				Run:        r.id,
				Status:     corpus.StatusRunning,
				Started:    now(),
			}
		})
	}
	return workflows.Restored{Build: build, Parts: len(parts)}, r.outcome(ctx, err)
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
		return nil, fault.UnknownIndex.At("restore", r.b.Index).
			Because("no generation of it was ever built").
			Advise("build it with: unweaver index")
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
		manifest, err := r.art.Manifest(ctx, sha)
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
		for _, s := range manifest.Segments.Search {
			parts = append(parts, restorePart{Manifest: sha, Segment: s, Search: true})
		}
		add(manifest.Segments.Classes, "", 0)
		add(manifest.Segments.ClassVecs, manifest.Collections.Classes, manifest.Class.Dimension)
		add(manifest.Segments.ChunkVecs, manifest.Collections.Chunks, manifest.Chunk.Dimension)
	}
	return parts, nil
}

// RestorePart checks one segment's rows and rewrites what is missing.
func (a *Activities) RestorePart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	r := &run{
		Activities: a,
		b:          u.Build,
		art:        artifact.Index{Store: a.Artifacts, Name: u.Index},
		stage:      "restore",
		id:         RunName(u.Build),
		field:      fmt.Sprintf("restore/%05d", u.N),
	}
	r.scratch = r.art.RunKey(u.Generation, "restore")
	err := r.work(ctx, func(ctx context.Context) error {
		var parts []restorePart
		if err := r.readJSON(ctx, "parts.json", &parts); err != nil {
			return err
		}
		part := parts[u.N]
		manifest, err := r.art.Manifest(ctx, part.Manifest)
		if err != nil {
			return err
		}
		in := verify.In{
			Artifacts:  r.art,
			Manifest:   manifest,
			Classes:    r.Classes,
			Vectors:    r.Vectors,
			OnProgress: func(int64) {},
		}
		written := corpus.Written{}
		if part.Search {
			fresh, err := r.restoreSearch(ctx, manifest, part.Segment)
			if err != nil {
				return err
			}
			if fresh {
				written.Segments = 1
			}
		} else if part.Collection == "" {
			res, err := verify.Records(ctx, in, part.Segment)
			if err != nil {
				return err
			}
			written.Records = res.Rewritten
		} else {
			res, err := verify.Vectors(ctx, in, part.Segment, part.Collection, part.Dimension)
			if err != nil {
				return err
			}
			written.Rows = res.Rewritten
		}
		r.beat(corpus.Progress{Done: 1, Written: written})
		return nil
	})
	return workflows.UnitResult{Done: 1}, err
}

// restoreSearch reads a search segment back and makes it again, from the segments it is made from, where it is damaged.
func (r *run) restoreSearch(ctx context.Context, manifest *corpus.Manifest, seg corpus.Segment) (bool, error) {
	lf, err := r.liveFile(ctx, r.art, manifest.Segments.Live[0].SHA256)
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
	spec, err := r.art.Spec(ctx, manifest.Spec)
	if err != nil {
		return false, err
	}
	again, fresh, err := segment.Search(
		ctx,
		segment.SearchIn{
			Artifacts:  r.art,
			Segments:   manifest.Segments,
			Live:       lf,
			Spec:       spec,
			OnProgress: func(int64) {},
		},
	)
	if err == nil && again.SHA256 != seg.SHA256 {
		err = fault.SegmentDamage.At("make search segment of", manifest.Generation).
			Because("it comes out with other content: this program's rules of words are newer").
			Advise("build the index again")
	}
	return fresh, err
}

// EndRestore loads the collections, renews the mirror and records the end.
func (a *Activities) EndRestore(ctx context.Context, end workflows.End) error {
	r := &run{
		Activities: a,
		b:          end.Build,
		art:        artifact.Index{Store: a.Artifacts, Name: end.Index},
		stage:      "restore",
		id:         RunName(end.Build),
	}
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
	return r.outcome(ctx, r.state(ctx, func(state *corpus.RunState) {
		at := now()
		report := &state.Report
		report.Status, report.Reason, report.Detail = end.Status, end.Reason, r.detail(ctx, end)
		if end.Status != corpus.StatusPaused {
			state.Close(at)
			state.Stage = ""
			report.Ended = &at
		}
		state.Report.Seconds = at.Sub(state.Report.Started).Seconds()
		state.Report.Fill(total)
	}))
}
