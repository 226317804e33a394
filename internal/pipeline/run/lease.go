package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Holder is a run of an engine that holds, or asks for, the lease of an index.
type Holder struct {
	Workflow  string
	Run       string        // of the workflow; empty where only the workflow is known
	Engine    core.Engine   // needed to take the lease
	Heartbeat time.Duration // after which the engine gives up a process that works on the run; zero: the usual one
}

// Standing is what an engine knows about a run.
type Standing int

// The standings. Only one that is over lets a lease pass on: a run that an engine does not know may be another's.
const (
	StandingUnknown Standing = iota
	StandingOpen
	StandingClosed
)

// Standings asks the engine that this process belongs to about a run.
type Standings func(ctx context.Context, holder Holder) (Standing, error)

const (
	// leaseRaces bounds how often the lease is looked at again when another run writes it at the same moment.
	leaseRaces = 5
	// usualHeartbeat is that of runs that tell none.
	usualHeartbeat = 20 * time.Second
	// A heartbeat outside of these bounds was written by hand.
	shortestHeartbeat, longestHeartbeat = time.Second, 2 * time.Minute
	// leasePatience is for how many heartbeats a lease is watched whose run is over and that a process still renews.
	leasePatience = 5
	// looksPerHeartbeat is how often a lease that is watched is looked at.
	looksPerHeartbeat = 8
	// workflowPrefix is that of a build's workflow id.
	workflowPrefix = "build/"
)

// TakeLease makes a run the only builder of its index and gives its fence, which rises with every holder. A lease that
// is free is taken at once. One that cannot be read is taken where the engine runs none of those that may hold it: a
// process of another engine finds at its next look that the fence is higher. One that is held passes on only when the
// holder's own engine says that its run is closed and the lease then stays unchanged for a heartbeat of that run: a
// process that still works on it renews it. That time is measured on the clock of this process alone, and no clock that
// may jump. Taking it twice gives the same fence.
func TakeLease(ctx context.Context, index artifact.Index, holder Holder, standings Standings) (int64, error) {
	t := taker{index: index, holder: holder, standings: standings, began: time.Now()}
	for {
		fence, err := t.takeLease(ctx)
		if err == nil || !errors.Is(err, errAgain) {
			return fence, err
		}
	}
}

// taker is a run that asks for a lease, and how long it has watched the present one.
type taker struct {
	index     artifact.Index
	holder    Holder
	standings Standings
	began     time.Time
	races     int

	seen  string    // version of the lease that is watched
	since time.Time // when it was seen first
}

// errAgain has the lease looked at once more.
var errAgain = errors.New("look at the lease again")

func (t *taker) takeLease(ctx context.Context) (int64, error) {
	old, info, err := ReadLease(ctx, t.index)
	cond := blob.Cond{Match: info.ETag}
	switch {
	case fault.Is(err, fault.NotFound):
		cond = blob.Cond{Absent: true}
	case fault.Is(err, fault.SegmentDamage):
		idle := func(ctx context.Context) error { return t.checkIdle(ctx, err) }
		if err := t.watchLease(ctx, core.Lease{}, info.ETag, idle); err != nil {
			return 0, err
		}
		if old, err = mendedLease(ctx, t.index, old); err != nil {
			return 0, err
		}
		slog.Warn("a lease that could not be read is taken: no run that may hold it is open", "index", t.index.Name)
	case err != nil:
		return 0, err
	case old.Workflow == t.holder.Workflow && old.Run == t.holder.Run:
		return old.Fence, nil
	case old.Workflow != "":
		over := func(ctx context.Context) error { return t.checkEnded(ctx, old) }
		if err := t.watchLease(ctx, old, info.ETag, over); err != nil {
			return 0, err
		}
	}
	now := time.Now().UTC()
	next := core.Lease{
		Engine: t.holder.Engine, Workflow: t.holder.Workflow, Run: t.holder.Run, Fence: old.Fence + 1,
		Heartbeat: t.holder.Heartbeat, Taken: now, Renewed: now,
	}
	_, err = blob.WriteJSON(ctx, t.index.Store, t.index.LeaseKey(), next, cond)
	if !fault.Is(err, fault.Precondition) {
		return next.Fence, err
	}
	if t.races++; t.races < leaseRaces {
		return 0, errAgain
	}
	return 0, fault.LeaseHeld.At("build", t.index.Name).
		Because("several runs try to take its lease at the same time").
		Advise("wait for them: unweaver status " + t.index.Name)
}

