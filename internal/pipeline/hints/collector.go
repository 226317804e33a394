package hints

import (
	"cmp"
	"context"
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

	known map[string]Delivery // of the inbox, by key in the store
}

// inbox is what waits.
type inbox struct {
	keys        []string // of deliveries, in the store
	objects     []string // that they name, each once, in order
	all         bool     // they name too many
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
	waits, err := c.readInbox(ctx)
	if err != nil || len(waits.keys) == 0 || c.now().Before(now.Retry) || !c.isDue(waits) {
		return err
	}
	if now.Waiting != nil {
		if over, err := c.isNightOver(ctx, *now.Waiting); err != nil || !over {
			return err
		}
		now.Waiting, now.Failures = nil, 0
	}
	builder, err := run.FindBuilder(ctx, c.Index, c.Engine.DescribeRun)
	if err != nil || builder != "" { // a night sees what hints name
		return err
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

// isDue reports whether what waits waited long enough.
func (c *Collector) isDue(waits inbox) bool {
	now := c.now()
	return waits.all || now.Sub(waits.last) >= c.Debounce || now.Sub(waits.first) >= longestWait*c.Debounce
}

// isNightOver reports whether a build has listed the corpus since.
func (c *Collector) isNightOver(ctx context.Context, since waiting) (bool, error) {
	listed, err := run.LastListing(ctx, c.Coordination, c.Index.Name)
	return err == nil && listed.After(since.Since), err
}

// readInbox reads what waits, as far as memory is bounded. What a night has seen since is dropped.
func (c *Collector) readInbox(ctx context.Context) (out inbox, err error) {
	listed, err := run.LastListing(ctx, c.Coordination, c.Index.Name)
	if err != nil {
		return out, err
	}
	for info, err := range c.Index.Store.List(ctx, c.Index.HintsKey(folderInbox, "")+"/", "") {
		if err != nil {
			return out, err
		}
		if out.keys = append(out.keys, info.Key); len(out.keys) == mostDeliveries {
			break
		}
	}
	if err := c.readDeliveries(ctx, out.keys); err != nil {
		return out, err
	}
	objects, seen := map[string]bool{}, []string{}
	for _, key := range out.keys {
		delivery, known := c.known[key]
		switch {
		case !known:
			out.all = true
			continue
		case delivery.At.Add(clockSkew).Before(listed):
			seen = append(seen, key)
			continue
		}
		for _, object := range delivery.Keys {
			objects[object] = true
		}
		if out.first.IsZero() || delivery.At.Before(out.first) {
			out.first = delivery.At
		}
		if delivery.At.After(out.last) {
			out.last = delivery.At
		}
	}
	if len(seen) > 0 {
		out.keys = slices.DeleteFunc(out.keys, func(key string) bool { return slices.Contains(seen, key) })
		err = c.dropDeliveries(ctx, seen)
	}
	out.objects = slices.Sorted(maps.Keys(objects))
	out.all = out.all || len(out.objects) > c.Most
	return out, err
}

// readDeliveries reads those that are not known, until they name more objects than are looked up.
func (c *Collector) readDeliveries(ctx context.Context, keys []string) error {
	known, held := map[string]Delivery{}, 0
	for _, key := range keys {
		if delivery, ok := c.known[key]; ok {
			known[key] = delivery
			held += len(delivery.Keys)
		}
	}
	c.known = known
	missing := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { _, ok := known[key]; return ok })
	for len(missing) > 0 && held <= 2*c.Most {
		part := missing[:min(readAtOnce, len(missing))]
		missing = missing[len(part):]
		found := make([]Delivery, len(part))
		err := parallel.Each(ctx, len(part), readAtOnce, func(ctx context.Context, i int) error {
			_, err := blob.ReadJSON(ctx, c.Index.Store, part[i], &found[i])
			if artifact.IsDamage(err) { // what it named is not known: the next night sees it
				c.Log.Warn("hints cannot be read", "index", c.Index.Name, "object", part[i])
				found[i], err = Delivery{At: c.now()}, nil
			}
			return err
		})
		if err != nil {
			return err
		}
		for i, key := range part {
			known[key] = found[i]
			held += len(found[i].Keys)
		}
	}
	return nil
}

// dropDeliveries removes what a build has followed, or a night has seen.
func (c *Collector) dropDeliveries(ctx context.Context, keys []string) error {
	for part := range slices.Chunk(keys, artifact.DeleteAtOnce) {
		if err := c.Index.Store.DeleteAll(ctx, part); err != nil {
			return err
		}
	}
	for _, key := range keys {
		delete(c.known, key)
	}
	return nil
}

// beginBuild writes down which build follows what waits, then starts it: a process that dies in between, or another
// one, starts the same build.
func (c *Collector) beginBuild(ctx context.Context, now state, version string, waits inbox) error {
	spec, err := c.findSpec(ctx)
	if err != nil || spec == "" {
		return err
	}
	batch := Batch{All: waits.all, Inbox: map[string]time.Time{}}
	if !batch.All {
		batch.Keys = waits.objects
	}
	for _, key := range waits.keys {
		batch.Inbox[key] = c.known[key].At
	}
	digest, err := writeBatch(ctx, c.Index, batch)
	if err != nil {
		return err
	}
	stamp := strings.ToLower(c.now().UTC().Format("20060102T150405Z"))
	now.Current = &current{
		Generation: core.HintsGeneration + stamp + "-" + digest[:8], Spec: spec, Batch: digest, Keys: len(batch.Keys),
		First: waits.first,
	}
	if _, err := writeState(ctx, c.Index, now, version); err != nil {
		return c.ignoreRace(err)
	}
	if batch.All {
		c.Log.Warn("too many hints: the corpus is listed", "index", c.Index.Name, "deliveries", len(waits.keys))
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

// closeBuild settles the build that follows hints, where it is over. left are files to delete once that is written down.
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
	err = nil
	diff := report.Diff
	now.Last = &core.HintRun{
		Run: name, Status: cmp.Or(report.Status, core.StatusFailed), Reason: report.Reason, Keys: build.Keys, Ended: c.now(),
		Changed: diff.Added + diff.Changed + diff.Removed + diff.Moved, Seconds: c.now().Sub(build.First).Seconds(),
	}
	if report.Ended != nil {
		now.Last.Ended, now.Last.Seconds = *report.Ended, report.Ended.Sub(build.First).Seconds()
	}
	followed := c.judgeEnd(now, report)
	if followed {
		err = c.dropDeliveries(ctx, slices.Collect(maps.Keys(batch.Inbox)))
	}
	if err == nil && followed && !report.Unchanged {
		err = c.reportServed(ctx, build, batch)
	}
	left = []string{c.Index.HintsKey(folderBatches, build.Batch+".json")}
	if report.Unchanged { // it gave no generation: false hints must not leave a report each
		left = append(left, c.Index.GenerationKey(build.Generation, "report.json"),
			c.Index.GenerationKey(build.Generation, "report.md"))
	}
	now.Current = nil
	return err == nil, left, err
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

// reportServed says how long the hints of a build waited until it was served.
func (c *Collector) reportServed(ctx context.Context, build current, batch Batch) error {
	info, err := c.Index.Store.Stat(ctx, c.Index.CurrentKey())
	if err != nil || c.Published == nil {
		return err
	}
	pointer, _, err := c.Index.ReadPointer(ctx)
	if err != nil || pointer.Generation != build.Generation {
		return err
	}
	for _, at := range batch.Inbox {
		if !at.IsZero() {
			c.Published(c.Index.Name, max(0, info.Modified.Sub(at).Seconds()))
		}
	}
	return nil
}
