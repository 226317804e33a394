package host

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/workflows"
)

const (
	lookEvery    = 15 * time.Second
	lookPatience = 30 * time.Second // for one look at everything
	lookAtOnce   = 8                // indexes
	mostIndexes  = 200              // are looked at: as many as metrics have names for
)

// watcher looks up from time to time how the indexes stand, for metrics.
type watcher struct {
	artifacts blob.Store
	runs      coordination.Runs
	client    client.Client
	queue     string
	certFile  string
	telemetry *telemetry.Process
	log       *slog.Logger
	manifests sync.Map // *core.Manifest of the published generations, by index
}

// followIndexes looks until ctx is done.
func (w *watcher) followIndexes(ctx context.Context) {
	for ; ctx.Err() == nil; _ = retry.Wait(ctx, lookEvery) { // the loop sees that it ended
		bounded, cancel := context.WithTimeout(ctx, lookPatience)
		w.lookUpQueues(bounded)
		w.lookUpCertificate()
		if err := w.lookUpIndexes(bounded); err != nil && ctx.Err() == nil {
			w.telemetry.Count(telemetry.PollFailures, 1, telemetry.Code(err))
			w.log.Debug("indexes not looked up", "code", telemetry.Code(err), "error", err.Error())
		}
		cancel()
	}
}

// lookUpCertificate looks up when the certificate ends that the engine is shown. It is read each time, as it may be
// renewed.
func (w *watcher) lookUpCertificate() {
	raw, err := os.ReadFile(w.certFile)
	block, _ := pem.Decode(raw)
	if err != nil || block == nil { // where there is one, the connection says what is wrong with it
		w.telemetry.Replace(telemetry.CertificateEnd, nil)
		return
	}
	if found, err := x509.ParseCertificate(block.Bytes); err == nil {
		w.telemetry.Replace(telemetry.CertificateEnd, []telemetry.Sample{{Value: float64(found.NotAfter.Unix())}})
	}
}

// lookUpQueues looks up how many tasks wait.
func (w *watcher) lookUpQueues(ctx context.Context) {
	waiting := map[string]float64{}
	kinds := map[string]map[client.TaskQueueType]string{
		w.queue: {client.TaskQueueTypeWorkflow: "workflow", client.TaskQueueTypeActivity: "activity"},

		workflows.ComputingQueue(w.queue): {client.TaskQueueTypeActivity: "computing"},
	}
	for queue, types := range kinds {
		if err := w.addDepth(ctx, queue, types, waiting); err != nil {
			w.telemetry.Replace(telemetry.QueueDepth, nil) // an older engine, or one that does not answer: its metrics show it
			return
		}
	}
	var samples []telemetry.Sample
	for kind, tasks := range waiting {
		samples = append(samples, telemetry.Sample{Value: tasks, Labels: []string{kind}})
	}
	w.telemetry.Replace(telemetry.QueueDepth, samples)
}

// addDepth adds the tasks that wait in a queue to what waits of their types.
func (w *watcher) addDepth(
	ctx context.Context, queue string, types map[client.TaskQueueType]string, waiting map[string]float64,
) error {
	asked := client.DescribeTaskQueueEnhancedOptions{TaskQueue: queue, ReportStats: true}
	for kind := range types {
		asked.TaskQueueTypes = append(asked.TaskQueueTypes, kind)
	}
	described, err := w.client.DescribeTaskQueueEnhanced(ctx, asked)
	if err != nil {
		return err
	}
	for _, version := range described.VersionsInfo { //nolint:staticcheck // what the servers that we run with answer
		for kind, info := range version.TypesInfo {
			if info.Stats != nil {
				waiting[types[kind]] += float64(info.Stats.ApproximateBacklogCount)
			}
		}
	}
	return nil
}

// standing is what is known of one index.
type standing struct {
	index    string
	manifest *core.Manifest // nil: nothing is published
	success  time.Time
	state    *core.RunState // of the newest build; nil: none is known
	done     map[string]int64
}

