package api

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/build"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// runSource reads how runs stand from what the stores hold: reports of those that ended, the state and the accounts of
// those that go on. It asks no engine.
type runSource struct {
	artifacts blob.Store
	runs      coordination.Runs // nil: those that go on are not told
}

// statusDamaged is that of a run whose report cannot be read.
const statusDamaged = "damaged"

// list gives the runs of an index whose report is kept, and those that go on, the one that began last first.
func (r runSource) list(ctx context.Context, name string) ([]RunSummary, error) {
	index := artifact.Index{Store: r.artifacts, Name: name}
	var generations []string
	prefix := index.GenerationKey("", "") + "/"
	for info, err := range r.artifacts.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		generation, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, prefix), "/report.json")
		if ok && corpus.ValidSlug(generation) {
			generations = append(generations, generation)
		}
	}
	going, err := r.going(ctx, index)
	if err != nil {
		return nil, err
	}
	generations = slices.DeleteFunc(generations, func(generation string) bool {
		return slices.ContainsFunc(going, func(run RunDetail) bool { return run.Generation == generation })
	})
	found := make([]RunDetail, len(generations))
	if err := par.Each(ctx, len(found), readWidth, func(ctx context.Context, i int) error {
		_, err := blob.ReadJSON(ctx, r.artifacts, index.GenerationKey(generations[i], "report.json"), &found[i].Report)
		found[i].Overall = 1
		found[i].Index, found[i].Generation, found[i].Run = name, generations[i], name+"/"+generations[i]
		if artifact.IsDamage(err) {
			found[i].Status, err = statusDamaged, nil
		}
		return err
	}); err != nil {
		return nil, err
	}
	out := make([]RunSummary, 0, len(found)+len(going))
	for _, run := range append(found, going...) {
		out = append(out, summarized(run))
	}
	slices.SortFunc(out, func(a, b RunSummary) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.Generation, a.Generation))
	})
	return out, nil
}

// going gives the runs of an index that go on: the newest build and restore that anybody began, and who holds the
// lease.
func (r runSource) going(ctx context.Context, index artifact.Index) ([]RunDetail, error) {
	if r.runs == nil {
		return nil, nil
	}
	names := make([]string, 3)
	if err := together(ctx,
		func(ctx context.Context) error {
			raw, err := r.runs.State(ctx, "latest:"+index.Name)
			names[0] = string(raw)
			return err
		},
		func(ctx context.Context) error {
			raw, err := r.runs.State(ctx, "restore:"+index.Name)
			names[1] = string(raw)
			return err
		},
		func(ctx context.Context) error {
			if lease, _, err := build.ReadLease(ctx, index); err == nil { // one that cannot be read hides one run at most
				names[2] = strings.TrimPrefix(lease.Workflow, "build/")
			}
			return nil
		},
	); err != nil {
		return nil, err
	}
	slices.Sort(names)
	var out []RunDetail
	for _, name := range slices.Compact(names) {
		of, generation, _ := strings.Cut(name, "/")
		if of != index.Name || !corpus.ValidSlug(generation) {
			continue
		}
		run, found, err := r.state(ctx, name)
		if err != nil {
			return nil, err
		}
		if found && !corpus.Terminal(run.Status) {
			out = append(out, run)
		}
	}
	return out, nil
}

// state of a run as its processes wrote it; false where there is none that can be read.
func (r runSource) state(ctx context.Context, name string) (RunDetail, bool, error) {
	var state corpus.RunState
	raw, err := r.runs.State(ctx, name)
	if err != nil || len(raw) == 0 || json.Unmarshal(raw, &state) != nil || state.Report.Run == "" {
		return RunDetail{}, false, err
	}
	out := RunDetail{Report: state.Report, Stage: state.Stage, Waiting: state.Waiting}
	if corpus.Terminal(out.Status) {
		out.Overall = 1
		return out, true, nil
	}
	total, err := build.Totals(ctx, r.runs, name)
	if err != nil {
		return out, true, err
	}
	total.Fill(&out.Report)
	now := time.Now().UTC()
	out.Seconds = now.Sub(out.Started).Seconds()
	if state.Stage == "" {
		return out, true, nil
	}
	done := total.Done[state.Stage]
	out.Stages = append(slices.Clone(out.Stages), corpus.StageProgress{
		Name: state.Stage, Done: min(done, state.Total), Total: state.Total, Seconds: now.Sub(state.StageAt).Seconds(),
	})
	for _, stage := range corpus.Stages {
		if stage.Name == state.Stage {
			if state.Total > 0 {
				out.Overall += stage.Weight * min(1, float64(done)/float64(state.Total))
			}
			break
		}
		out.Overall += stage.Weight
	}
	out.Overall /= 100
	return out, true, nil
}

// read tells how one run stands; fault.RunNotFound where nothing is known of it.
func (r runSource) read(ctx context.Context, name, generation string) (RunDetail, error) {
	unknown := fault.RunNotFound.At("find run", name+"/"+generation).
		Because("there is none, or its report is gone").
		Advise("list them at /v1/indexes/" + name + "/runs")
	if !corpus.ValidSlug(generation) {
		return RunDetail{}, unknown
	}
	if r.runs != nil {
		run, found, err := r.state(ctx, name+"/"+generation)
		if err != nil || found && !corpus.Terminal(run.Status) {
			return run, err
		}
	}
	out := RunDetail{Overall: 1}
	key := artifact.Index{Name: name}.GenerationKey(generation, "report.json")
	_, err := blob.ReadJSON(ctx, r.artifacts, key, &out.Report)
	if fault.Is(err, fault.NotFound) {
		return RunDetail{}, unknown
	}
	return out, err
}

// summarized is a run as lists show it.
func summarized(run RunDetail) RunSummary {
	kind := "build"
	if strings.HasPrefix(run.Generation, "restore-") {
		kind = "restore"
	}
	calls := run.Calls
	return RunSummary{
		Run: run.Run, Index: run.Index, Generation: run.Generation, Kind: kind, Status: run.Status, Reason: run.Reason,
		Stage: run.Stage, Overall: run.Overall, Unchanged: run.Unchanged, Published: run.Published, Started: run.Started,
		Ended: run.Ended, Seconds: run.Seconds, Documents: run.Documents, Chunks: run.Chunks, Classes: run.Classes,
		Calls:  calls.Extract + calls.Shorten + calls.Embed,
		Tokens: run.Tokens.Prompt + run.Tokens.Completion + run.Tokens.Embedding, Cost: run.Cost,
		Problems: max(run.ProblemsTotal, int64(len(run.Problems))),
	}
}
