package runlog

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// listWidth is how many reports are read at once.
const listWidth = 16

// Kinds of runs.
const (
	KindBuild   = "build"
	KindRestore = "restore"
	KindAudit   = "audit"
)

// Damaged is the status of a run whose report cannot be read.
const Damaged = "damaged"

// Summary is a run as lists show it.
type Summary struct {
	Run        string     `json:"run" doc:"index/generation"`
	Index      string     `json:"index"`
	Generation string     `json:"generation"`
	Kind       string     `json:"kind" enum:"build,restore,audit"`
	Status     string     `json:"status" doc:"as in its report; damaged: that cannot be read"`
	Reason     string     `json:"reason,omitempty"`
	Stage      string     `json:"stage,omitempty"`
	Overall    float64    `json:"overall" doc:"done share, 0 to 1"`
	Unchanged  bool       `json:"unchanged,omitempty"`
	Published  bool       `json:"published"`
	Started    time.Time  `json:"started"`
	Ended      *time.Time `json:"ended,omitempty"`
	Seconds    float64    `json:"seconds" doc:"that it worked: pauses and waits are left out"`
	Documents  int64      `json:"documents"`
	Chunks     int64      `json:"chunks"`
	Classes    int64      `json:"classes"`
	Calls      int64      `json:"calls"`
	Tokens     int64      `json:"tokens"`
	Cost       float64    `json:"cost" doc:"in the money of the prices that it was built with"`
	Currency   string     `json:"currency,omitempty" doc:"of the cost; left out: that of the configured prices"`
	Problems   int64      `json:"problems"`
	Version    string     `json:"version,omitempty" doc:"of the program that ended it"`
	Gone       bool       `json:"gone,omitempty" doc:"its report is gone: these figures are all that is kept of it"`
}

// Summarize returns a run as lists show it.
func Summarize(work Run) Summary {
	kind := KindBuild
	if strings.HasPrefix(work.Generation, KindRestore+"-") {
		kind = KindRestore
	}
	if strings.HasPrefix(work.Generation, KindAudit+"-") {
		kind = KindAudit
	}
	out := ofNight(work.Index, work.ToNight())
	out.Kind, out.Stage, out.Overall, out.Ended = kind, work.Stage, work.Overall, work.Ended
	out.Classes, out.Version, out.Gone = work.Classes, work.Version, false
	return out
}

// ofNight returns the summary of a build whose report is gone, as lists show it.
func ofNight(index string, night core.Night) Summary {
	ended := night.Started.Add(time.Duration(night.Seconds * float64(time.Second)))
	return Summary{
		Run: night.Run, Index: index, Generation: night.Generation, Kind: KindBuild, Status: night.Status,
		Reason: night.Reason, Overall: 1, Unchanged: night.Unchanged, Published: night.Published, Started: night.Started,
		Ended: &ended, Seconds: night.Seconds, Documents: night.Documents, Chunks: night.Chunks, Calls: night.Calls,
		Tokens: night.Tokens, Cost: night.Cost, Currency: night.Currency, Problems: night.Problems, Gone: true,
	}
}

// List gives the runs of an index, the one that began last first: those that go on, the newest restore and audit, and
// those that ended, as nights.json and the reports have them. limit bounds how many reports are read, the newest of
// them; 0 reads all.
func (s Source) List(ctx context.Context, index string, limit int) ([]Summary, error) {
	return s.list(ctx, index, limit, true)
}