// lookUpIndexes looks at every index and shows all of them at once. Where one cannot be looked at, everything stays as
// it was.
func (w *watcher) lookUpIndexes(ctx context.Context) error {
	names, err := artifact.ListIndexes(ctx, w.artifacts)
	if err != nil {
		return err
	}
	names = names[:min(len(names), mostIndexes)]
	found := make([]standing, len(names))
	err = parallel.Each(ctx, len(names), lookAtOnce, func(ctx context.Context, i int) (err error) {
		found[i], err = w.lookUpIndex(ctx, names[i])
		return err
	})
	if err != nil {
		return err
	}
	w.showIndexes(found)
	return nil
}

func (w *watcher) lookUpIndex(ctx context.Context, name string) (one standing, err error) {
	one.index = name
	index := artifact.Index{Store: w.artifacts, Name: name}
	pointer, _, err := index.ReadPointer(ctx)
	if err != nil {
		return one, err
	}
	known, _ := w.manifests.Load(name)
	manifest, _ := known.(*core.Manifest)
	switch {
	case pointer.Manifest == "":
	case manifest != nil && manifest.Generation == pointer.Generation:
		one.manifest = manifest
	default:
		if one.manifest, err = index.Manifest(ctx, pointer.Manifest); err != nil {
			return one, err
		}
		w.manifests.Store(name, one.manifest)
	}
	if one.success, err = run.ReadTime(ctx, w.runs, run.SuccessOf(name)); err != nil {
		return one, err
	}
	if one.success.IsZero() && one.manifest != nil {
		one.success = one.manifest.Created
	}
	raw, err := w.runs.ReadState(ctx, runlog.LatestBuild(name))
	if err != nil || raw == nil {
		return one, err
	}
	if one.state, err = run.ReadState(ctx, w.runs, string(raw)); err != nil || one.state == nil {
		return one, err
	}
	switch runlog.SettledAs(ctx, w.artifacts, one.state.Report) {
	case core.GenerationPublished:
		one.state.Report.Status, one.state.Report.Reason = core.StatusCompleted, ""
	case core.GenerationDiscarded:
		one.state.Report.Status, one.state.Report.Reason = core.StatusCancelled, ""
	}
	if !core.IsTerminal(one.state.Report.Status) {
		total, err := run.ReadTotals(ctx, w.runs, string(raw))
		if err == nil { // a damaged account halts its run, which reports it
			one.done = total.Done
		}
	}
	return one, nil
}

func (w *watcher) showIndexes(found []standing) {
	samples := map[string][]telemetry.Sample{}
	add := func(name string, value float64, labels ...string) {
		samples[name] = append(samples[name], telemetry.Sample{Value: value, Labels: labels})
	}
	for _, one := range found {
		if !one.success.IsZero() {
			add(telemetry.LastSuccess, toSeconds(one.success), one.index)
		}
		if manifest := one.manifest; manifest != nil {
			add(telemetry.PublishedAt, toSeconds(manifest.Created), one.index)
			add(telemetry.PublishedAge, toSeconds(manifest.Created), one.index)
			add(telemetry.IndexDocuments, float64(manifest.Counts.Documents), one.index)
			add(telemetry.IndexChunks, float64(manifest.Counts.Chunks), one.index)
			add(telemetry.IndexDead, float64(manifest.Counts.DeadLetters), one.index)
			add(telemetry.IndexFailed, float64(manifest.Counts.Failed), one.index)
		}
		if state := one.state; state != nil {
			add(telemetry.RunStatus, 1, one.index, state.Report.Status, state.Report.Reason)
			if state.Stage != "" {
				add(telemetry.StageTotal, float64(state.Total), one.index, state.Stage)
				add(telemetry.StageDone, float64(max(0, one.done[state.Stage])), one.index, state.Stage)
			}
		}
	}
	for _, name := range []string{
		telemetry.LastSuccess, telemetry.PublishedAt, telemetry.PublishedAge, telemetry.IndexDocuments,
		telemetry.IndexChunks, telemetry.IndexDead, telemetry.IndexFailed, telemetry.RunStatus,
		telemetry.StageTotal, telemetry.StageDone,
	} {
		w.telemetry.Replace(name, samples[name])
	}
}

func toSeconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