// watchLease returns without an error once a version of the lease whose run is over was seen for a heartbeat.
func (t *taker) watchLease(
	ctx context.Context, old core.Lease, version string, over func(context.Context) error,
) error {
	heartbeat := heartbeatOf(old.Heartbeat, t.holder.Heartbeat)
	if version != t.seen {
		if t.seen != "" && findLone(old.Workflow) == PullGeneration { // it was renewed meanwhile
			return fault.LeaseHeld.At("pull into", t.index.Name).
				Because("another pull into it is running").
				Advise("wait for it, then run the same command")
		}
		if err := over(ctx); err != nil {
			return err
		}
		t.seen, t.since = version, time.Now()
	}
	left := heartbeat - time.Since(t.since)
	if left <= 0 {
		return nil
	}
	if time.Since(t.began) > leasePatience*heartbeat {
		run := runOf(old)
		return fault.LeaseHeld.At("build", t.index.Name).
			Because("run " + run + " ended, but a process still works on it and renews its lease").
			Advise("stop that worker, or wait until it stops; then build again")
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(min(left, heartbeat/looksPerHeartbeat)):
		return errAgain
	}
}

// checkEnded returns an error while the run that holds a lease may still be going on.
func (t *taker) checkEnded(ctx context.Context, old core.Lease) error {
	run := runOf(old)
	held := fault.LeaseHeld.At("build", t.index.Name)
	lost := "if that run can never continue: unweaver cancel " + run + " --lost"
	switch lone := findLone(old.Workflow); {
	case lone == "":
	case lone == findLone(t.holder.Workflow): // one that died is finished by the next
		return nil
	case lone == DeletionGeneration:
		return held.
			Because("the index is being deleted").
			Advise("first finish the deletion: unweaver delete " + t.index.Name + " --yes; then build it again")
	default:
		return held.
			Because("an image is being pulled into it, or a pull ended early").
			Advise("wait, or finish it by the same unweaver pull; " + lost)
	}
	if t.holder.Engine != (core.Engine{}) && old.Engine != (core.Engine{}) && !old.Engine.IsSame(t.holder.Engine) {
		return held.
			Because(fmt.Sprintf("run %s (%s) of another Temporal has its lease: %s", run, old.Run, describeEngine(old.Engine))).
			Advise("wait for it, or cancel it there; " + lost)
	}
	standing, err := t.standings(ctx, Holder{Workflow: old.Workflow, Run: old.Run})
	switch {
	case err != nil:
		return err
	case standing == StandingClosed:
		return nil
	case standing == StandingOpen:
		return held.
			Because("another run is building this index: " + run).
			Advise("wait for it (unweaver status " + run + "), or cancel it: unweaver cancel " + run)
	}
	return held.
		Because(fmt.Sprintf("run %s (%s) holds its lease, and Temporal does not know that run: %s",
			run, old.Run, describeEngine(cmp.Or(t.holder.Engine, old.Engine)))).
		Advise("check that no worker works on it; " + lost)
}

// checkIdle returns an error while the engine runs a build that may hold a lease which cannot be read: its scratch is
// there.
func (t *taker) checkIdle(ctx context.Context, damage error) error {
	works, _, err := listScratchRuns(ctx, t.index)
	if err != nil {
		return err
	}
	for _, work := range works {
		if workflowPrefix+work == t.holder.Workflow {
			continue
		}
		standing, err := t.standings(ctx, Holder{Workflow: workflowPrefix + work})
		if err != nil {
			return err
		}
		if standing == StandingOpen {
			return fault.LeaseHeld.At("build", t.index.Name).
				Because(fmt.Errorf("run %s is open, and may hold the lease, which cannot be read: %w", work, damage)).
				Advise("wait for it (unweaver status " + work + "), or cancel it: unweaver cancel " + work)
		}
	}
	return nil
}

// What the holder of a lease that is no run of an engine is called by, below the index: it deletes the index, or pulls
// an image into it.
const (
	DeletionGeneration = "delete-"
	PullGeneration     = "pull-"
)

// findLone returns which of them holds a lease; empty: a run.
func findLone(workflow string) string {
	_, generation, _ := strings.Cut(strings.TrimPrefix(workflow, workflowPrefix), "/")
	for _, lone := range []string{DeletionGeneration, PullGeneration} {
		if strings.HasPrefix(generation, lone) {
			return lone
		}
	}
	return ""
}

// RefuseDeleted returns fault.LeaseHeld while an index is being deleted, so that no command writes into it meanwhile.
func RefuseDeleted(ctx context.Context, index artifact.Index) error {
	lease, _, err := ReadLease(ctx, index)
	if err == nil && findLone(lease.Workflow) == DeletionGeneration {
		return (&taker{index: index}).checkEnded(ctx, lease)
	}
	return nil // a lease that cannot be read is for who takes it
}

