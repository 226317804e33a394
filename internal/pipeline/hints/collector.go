package hints

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Engine starts builds and knows how they stand.
type Engine interface {
	// StartBuild starts the build of a generation, once: a second start under the name does nothing, also after its end.
	StartBuild(ctx context.Context, index, generation, spec, hints string) error
	// DescribeRun says what the engine knows about a run.
	DescribeRun(ctx context.Context, holder run.Holder) (run.Standing, error)
}

const (
	mostDeliveries = 20_000           // in one batch; what is left follows
	readAtOnce     = 16               // deliveries
	claimFor       = time.Minute      // by one process, which renews it at each look
	longestWait    = 3                // debounces: so long at most while hints go on arriving
	clockSkew      = time.Minute      // that the clocks of two machines may differ by
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
	Most         int           // keys; of more the corpus is listed
	Log          *slog.Logger
	Published    func(index string, seconds float64) // receives how long each delivery waited to be served; may be nil
	Now          func() time.Time                    // nil: time.Now
}

// inbox is what waits.
type inbox struct {
	Batch
	first, last time.Time
}

func (c *Collector) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now().UTC()
}

// Advance looks once: it closes the build that it began before, where that is over, and begins another where hints wait
// for one. It may be called at any time, by several processes.
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
	}
	keys, err := c.listInbox(ctx)
	if err != nil || len(keys) == 0 || c.now().Before(now.Retry) {
		return err
	}
	listed, err := run.LastListing(ctx, c.Coordination, c.Index.Name)
	if err != nil || now.Waiting != nil && !listed.After(now.Waiting.Since) {
		return err
	}
	builder, err := run.FindBuilder(ctx, c.Index, c.Engine.DescribeRun)
	if err != nil || builder != "" { // a night sees what hints name
		return err
	}
	waits, err := c.readInbox(ctx, keys, listed)
	if err != nil || len(waits.Inbox) == 0 || !waits.All && c.now().Sub(waits.last) < c.Debounce &&
		c.now().Sub(waits.first) < longestWait*c.Debounce {
		return err
	}
	if now.Waiting != nil {
		now.Waiting, now.Failures = nil, 0
	}
	return c.beginBuild(ctx, now, version, waits)
}

// ignoreRace drops the error of a state that another process wrote meanwhile: the next look sees it.
func (c *Collector) ignoreRace(err error) error {
	if fault.Is(err, fault.Precondition) {
		return nil
	}
	return err
}

// listInbox lists the deliveries that wait, by their keys in the store.
func (c *Collector) listInbox(ctx context.Context) (keys []string, err error) {
	for info, err := range c.Index.Store.List(ctx, c.Index.HintsKey(folderInbox, "")+"/", "") {
		if err != nil {
			return nil, err
		}
		if keys = append(keys, info.Key); len(keys) == mostDeliveries {
			break
		}
	}
	return keys, nil
}

// readInbox reads deliveries until they name more objects than are looked up. What a night has seen is dropped.
func (c *Collector) readInbox(ctx context.Context, keys []string, listed time.Time) (out inbox, err error) {
	out.Inbox = map[string]time.Time{}
	objects, seen := map[string]bool{}, []string{}
	read := func(ctx context.Context, key string) (one Delivery, err error) {
		if _, err = blob.ReadJSON(ctx, c.Index.Store, key, &one); artifact.IsDamage(err) { // the next night sees it
			c.Log.Warn("hints cannot be read", "index", c.Index.Name, "object", key)
			err = nil
		}
		return one, err
	}
	at := 0
	for delivery, err := range parallel.MapOrdered(ctx, readAtOnce, stream(keys), read) {
		if err != nil {
			return out, err
		}
		key := keys[at]
		at++
		if delivery.At.Add(clockSkew).Before(listed) {
			seen = append(seen, key)
			continue
		}
		for _, object := range delivery.Keys {
			objects[object] = true
		}
		out.Inbox[key] = delivery.At
		if out.first.IsZero() || delivery.At.Before(out.first) {
			out.first = delivery.At
		}
		if delivery.At.After(out.last) {
			out.last = delivery.At
		}
		if out.All = len(objects) > c.Most; out.All {
			break
		}
	}
	for _, key := range keys[at:] { // of which nothing is known
		out.Inbox[key] = time.Time{}
	}
	if out.Keys = slices.Sorted(maps.Keys(objects)); out.All {
		out.Keys = nil
	}
	return out, c.Index.Store.DeleteAll(ctx, seen)
}

// stream gives keys to what works on them side by side.
func stream(keys []string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, key := range keys {
			if !yield(key, nil) {
				return
			}
		}
	}
}

