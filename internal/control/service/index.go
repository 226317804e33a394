package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/text/entitytype"
	"github.com/unweaver/unweaver/workflows"
)

// newStamp names a generation after the present.
func newStamp() string { return strings.ToLower(time.Now().UTC().Format("20060102T150405Z")) }

// BuildIndex implements Control.
func (s *Service) BuildIndex(ctx context.Context, request control.IndexRequest) (control.Run, error) {
	spec := request.Spec
	generation := request.Generation
	if err := errors.Join(checkSpec("index", spec), freeName(generation)); err != nil {
		return control.Run{}, err
	}
	if err := s.refuseUnowned(ctx, spec.Index); err != nil {
		return control.Run{}, err
	}
	release, err := s.claimStart(ctx, spec.Index)
	if err != nil {
		return control.Run{}, err
	}
	defer release()
	known, err := s.findOnce(ctx, request)
	if err == nil && known.Run == "" {
		err = s.checkOverlay(ctx, spec)
	}
	if err != nil || known.Run != "" {
		return known, err
	}
	_, stored := spec.Overlay["models.extraction.file"]
	_, general := spec.Overlay["models.chat.file"]
	if file := spec.ChatOf(core.RoleExtraction).File; s.Grant != nil && file != "" && !control.OfAnother(ctx) && !stored &&
		!general { // a file that the store names may have been named by a key or an image
		s.Models.AllowRecording(file)
	}
	if err := s.Models.Check(spec); err != nil {
		return control.Run{}, err
	}
	if err := s.grantCorpus(ctx, spec, true); err != nil {
		return control.Run{}, err
	}
	if _, err := s.Stores.OpenCorpus(ctx, spec.Corpus); err != nil {
		return control.Run{}, err
	}
	if err := s.keepFiles(ctx, spec, request.Files); err != nil {
		return control.Run{}, err
	}
	digest, err := s.indexOf(spec.Index).PutSpec(ctx, spec)
	if err != nil {
		return control.Run{}, err
	}
	joined, err := s.joinRunning(ctx, request, digest)
	if err != nil || joined.Run != "" {
		return joined, err
	}
	if generation != "" {
		err = publish.CheckUnused(ctx, s.indexOf(spec.Index), generation)
	} else if generation = nameOnce(request); generation == "" {
		generation, err = s.nameGeneration(ctx, spec.Index)
	}
	if err != nil {
		return control.Run{}, err
	}
	if request.Expected != nil {
		if err := unit.WriteExpected(ctx, s.indexOf(spec.Index), generation, *request.Expected); err != nil {
			return control.Run{}, err
		}
	}
	build := s.newBuild(spec.Index, generation, digest)
	build.ReplaceCorpus, build.Rebuild = request.ReplaceCorpus, request.Rebuild
	return s.startBuild(ctx, request.Priority, build)
}

// newBuild returns the input of a run. A digest that is zero names no configuration: the run needs none.
func (s *Service) newBuild(index, generation string, spec core.Digest) workflows.Build {
	out := workflows.Build{
		Index: index, Generation: generation, Heartbeat: s.Heartbeat, Shape: workflows.DefaultShape(),
		SearchAttributes: s.SearchAttributes,
	}
	if !spec.IsZero() {
		out.Spec = spec.String()
	}
	return out
}

// checkSpec refuses what no build can have: a name that is none, no corpus, an addition to the prompt of extraction
// that no configuration would take, as every passage would be paid for with it, and defaults that break queries.
func checkSpec(what string, spec core.Spec) error {
	if err := checkIndex(spec.Index); err != nil {
		return err
	}
	if spec.Corpus == "" {
		return fault.CorpusMissing.At(what, spec.Index).
			Because("no corpus is given or configured").
			Advise("give a folder or s3://bucket/prefix as an argument, or set indexes." + spec.Index + ".corpus")
	}
	if setting, why := entitytype.FindMistake(spec.Extraction); setting != "" {
		return fault.BadConfig.At("configure", "indexes."+spec.Index+".extraction."+setting).Because(why).
			Advise("change the setting; docs/guides/own-types.md says what it takes")
	}
	if why := spec.CheckQueries(); why != "" {
		return fault.BadConfig.At("configure", "indexes."+spec.Index).Because(why).Advise("change the setting")
	}
	return nil
}

// refuseUnowned refuses an index that is being deleted, or that is another installation's, pulled from there.
func (s *Service) refuseUnowned(ctx context.Context, index string) error {
	return errors.Join(run.RefuseDeleted(ctx, s.indexOf(index)), run.RefusePulled(ctx, s.indexOf(index)))
}