// list lists runs; without hinted those of hints only as long as they go on.
func (s Source) list(ctx context.Context, index string, limit int, hinted bool) ([]Summary, error) {
	if !core.ValidIndex(index) {
		return nil, fault.InvalidParam.At("list runs of", fault.QuoteName(index)).Because("it is no name of an index")
	}
	reports, err := s.listReports(ctx, index)
	if err != nil {
		return nil, err
	}
	nights, err := s.readNights(ctx, index)
	if err != nil {
		return nil, err
	}
	gone := map[string]Summary{}
	for _, night := range nights.Nights {
		if !core.IsHinted(night.Generation) {
			gone[night.Run] = ofNight(index, night)
		}
	}
	if !hinted {
		reports = slices.DeleteFunc(reports, func(one reported) bool { return core.IsHinted(one.generationName()) })
	}
	for _, report := range reports {
		delete(gone, report.run)
	}
	if limit > 0 && len(reports) > limit {
		reports = reports[:limit]
	}
	live, err := s.readKnownRuns(ctx, index)
	if err != nil {
		return nil, err
	}
	for name := range live {
		delete(gone, name)
		reports = slices.DeleteFunc(reports, func(report reported) bool { return report.run == name })
	}
	found := make([]Summary, len(reports))
	err = parallel.Each(ctx, len(reports), listWidth, func(ctx context.Context, i int) error {
		report, err := artifact.New(s.Artifacts, index).ReadReport(ctx, reports[i].generationName())
		switch {
		case fault.Is(err, fault.NotFound): // it went since it was listed
			return nil
		case artifact.IsDamage(err):
			work := Run{Report: core.Report{Status: Damaged, Started: reports[i].modified}}
			work.SetName(reports[i].run)
			found[i] = Summarize(work)
			return nil
		}
		found[i] = Summarize(s.EndedRun(ctx, report))
		return err
	})
	if err != nil {
		return nil, err
	}
	found = slices.AppendSeq(slices.AppendSeq(found, maps.Values(live)), maps.Values(gone))
	found = slices.DeleteFunc(found, func(work Summary) bool { return work.Run == "" })
	slices.SortFunc(found, func(one, two Summary) int {
		return cmp.Or(two.Started.Compare(one.Started), cmp.Compare(two.Run, one.Run))
	})
	if limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	return found, nil
}

// reported is a run that left a report.
type reported struct {
	run      string
	modified time.Time
}

func (r reported) generationName() string {
	_, generation, _ := strings.Cut(r.run, "/")
	return generation
}

// listReports lists the runs with a report, the last written first.
func (s Source) listReports(ctx context.Context, index string) ([]reported, error) {
	var out []reported
	prefix := artifact.Index{Name: index}.GenerationKey("", "") + "/"
	for info, err := range s.Artifacts.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		generation, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, prefix), "/report.json")
		if ok && core.ValidSlug(generation) {
			out = append(out, reported{index + "/" + generation, info.Modified})
		}
	}
	slices.SortFunc(out, func(one, two reported) int {
		return cmp.Or(two.modified.Compare(one.modified), cmp.Compare(two.run, one.run))
	})
	return out, nil
}

// readKnownRuns reads the runs that the coordination store and the lease name: the newest build, restore and audit, and
// who holds the lease. Runs that ended have a report beside their state; that counts.
func (s Source) readKnownRuns(ctx context.Context, index string) (map[string]Summary, error) {
	names := make([]string, 4)
	err := parallel.Each(ctx, len(names), len(names), func(ctx context.Context, i int) error {
		if i == 3 {
			lease, _, err := run.ReadLease(ctx, artifact.Index{Store: s.Artifacts, Name: index})
			if name, ok := strings.CutPrefix(lease.Workflow, "build/"); ok && err == nil {
				names[i] = name
			}
			return nil // a lease that cannot be read hides at most one run, whose state shows it
		}
		raw, err := s.Runs.ReadState(ctx, []string{LatestBuild(index), LatestRestore(index), LatestAudit(index)}[i])
		names[i] = string(raw)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := map[string]Summary{}
	for _, name := range names {
		of, generation, _ := strings.Cut(name, "/")
		if of != index || !core.ValidSlug(generation) {
			continue
		}
		state, err := s.ReadState(ctx, name)
		switch {
		case err != nil && !fault.Is(err, fault.SegmentDamage):
			return nil, err
		case state.Report.Run == "" || err != nil:
			continue
		}
		if !core.IsTerminal(state.Report.Status) {
			out[name] = Summarize(s.ReadLive(ctx, name, state))
		} else if work := Summarize(NewEnded(state.Report)); work.Kind != KindBuild {
			out[name] = work
		}
	}
	return out, nil
}