// HoldLease renews a lease, and is fault.LeaseLost where another holder has it.
func HoldLease(ctx context.Context, index artifact.Index, holder Holder, fence int64) error {
	lost := fault.LeaseLost.At("hold the lease of", index.Name).
		Because("another run holds it").
		Advise("see: unweaver status " + index.Name)
	lease, info, err := ReadLease(ctx, index)
	if fault.Is(err, fault.NotFound) {
		return lost
	}
	if err != nil || lease.Fence != fence || lease.Workflow != holder.Workflow || lease.Run != holder.Run {
		return cmp.Or(err, error(lost))
	}
	lease.Renewed = time.Now().UTC()
	_, err = blob.WriteJSON(ctx, index.Store, index.LeaseKey(), lease, blob.Cond{Match: info.ETag})
	if fault.Is(err, fault.Precondition) {
		return lost
	}
	return err
}

// describeEngine names an engine for people.
func describeEngine(engine core.Engine) string {
	return fmt.Sprintf("Temporal at %s, namespace %s", engine.Address, engine.Namespace)
}

// runOf returns how people name the run that holds a lease.
func runOf(lease core.Lease) string { return strings.TrimPrefix(lease.Workflow, workflowPrefix) }

// heartbeatOf returns the first heartbeat that is given, within bounds.
func heartbeatOf(given ...time.Duration) time.Duration {
	for _, heartbeat := range given {
		if heartbeat > 0 {
			return min(max(heartbeat, shortestHeartbeat), longestHeartbeat)
		}
	}
	return usualHeartbeat
}

// GiveLease gives the lease back where the run holds it; the fence stays, so that it only rises.
func GiveLease(ctx context.Context, index artifact.Index, holder Holder) error {
	for range leaseRaces {
		lease, info, err := ReadLease(ctx, index)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil || lease.Workflow != holder.Workflow || lease.Run != holder.Run {
			return err
		}
		// A process of this run may renew it at the same moment.
		if err = writeFreeLease(ctx, index, lease.Fence, blob.Cond{Match: info.ETag}); !fault.Is(err, fault.Precondition) {
			return err
		}
	}
	return fault.GenBusy.At("give back the lease of", index.Name).Because("it changes all the time")
}

// writeFreeLease writes a lease that no run holds.
func writeFreeLease(ctx context.Context, index artifact.Index, fence int64, cond blob.Cond) error {
	_, err := blob.WriteJSON(ctx, index.Store, index.LeaseKey(), core.Lease{Fence: fence, Taken: time.Now().UTC()}, cond)
	return err
}

// ReadLease reads who builds an index; fault.NotFound: no run ever did. It names the file where it cannot be read or
// says what no run writes, and the command that mends it: an unreadable lease must not let two runs build.
func ReadLease(ctx context.Context, index artifact.Index) (core.Lease, blob.Info, error) {
	var lease core.Lease
	info, err := blob.ReadJSON(ctx, index.Store, index.LeaseKey(), &lease)
	if err == nil {
		err = checkLease(ctx, lease, index)
	}
	if fault.Is(err, fault.SegmentDamage) {
		if named := fault.As(err); named.Err != nil {
			err = named.Err
		}
		err = fault.SegmentDamage.At("read lease", index.Store.Location(index.LeaseKey())).
			Because(err).
			Advise("check that nothing builds " + index.Name + ", then: unweaver cancel " + index.Name + " --lost")
	}
	return lease, info, err
}

// checkLease finds what no run of this program writes.
func checkLease(ctx context.Context, lease core.Lease, index artifact.Index) error {
	why := ""
	switch {
	case lease.Fence < 0 || lease.Fence == math.MaxInt64 || lease.Workflow != "" && lease.Fence == 0:
		why = fmt.Sprintf("its fence is %d", lease.Fence)
	case lease.Workflow == "" && lease.Run != "" || lease.Workflow != "" && lease.Run == "":
		why = "it names half of a run"
	case lease.Workflow == "" && lease.Fence == 0:
		why = "it says nothing"
	case lease.Workflow != "" && !strings.HasPrefix(lease.Workflow, workflowPrefix+index.Name+"/"):
		related, err := sharesSegments(ctx, index, lease.Workflow)
		if err != nil || related {
			return err
		}
		why = "it is held by " + lease.Workflow + ", which is no build of this index"
	case lease.Engine != (core.Engine{}) && (lease.Engine.Cluster == "" || lease.Engine.Namespace == ""):
		why = "it names half of an engine"
	default:
		return nil
	}
	return fault.SegmentDamage.At("read lease of", index.Name).Because(why)
}

// sharesSegments reports whether a workflow builds an index that shares this one's segments, and with them its lease.
func sharesSegments(ctx context.Context, index artifact.Index, workflow string) (bool, error) {
	run, ok := strings.CutPrefix(workflow, workflowPrefix)
	name, _, named := strings.Cut(run, "/")
	if !ok || !named || !core.ValidIndex(name) {
		return false, nil
	}
	own, err := artifact.BaseOf(ctx, index.Store, index.Name)
	if err != nil {
		return false, err
	}
	its, err := artifact.BaseOf(ctx, index.Store, name)
	return own == its, err
}