// joinRunning joins the build of the index that runs, where it is what the request asks for. A run without a name:
// none runs.
func (s *Service) joinRunning(
	ctx context.Context, request control.IndexRequest, digest core.Digest,
) (control.Run, error) {
	index := request.Spec.Index
	running, err := s.findRunning(ctx, request.Spec, digest)
	if err != nil || running == "" {
		return control.Run{}, err
	}
	hint := "add --wait to start after that run ends; to end it now: unweaver cancel " + running
	if request.Generation != "" { // a command that names one does not wait
		hint = "wait for its end; to end it now: unweaver cancel " + running
	}
	if request.Rebuild || request.Generation != "" && running != index+"/"+request.Generation {
		return control.Run{}, fault.LeaseHeld.At("start a build of", index).
			Because("run " + running + " builds it").
			Advise(hint)
	}
	return s.joinBuild(ctx, running)
}

// freeName refuses names that no generation of a build may have.
func freeName(generation string) error {
	if generation != "" && !core.ValidSlug(generation) {
		return fault.InvalidParam.At("name generation", fault.QuoteName(generation)).
			Because("letters a-z, digits and hyphens, at most 63, no hyphen first")
	}
	for _, taken := range []struct{ prefix, by string }{
		{workflows.RestoreGeneration, "restores"},
		{workflows.AuditGeneration, "audits"},
		{workflows.RetryGeneration, "retry-failed"},
		{workflows.BackfillGeneration, "backfills"},
		{workflows.PurgeGeneration, "purge"},
		{workflows.HintsGeneration, "hints"},
		{run.DeletionGeneration, "delete"},
	} {
		if strings.HasPrefix(generation, taken.prefix) {
			return fault.Usage.At("name generation", generation).
				Because("names that start with " + taken.prefix + " are reserved for " + taken.by).
				Advise("choose another --generation")
		}
	}
	return nil
}

// keepFiles stores the files that came with a request, which the specification names by their sums: a worker reads them
// there, whichever machine they were on.
func (s *Service) keepFiles(ctx context.Context, spec core.Spec, files core.Files) error {
	bad := fault.BadConfig.At("read probe questions", spec.Gate.Probes).
		Advise("set indexes." + spec.Index + ".gate.probes to a file or an object with a line " +
			`{"question": "...", "documents": ["key"]} for each`)
	err := keepFile(ctx, spec.Gate.Probes, files.Probes, bad, s.indexOf(spec.Index).PutProbes, func(raw []byte) error {
		_, err := core.ReadProbes(bytes.NewReader(raw), true)
		return err
	})
	return errors.Join(err, s.keepAliases(ctx, spec, files.Aliases))
}

func (s *Service) keepAliases(ctx context.Context, spec core.Spec, raw []byte) error {
	bad := fault.BadConfig.At("read aliases", spec.Aliases).
		Advise("set indexes." + spec.Index + ".aliases to a file or an object with lines like: pin A | B")
	return keepFile(ctx, spec.Aliases, raw, bad, s.indexOf(spec.Index).PutAliases, func(raw []byte) error {
		_, err := aliases.ReadTable(raw)
		return err
	})
}

// keepFile checks and stores what was sent of a file that a specification names by where.
func keepFile(
	ctx context.Context, where string, raw []byte, bad *fault.Error,
	put func(context.Context, []byte) (string, error), check func(raw []byte) error,
) error {
	sum, stored := strings.CutPrefix(where, core.SentFile)
	switch {
	case where == "" || strings.Contains(where, "://"):
		return nil
	case !stored:
		return bad.Because("its content was not sent with the request")
	case len(raw) == 0: // of an earlier run
		return nil
	}
	if err := check(raw); err != nil {
		return bad.Because(err)
	}
	if got, err := put(ctx, raw); err != nil || got == sum {
		return err
	}
	return bad.Because("the content that was sent has a different checksum")
}

// nameGeneration names a generation after the present; a second start within a second gets a number.
func (s *Service) nameGeneration(ctx context.Context, index string) (string, error) {
	name := newStamp()
	for number := 2; ; number++ {
		state, err := s.runLog().ReadState(ctx, index+"/"+name)
		if err != nil {
			return "", err
		}
		latest, err := s.recallRun(ctx, runlog.LatestBuild(index))
		if err != nil {
			return "", err
		}
		_, reported := s.runLog().FindReport(ctx, index+"/"+name)
		if state.Report.Run == "" && !reported && latest != index+"/"+name {
			return name, nil
		}
		name = fmt.Sprintf("%s-%d", newStamp(), number)
	}
}