// beginBuild writes down which build follows what waits, then starts it: a process that dies in between, or another
// one, starts the same build.
func (c *Collector) beginBuild(ctx context.Context, now state, version string, waits inbox) error {
	spec, err := c.findSpec(ctx)
	if err != nil || spec == "" {
		return err
	}
	digest, err := writeBatch(ctx, c.Index, waits.Batch)
	if err != nil {
		return err
	}
	stamp := strings.ToLower(c.now().UTC().Format("20060102T150405Z"))
	now.Current = &current{
		Generation: core.HintsGeneration + stamp + "-" + digest[:8], Spec: spec, Batch: digest, Keys: len(waits.Keys),
		First: waits.first,
	}
	if _, err := writeState(ctx, c.Index, now, version); err != nil {
		return c.ignoreRace(err)
	}
	if waits.All {
		c.Log.Warn("too many hints: the corpus is listed", "index", c.Index.Name, "deliveries", len(waits.Inbox))
	}
	return c.startBuild(ctx, *now.Current)
}

func (c *Collector) startBuild(ctx context.Context, build current) error {
	return c.Engine.StartBuild(ctx, c.Index.Name, build.Generation, build.Spec, build.Batch)
}

// findSpec returns the configuration that a night would build; without a schedule, the one that is served was built
// with. Empty: there is no generation yet, and the first build lists everything.
func (c *Collector) findSpec(ctx context.Context) (string, error) {
	pointer, _, err := c.Index.ReadPointer(ctx)
	if err != nil || pointer.Manifest == "" {
		return "", err
	}
	digest, err := run.OpenSchedule(ctx, c.Index)
	if err == nil {
		return digest.String(), nil
	}
	if _, missing := c.Index.Store.Stat(ctx, c.Index.ScheduleKey()); !fault.Is(missing, fault.NotFound) {
		return "", cmp.Or(missing, err)
	}
	manifest, err := c.Index.ManifestOf(ctx, pointer)
	if err != nil {
		return "", err
	}
	return manifest.Spec.String(), nil
}

// closeBuild settles the build that follows hints, where it is over. left are files to delete once that is written.
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
		return false, nil, c.startBuild(ctx, build)
	case err != nil && !fault.Is(err, fault.NotFound) && !artifact.IsDamage(err):
		return false, nil, err
	}
	batch, err := ReadBatch(ctx, c.Index, build.Batch)
	if err != nil && !fault.Is(err, fault.NotFound) && !artifact.IsDamage(err) {
		return false, nil, err
	}
	diff := report.Diff
	now.Last = &core.HintRun{
		Run: name, Status: cmp.Or(report.Status, core.StatusFailed), Reason: report.Reason, Keys: build.Keys, Ended: c.now(),
		Changed: diff.Added + diff.Changed + diff.Removed + diff.Moved, Seconds: c.now().Sub(build.First).Seconds(),
	}
	if report.Ended != nil {
		now.Last.Ended, now.Last.Seconds = *report.Ended, report.Ended.Sub(build.First).Seconds()
	}
	left = []string{c.Index.HintsKey(folderBatches, build.Batch+".json")}
	if report.Unchanged { // it gave no generation: false hints must not leave a report each
		left = append(left, c.Index.GenerationKey(build.Generation, "report.json"),
			c.Index.GenerationKey(build.Generation, "report.md"))
	}
	if now.Current = nil; !c.judgeEnd(now, report) {
		return true, left, nil
	}
	if !report.Unchanged {
		c.reportServed(ctx, build, batch)
	}
	return true, left, c.Index.Store.DeleteAll(ctx, slices.Collect(maps.Keys(batch.Inbox)))
}

// judgeEnd says what becomes of hints after a build of them: followed, tried again, or left to the next night.
func (c *Collector) judgeEnd(now *state, report core.Report) (followed bool) {
	leave := func(reason string) {
		now.Waiting = &waiting{Reason: reason, Run: now.Last.Run, Since: c.now()}
	}
	switch reason := fault.Code(report.Reason); {
	case report.Status == core.StatusCompleted || report.Status == core.StatusErrors:
		now.Failures, now.Retry = 0, time.Time{}
		return true
	case report.Status == core.StatusHeld, reason == fault.PlanMoved:
		leave(report.Reason)
	case report.Status == core.StatusCancelled, reason == fault.LeaseHeld: // another build went first
		now.Retry = c.now().Add(c.Debounce)
	default:
		now.Failures++
		now.Retry = c.now().Add(firstRetry << min(now.Failures, 8))
		if now.Failures >= mostFailures {
			leave(report.Reason)
		}
	}
	return false
}

// reportServed says how long the hints of a build waited until it was served, where it is served still.
func (c *Collector) reportServed(ctx context.Context, build current, batch Batch) {
	pointer, _, err := c.Index.ReadPointer(ctx)
	info, unknown := c.Index.Store.Stat(ctx, c.Index.CurrentKey())
	if err != nil || unknown != nil || pointer.Generation != build.Generation || c.Published == nil {
		return
	}
	for _, at := range batch.Inbox {
		if !at.IsZero() {
			c.Published(c.Index.Name, max(0, info.Modified.Sub(at).Seconds()))
		}
	}
}
