package hints

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

const (
	mostObjects = 10_000          // that a build looks up; of more it lists the corpus
	readAtOnce  = 16              // deliveries
	claimFor    = time.Minute     // by one process, which renews it at each look
	longestWait = 3               // debounces: so long at most while hints go on arriving
	clockSkew   = 5 * time.Minute // that the clocks of a worker and the store may differ by
)

// Collector follows the hints of one index. One process at a time does.
type Collector struct {
	Index        artifact.Index
	Coordination coordination.Store
	Describe     run.Standings
	Owner        string                // this process
	Debounce     time.Duration         // since the last hint
	Observe      func(seconds float64) // receives how long hints waited until what they changed was served
	Now          func() time.Time

	// Start starts the build of a generation, once: a second start under the name does nothing, also after its end.
	Start func(ctx context.Context, generation, spec string) error
}

// Advance looks once: it notes the end of the build that it began before, or begins one where hints wait for one. It
// may be called at any time, by several processes.
func (c *Collector) Advance(ctx context.Context) error {
	mine, err := c.Coordination.Claim(ctx, "hints:"+c.Index.Name, c.Owner, claimFor)
	if err != nil || !mine {
		return err
	}
	var begun *build
	var left []string
	err = changeState(ctx, c.Index, func(now *state) (err error) {
		begun, left = nil, nil
		switch {
		case now.Build != nil:
			left, err = c.closeBuild(ctx, now)
		case now.followed:
			err = c.beginBuild(ctx, now)
			begun = now.Build
		} // else it is written: status shows from now on what waits
		return err
	})
	switch {
	case err != nil:
		return err
	case begun != nil: // a process that dies before this, or another one, starts the same build later
		return c.Start(ctx, begun.Generation, begun.Spec)
	}
	return c.Index.Store.DeleteAll(ctx, left)
}

// beginBuild writes down the build of the hints that wait, where it is time.
func (c *Collector) beginBuild(ctx context.Context, now *state) error {
	listed, err := run.ReadTime(ctx, c.Coordination, run.ListingOf(c.Index.Name))
	if err != nil {
		return err
	}
	waits, err := listInbox(ctx, c.Index, listed)
	rests := c.Now().Before(now.Retry) && now.Last != nil && !listed.After(now.Last.Ended) // no night went well since
	if err != nil || len(waits) == 0 || rests || now.Waiting != "" && !listed.After(now.Since) {
		return cmp.Or(err, blob.ErrSame)
	}
	byTime := func(a, b blob.Info) int { return a.Modified.Compare(b.Modified) }
	first, last := slices.MinFunc(waits, byTime).Modified, slices.MaxFunc(waits, byTime).Modified
	if c.Now().Sub(last) < c.Debounce && c.Now().Sub(first) < longestWait*c.Debounce {
		return blob.ErrSame
	}
	builder, err := run.FindBuilder(ctx, c.Index, c.Describe)
	if err != nil || builder != "" { // a night sees what hints name
		return cmp.Or(err, blob.ErrSame)
	}
	spec, err := c.findSpec(ctx)
	if fault.Is(err, fault.BadConfig) { // until a build has settings that may be used
		now.Waiting, now.Since = string(fault.BadConfig), c.Now()
		return nil
	}
	if err != nil || spec == "" {
		return cmp.Or(err, blob.ErrSame)
	}
	now.Waiting = ""
	stamp := strings.Replace(c.Now().UTC().Format("20060102t150405.000"), ".", "-", 1)
	now.Build = &build{Generation: core.HintsGeneration + stamp, Spec: spec, First: first}
	for _, info := range waits {
		now.Build.Inbox = append(now.Build.Inbox, info.Key)
	}
	now.Run = c.Index.Name + "/" + now.Build.Generation
	return nil
}

// findSpec returns the configuration that a night would build; without a schedule, the one that is served was built
// with, unless an image brought it. Empty: there is no generation yet, and the first build lists everything, or nights
// are paused.
func (c *Collector) findSpec(ctx context.Context) (string, error) {
	_, manifest, err := c.Index.ReadServed(ctx)
	if err != nil || manifest == nil {
		return "", err
	}
	switch kept, err := run.ReadSchedule(ctx, c.Index); {
	case err == nil && kept.Paused:
		return "", nil
	case !fault.Is(err, fault.NotFound):
		digest, err := run.OpenSchedule(ctx, c.Index)
		return digest.String(), err
	}
	spec, err := c.Index.Spec(ctx, manifest.Spec)
	return manifest.Spec.String(), cmp.Or(err, run.RefuseImageSpec(spec))
}

// closeBuild notes how the build that follows hints ended, where it is over, or starts it where that was not done.
// left are files to delete once that is written.
func (c *Collector) closeBuild(ctx context.Context, now *state) (left []string, err error) {
	ended := *now.Build
	standing, err := c.Describe(ctx, run.Holder{Workflow: "build/" + now.Run})
	if err != nil || standing == run.StandingOpen {
		return nil, cmp.Or(err, blob.ErrSame)
	}
	report, err := c.Index.ReadReport(ctx, ended.Generation)
	switch missing := fault.Is(err, fault.NotFound); {
	case missing && standing == run.StandingUnknown: // the process died before it was started
		return nil, cmp.Or(c.Start(ctx, ended.Generation, ended.Spec), blob.ErrSame)
	case err != nil && !missing && !artifact.IsDamage(err):
		return nil, err
	}
	at := *cmp.Or(report.Ended, new(c.Now()))
	now.Last = &core.HintRun{
		Run: now.Run, Status: cmp.Or(report.Status, core.StatusFailed), Reason: report.Reason, Ended: at,
		Changed: report.ToNight().Changed, Seconds: max(0, at.Sub(ended.First).Seconds()),
	}
	now.Build, now.Run = nil, ""
	if report.Published {
		c.Observe(now.Last.Seconds)
	}
	if report.Unchanged && report.Calls.Sum() == 0 { // false hints must not leave a report each
		left = []string{c.Index.ReportKey(ended.Generation), c.Index.GenerationKey(ended.Generation, "report.md")}
	}
	return left, c.judgeEnd(ctx, now, ended, report)
}

// judgeEnd drops the hints that a build followed to a good end. Otherwise it says when they are followed again, or that
// they wait for the next night.
func (c *Collector) judgeEnd(ctx context.Context, now *state, ended build, report core.Report) error {
	switch {
	case report.Status == core.StatusCompleted || report.Status == core.StatusErrors:
		now.Retry = now.Last.Ended.Add(2 * now.Last.Ended.Sub(report.Started)) // builds leave room for others
		if ended.isOfAll() {                                                   // it has seen all that came before
			if err := run.NoteTime(ctx, c.Coordination, run.ListingOf(c.Index.Name), report.Started); err != nil {
				return err
			}
		}
		return c.Index.Store.DeleteAll(ctx, ended.Inbox)
	case report.Status == core.StatusHeld, fault.Code(report.Reason) == fault.PlanMoved: // it would end so again
		now.Waiting, now.Since = report.Reason, c.Now()
	default: // another build went first, or a mount is gone: each time it waits about twice as long
		now.Retry = c.Now().Add(max(time.Minute, c.Now().Sub(ended.First)))
	}
	return nil
}
