package hints

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Engine starts builds and knows how they stand.
type Engine interface {
	// StartBuild starts the build of a generation, once: a second start under the name does nothing, also after its end.
	StartBuild(ctx context.Context, index, generation, spec string) error
	// DescribeRun says what the engine knows about a run.
	DescribeRun(ctx context.Context, holder run.Holder) (run.Standing, error)
}

const (
	mostDeliveries = 20_000           // in one build; what is left follows
	mostObjects    = 10_000           // that a build looks up; of more it lists the corpus
	readAtOnce     = 16               // deliveries
	claimFor       = time.Minute      // by one process, which renews it at each look
	longestWait    = 3                // debounces: so long at most while hints go on arriving
	clockSkew      = 5 * time.Minute  // that the clocks of a worker and the store may differ by
	mostFailures   = 5                // one after another; then hints wait for a night
	firstRetry     = 15 * time.Second // doubled with each failure
)

// Collector follows the hints of one index. One process at a time does.
type Collector struct {
	Index        artifact.Index
	Coordination coordination.Store
	Engine       Engine
	Owner        string        // this process
	Debounce     time.Duration // since the last hint
	Log          *slog.Logger
	Observe      func(seconds float64) // receives how long hints waited until what they changed was served; may be nil
	Now          func() time.Time      // nil: time.Now
}

func (c *Collector) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now().UTC()
}

// Advance looks once: it notes the end of the build that it began before, and begins another where hints wait for one.
// It may be called at any time, by several processes.
func (c *Collector) Advance(ctx context.Context) error {
	mine, err := c.Coordination.Claim(ctx, "hints:"+c.Index.Name, c.Owner, claimFor)
	if err != nil || !mine {
		return err
	}
	now, version, err := readState(ctx, c.Index)
	if err != nil {
		return err
	}
	if now.Current != nil {
		over, left, err := c.closeBuild(ctx, &now)
		if err != nil || !over {
			return err
		}
		if version, err = writeState(ctx, c.Index, now, version); err != nil {
			return c.ignoreRace(err)
		}
		if err := c.Index.Store.DeleteAll(ctx, left); err != nil {
			return err
		}
	} else if version == "" { // status shows from now on what waits
		if version, err = writeState(ctx, c.Index, now, version); err != nil {
			return c.ignoreRace(err)
		}
	}
	listed, err := run.LastListing(ctx, c.Coordination, c.Index.Name)
	if err != nil {
		return err
	}
	waits, err := listInbox(ctx, c.Index, listed)
	if err != nil || len(waits) == 0 || c.now().Before(now.Retry) ||
		now.Waiting != nil && !listed.After(now.Waiting.Since) {
		return err
	}
	first, last := waits[0].Modified, waits[0].Modified
	for _, info := range waits {
		if info.Modified.Before(first) {
			first = info.Modified
		}
		if info.Modified.After(last) {
			last = info.Modified
		}
	}
	if c.now().Sub(last) < c.Debounce && c.now().Sub(first) < longestWait*c.Debounce {
		return nil
	}
	builder, err := run.FindBuilder(ctx, c.Index, c.Engine.DescribeRun)
	if err != nil || builder != "" { // a night sees what hints name
		return err
	}
	spec, err := c.findSpec(ctx)
	if err != nil || spec == "" {
		return err
	}
	if now.Waiting != nil {
		now.Waiting, now.Failures = nil, 0
	}
	stamp := strings.Replace(c.now().UTC().Format("20060102t150405.000"), ".", "-", 1)
	now.Current = &current{Generation: core.HintsGeneration + stamp, Spec: spec, First: first}
	// A process that dies after this, or another one, starts the same build.
	if _, err := writeState(ctx, c.Index, now, version); err != nil {
		return c.ignoreRace(err)
	}
	return c.Engine.StartBuild(ctx, c.Index.Name, now.Current.Generation, spec)
}