// startBuild starts the run of a build, or joins the one that already runs under the name. The start is remembered
// first, since visibility lags behind it.
func (s *Service) startBuild(
	ctx context.Context, priority control.Priority, build workflows.Build,
) (control.Run, error) {
	work := build.Index + "/" + build.Generation
	if err := s.Stores.Coordination.SetState(ctx, runlog.LatestBuild(build.Index), []byte(work)); err != nil {
		return control.Run{}, err
	}
	started, err := engine.StartBuild(ctx, s.Client, s.Engine.TaskQueue, priorityOf(build.Index, priority),
		enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, build)
	if err != nil {
		return control.Run{}, s.toFault(err)
	}
	return control.Run{Run: work, RunID: started.GetRunID()}, nil
}

func priorityOf(index string, priority control.Priority) temporal.Priority {
	return engine.NewPriority(index, priority.Level, priority.Weight)
}

// joinBuild names a build that runs already, and since when: what has changed in the corpus after that may not be in
// it. Where nothing but its end is left, who asks means what the corpus has by now: that end is waited for, and no run
// is named. A run that goes on ending for longer (it collects much) is joined all the same.
func (s *Service) joinBuild(ctx context.Context, work string) (joined control.Run, err error) {
	bounded, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	state, err := s.runLog().ReadState(ctx, work)
	if err != nil {
		return control.Run{}, err
	}
	if state.Stage == core.StageCollect || core.IsTerminal(state.Report.Status) {
		over, err := s.awaitEnd(bounded, work)
		if over || err != nil && bounded.Err() == nil || ctx.Err() != nil {
			return control.Run{}, errors.Join(err, ctx.Err())
		}
	}
	joined, err = s.attachRun(ctx, work)
	if begun := state.Report.Started; err == nil && !begun.IsZero() {
		joined.Begun = &begun
	}
	return joined, err
}

// attachRun names a run that goes on already.
func (s *Service) attachRun(ctx context.Context, work string) (control.Run, error) {
	response, err := s.Client.DescribeWorkflowExecution(ctx, workflows.WorkflowID(work), "")
	if err != nil {
		return control.Run{}, s.toFault(err)
	}
	id := response.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	return control.Run{Run: work, RunID: id, Attached: true}, nil
}

// awaitEnd waits for the end of a run, as long as the context lasts.
func (s *Service) awaitEnd(ctx context.Context, work string) (bool, error) {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		runs, err := s.isRunning(ctx, workflows.WorkflowID(work), "")
		if err != nil || !runs {
			return err == nil, err
		}
		if retry.Wait(ctx, delay) != nil {
			return false, nil
		}
	}
}

// findRunning finds a build of the index that runs with the same corpus and configuration. One with another is an
// error, as is one that stands still with other settings: it would go on, or wait to be resumed, as it began.
func (s *Service) findRunning(ctx context.Context, spec core.Spec, digest core.Digest) (string, error) {
	open, err := s.goingBuilds(ctx, spec.Index)
	if err != nil || len(open) == 0 {
		return "", err
	}
	work := open[len(open)-1] // an index has one lease: any of them would refuse another
	refused := func(why, advice string) (string, error) {
		return "", fault.LeaseHeld.At("index", spec.Index).Because("run " + work + " " + why).Advise(advice)
	}
	switch {
	case workflows.ForPurge(work):
		return refused("purges documents, and does not read the corpus",
			"add --wait to start the build after the purge ends")
	case workflows.ForRetry(work):
		return refused("retries failed passages, and does not read the corpus",
			"add --wait to start the build after that run ends; to end it now: unweaver cancel "+work)
	}
	state, err := s.runLog().ReadState(ctx, work)
	if err != nil {
		return "", err
	}
	if state.Spec.IsZero() || state.Spec == digest { // not begun yet, or the very same
		return work, nil
	}
	old, err := s.indexOf(spec.Index).Spec(ctx, state.Spec)
	if err != nil {
		return "", err
	}
	status := state.Report.Status
	again := "unweaver cancel " + work + ", then run the same command again (paid results are kept)"
	differs := spec.ListDifferences(old)
	if spec.Retrieval.Language == core.LanguageAuto {
		spec.Retrieval.Language = old.Retrieval.Language // which the run found, or is to find
	}
	switch {
	case (status == core.StatusPaused || status == core.StatusWaiting) && len(differs) > 0:
		if state.Report.Reason != "" {
			status += " (" + state.Report.Reason + ")"
		}
		return refused("builds it and is "+status+"; it began with other settings: "+strings.Join(differs, "; "),
			"to continue with its settings: unweaver resume "+work+"; to build with your settings: "+again)
	case old.ApplyTo() != spec.ApplyTo():
		return refused("builds it "+describeChoice(old)+", and this command asks for it "+describeChoice(spec),
			"to join that run, run this command "+describeChoice(old)+"; to build with your choice: "+again)
	case old.Corpus != spec.Corpus:
		return refused("is building it from another corpus, "+old.Corpus, "wait for it, or cancel it: unweaver cancel "+work)
	case old.ConfigDigest() != spec.ConfigDigest():
		return refused("is building it with another configuration", "wait for it, or cancel it: unweaver cancel "+work)
	}
	return work, nil
}

