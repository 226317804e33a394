package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// pollEvery is how often jobs are asked about.
const pollEvery = 300 * time.Millisecond

// fillJobs keeps as many jobs in flight as may be, until each file has ended. After a call that failed nothing is asked
// for before a job has ended: a store that has enough to do refuses more. With none in flight the error is the
// caller's, who comes again.
func (im *importing) fillJobs(ctx context.Context) (why string, err error) {
	var refused error
	before := 0 // jobs in flight when a call failed
	for {
		again := refused == nil || len(im.listRunning()) < before
		if again {
			if refused, err = im.requestImports(ctx); err != nil {
				return "", err
			}
		}
		if why, err := im.settleJobs(ctx); err != nil || why != "" {
			return why, err
		}
		if again {
			before = len(im.listRunning())
		}
		if err := im.pollJobs(ctx); err != nil {
			return "", err
		}
		switch running := len(im.listRunning()); {
		case running == 0 && refused != nil && before == 0:
			if refused = im.noteRefusal(ctx, refused); refused != nil {
				return "", refused
			}
		case running == 0 && refused == nil && len(im.listPending()) == 0:
			return "", nil
		case running == 0:
			continue
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// selectFiles gives the files whose state pick chooses, in their order.
func (im *importing) selectFiles(pick func(*importFile) bool) []core.Segment {
	var out []core.Segment
	for _, seg := range im.Files {
		if pick(im.fileOf(seg)) {
			out = append(out, seg)
		}
	}
	return out
}

// listPending files have to be asked for.
func (im *importing) listPending() []core.Segment {
	return im.selectFiles(func(f *importFile) bool { return !f.Done && !f.Asked })
}

// listRunning files have a job that has not ended.
func (im *importing) listRunning() []core.Segment {
	return im.selectFiles(func(f *importFile) bool { return !f.Done && f.Job != "" })
}

// settleJobs finds the jobs of files that were asked for without an answer. Where the store knows none, the copy that
// the call named is deleted before the store is asked again: a job that it does not know of then can find nothing to
// read, whenever it is made, so that the file may be asked for again under another name. Names decide, and never the
// error of the call: what a server in front of others says of them may hide that they went on.
func (im *importing) settleJobs(ctx context.Context) (why string, err error) {
	lost := im.selectFiles(func(f *importFile) bool { return !f.Done && f.Asked && f.Job == "" })
	if len(lost) == 0 {
		return "", nil
	}
	if lost, why, err = im.adoptJobs(ctx, lost); err != nil || why != "" || len(lost) == 0 {
		return why, err
	}
	for _, seg := range lost {
		if err := im.Staging.Delete(ctx, im.pathOf(seg)); err != nil {
			return "", err
		}
	}
	if lost, why, err = im.adoptJobs(ctx, lost); err != nil || why != "" {
		return why, err
	}
	for _, seg := range lost {
		file := im.fileOf(seg)
		file.Try, file.Asked = file.Try+1, false
	}
	return "", im.saveState(ctx)
}

// adoptJobs gives files the jobs that the store knows for their paths, and those files back for which it knows none.
func (im *importing) adoptJobs(ctx context.Context, lost []core.Segment) (left []core.Segment, why string, err error) {
	jobs, err := im.store.ListImports(ctx, im.Collection)
	if err != nil {
		return nil, "", err
	}
	for _, seg := range lost {
		switch found := jobs[im.pathOf(seg)]; len(found) {
		case 0:
			left = append(left, seg)
		case 1:
			im.fileOf(seg).Job = found[0]
		default:
			return nil, fmt.Sprintf("%d jobs are known for a file that was asked for once", len(found)), nil
		}
	}
	if len(left) > 0 { // some servers do not tell what a job reads
		for _, job := range jobs[""] {
			if !im.knowsJob(job) {
				return nil, "job " + job + " may be of a file that was asked for without an answer", nil
			}
		}
	}
	return left, "", im.saveState(ctx)
}

// knowsJob reports whether a job is, or was, that of a file.
func (im *importing) knowsJob(job string) bool {
	for _, file := range im.state.Files {
		if file.Job == job || slices.Contains(file.Failed, job) {
			return true
		}
	}
	return false
}

// requestImports copies the next files into the store's bucket and asks for them. Refused is the error of a call that
// failed; what became of it is for settle to find out.
func (im *importing) requestImports(ctx context.Context) (refused, err error) {
	next := im.listPending()
	next = next[:min(len(next), max(0, im.InFlight-len(im.listRunning())))]
	if len(next) == 0 {
		return nil, nil
	}
	err = parallel.Each(ctx, len(next), len(next), func(ctx context.Context, i int) error {
		source := im.Artifacts.SegmentKey(next[i].SHA256)
		return blob.Copy(ctx, im.Staging, im.pathOf(next[i]), im.Artifacts.Store, source)
	})
	if err == nil {
		err = im.checkGuard(ctx)
	}
	if err != nil {
		return nil, err
	}
	for _, seg := range next {
		im.fileOf(seg).Asked = true
	}
	if err := im.saveState(ctx); err != nil {
		return nil, err
	}
	for at, seg := range next {
		var job string
		if job, refused = im.store.Import(ctx, im.Collection, im.pathOf(seg)); refused != nil {
			im.last = seg.SHA256
			for _, never := range next[at+1:] { // no call was made for them
				im.fileOf(never).Asked = false
			}
			break
		}
		im.fileOf(seg).Job = job
	}
	if err := im.saveState(ctx); err != nil {
		return nil, err
	}
	return refused, nil
}

// pollJobs asks about the jobs that run. What failed is to be asked for again, or left.
func (im *importing) pollJobs(ctx context.Context) error {
	changed := false
	moving := int64(0)
	for _, seg := range im.listRunning() {
		file := im.fileOf(seg)
		job, err := im.store.ImportState(ctx, file.Job)
		switch {
		case err != nil:
			return err
		case job.Failed != "":
			changed = true
			if err := im.noteFailure(ctx, seg, job.Failed); err != nil {
				return err
			}
		case job.Done || job.Unknown: // the count says what a forgotten job did
			file.Done, changed = true, true
		default:
			moving += job.Rows
		}
	}
	progress := core.Progress{Stage: "load", Done: moving}
	for _, seg := range im.Files {
		if im.fileOf(seg).Done {
			progress.Done += seg.Rows
		}
	}
	stage.ReportProgress(im.OnProgress, progress)
	if !changed {
		return nil
	}
	return im.saveState(ctx)
}

// noteFailure notes that a file's job came to nothing.
func (im *importing) noteFailure(ctx context.Context, seg core.Segment, why string) error {
	if err := im.Staging.Delete(ctx, im.pathOf(seg)); err != nil {
		return err
	}
	file := im.fileOf(seg)
	file.Failed = append(file.Failed, file.Job)
	im.Log.Warn("an import job failed", "collection", im.Collection, "job", file.Job, "segment", seg.SHA256[:12],
		"failures", len(file.Failed), "why", why)
	file.Try, file.Job, file.Asked = file.Try+1, "", false
	if len(file.Failed) >= failures {
		file.Done, file.Left = true, true
	}
	return nil
}

// noteRefusal notes that the call for a file was refused by a store that answers and has nothing of ours to do. The
// error is the caller's, who comes again, until the file is left. What is a matter of rights is for a person to mend.
func (im *importing) noteRefusal(ctx context.Context, refused error) error {
	if fault.Is(refused, fault.StoreDenied) {
		return refused
	}
	file := im.state.Files[im.last]
	file.Refused++
	if file.Refused >= refusals {
		file.Done, file.Left = true, true
		im.Log.Warn("cannot import a file: its rows are written during verification",
			"collection", im.Collection, "segment", im.last[:12], "refusals", file.Refused, "why", refused)
		refused = nil
	}
	return errors.Join(refused, im.saveState(ctx))
}