// ignoreRace drops the error of a state that another process wrote meanwhile: the next look sees it.
func (c *Collector) ignoreRace(err error) error {
	if fault.Is(err, fault.Precondition) {
		return nil
	}
	return err
}

// findSpec returns the configuration that a night would build; without a schedule, the one that is served was built
// with. Empty: there is no generation yet, and the first build lists everything, or nights are paused.
func (c *Collector) findSpec(ctx context.Context) (string, error) {
	pointer, _, err := c.Index.ReadPointer(ctx)
	if err != nil || pointer.Manifest == "" {
		return "", err
	}
	kept, err := run.ReadSchedule(ctx, c.Index)
	if !fault.Is(err, fault.NotFound) {
		if err == nil && kept.Paused {
			return "", nil
		}
		digest, err := run.OpenSchedule(ctx, c.Index)
		return digest.String(), err
	}
	manifest, err := c.Index.ManifestOf(ctx, pointer)
	if err != nil {
		return "", err
	}
	return manifest.Spec.String(), nil
}

// closeBuild notes how the build that follows hints ended, where it is over, or starts it where that was not done.
// left are files to delete once that is written.
func (c *Collector) closeBuild(ctx context.Context, now *state) (over bool, left []string, err error) {
	build := *now.Current
	name := c.Index.Name + "/" + build.Generation
	standing, err := c.Engine.DescribeRun(ctx, run.Holder{Workflow: "build/" + name})
	if err != nil || standing == run.StandingOpen {
		return false, nil, err
	}
	var report core.Report
	_, err = blob.ReadJSON(ctx, c.Index.Store, c.Index.GenerationKey(build.Generation, "report.json"), &report)
	switch {
	case fault.Is(err, fault.NotFound) && standing == run.StandingUnknown: // the process died before it was started
		return false, nil, c.Engine.StartBuild(ctx, c.Index.Name, build.Generation, build.Spec)
	case err != nil && !fault.Is(err, fault.NotFound) && !artifact.IsDamage(err):
		return false, nil, err
	}
	diff := report.Diff
	ended := cmp.Or(report.Ended, new(c.now()))
	now.Last = &core.HintRun{
		Run: name, Status: cmp.Or(report.Status, core.StatusFailed), Reason: report.Reason, Ended: *ended,
		Changed: diff.Added + diff.Changed + diff.Removed + diff.Moved, Seconds: max(0, ended.Sub(build.First).Seconds()),
	}
	now.Current = nil
	c.judgeEnd(now, report)
	if report.Published && c.Observe != nil {
		c.Observe(now.Last.Seconds)
	}
	left = []string{takenBy(c.Index, build.Generation).Key(string(takenFile))}
	if report.Unchanged && report.Calls.Sum() == 0 { // false hints must not leave a report each
		left = append(left, c.Index.GenerationKey(build.Generation, "report.json"),
			c.Index.GenerationKey(build.Generation, "report.md"))
	}
	return true, left, nil
}

// judgeEnd says when hints are followed again after a build of them, or that they wait for the next night.
func (c *Collector) judgeEnd(now *state, report core.Report) {
	switch reason := fault.Code(report.Reason); {
	case report.Status == core.StatusCompleted || report.Status == core.StatusErrors:
		now.Failures, now.Retry = 0, now.Last.Ended.Add(2*now.Last.Ended.Sub(report.Started)) // builds leave room for others
	case report.Status == core.StatusHeld, reason == fault.PlanMoved:
		now.Waiting = &waiting{report.Reason, c.now()}
	case report.Status == core.StatusCancelled, reason == fault.LeaseHeld: // another build went first
		now.Retry = c.now().Add(c.Debounce)
	default:
		now.Failures++
		now.Retry = c.now().Add(firstRetry << min(now.Failures, 8))
		if now.Failures >= mostFailures {
			now.Waiting = &waiting{report.Reason, c.now()}
		}
	}
}