// describeChoice says to which passages a build applies changed types.
func describeChoice(spec core.Spec) string {
	if spec.ApplyTo() == "" {
		return "without --extraction-to"
	}
	return "with --extraction-to " + spec.ApplyTo()
}

// endPatience is how long a build waits for one to end that was cancelled or wrote its report.
const endPatience = time.Minute

// goingBuilds lists the open builds of an index, without those that yield, and those that were
// cancelled or wrote their report, once they have ended: a build that joined one of them would end with it, and a new
// one would find the lease taken. A lease that cannot be read is for the new build to decide.
func (s *Service) goingBuilds(ctx context.Context, index string) ([]string, error) {
	open, damaged, err := s.openBuilds(ctx, index)
	if fault.Is(damaged, fault.SegmentDamage) {
		damaged = nil
	}
	if err = errors.Join(err, damaged); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	var out []string
	for _, work := range open {
		if workflows.Yields(work) { // it gives way to the next holder of the lease
			continue
		}
		cancelled, err := s.isCancelled(ctx, work)
		state, unread := s.runLog().ReadState(ctx, work)
		if err = errors.Join(err, unread); err != nil {
			return nil, err
		}
		over := false
		if cancelled || core.IsTerminal(state.Report.Status) {
			over, err = s.awaitEnd(bounded, work)
		}
		switch {
		case over:
		case ctx.Err() != nil || err != nil && bounded.Err() == nil:
			return nil, errors.Join(err, ctx.Err())
		case cancelled:
			return nil, fault.LeaseHeld.At("index", index).
				Because("run " + work + " is being cancelled, and has not ended yet").
				Advise("check that a worker runs, then try again: unweaver status " + work)
		default:
			out = append(out, work)
		}
	}
	return out, nil
}

// isCancelled reports whether a run that the engine still runs was asked to end.
func (s *Service) isCancelled(ctx context.Context, work string) (bool, error) {
	control, err := run.ReadControl(ctx, s.Stores.Coordination, work)
	if fault.Is(err, fault.ControlUnreadable) {
		return false, nil
	}
	return control.Stop == run.CommandCancel, err
}

// ListGenerations implements Control.
func (s *Service) ListGenerations(ctx context.Context, index string) ([]artifact.Generation, error) {
	generations, err := s.indexOf(index).ListGenerations(ctx)
	if err == nil && len(generations) == 0 {
		err = fault.UnknownIndex.At("list generations of", index).
			Because("no generation of the index was built").
			Advise("to build it: unweaver index CORPUS --index " + index)
	}
	return generations, err
}

// EstimateBuild implements Control.
func (s *Service) EstimateBuild(ctx context.Context, request control.IndexRequest) (core.Estimated, error) {
	spec := request.Spec
	if err := checkSpec("estimate", spec); err != nil {
		return core.Estimated{}, err
	}
	if err := s.grantCorpus(ctx, spec, false); err != nil {
		return core.Estimated{}, err
	}
	if err := s.keepAliases(ctx, spec, request.Aliases); err != nil {
		return core.Estimated{}, err
	}
	parser, err := sandbox.New(runtime.GOMAXPROCS(0), s.Limits)
	if err != nil {
		return core.Estimated{}, err
	}
	defer parser.Close()
	report, err := upkeep.EstimateBuild(ctx, upkeep.Estimating{
		Artifacts: s.Stores.Artifacts, Corpora: s.Stores.OpenCorpus, StoreID: s.Stores.StoreID,
		Models: s.Models.Describe, Folder: app.OpenFolder, Runs: app.OpenRuns,
		Settings: spec, ReplaceCorpus: request.ReplaceCorpus, Rebuild: request.Rebuild,
		Why: request.Why, Listed: request.Listed, Unpriced: request.Unpriced, Accounts: request.Accounts,
		Parser: parser, Limits: parser.Limits(),
	})
	if err != nil {
		return report, err
	}
	s.reportUnallowed(spec, &report.Report)
	return report, nil
}

// reportUnallowed reports models that this process may not use: a run would not begin. What it would cost is given all
// the same.
func (s *Service) reportUnallowed(spec core.Spec, report *core.Report) {
	refused := s.Models.Check(spec)
	if refused == nil {
		return
	}
	problem := core.Problem{Code: string(fault.CodeOf(refused)), Object: spec.Index, Detail: refused.Error()}
	report.Problems = append(report.Problems, problem)
	report.ProblemsTotal++
}
