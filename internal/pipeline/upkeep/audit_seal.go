package upkeep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/audit"
)

// SealAudit adds up what the units found, and fails with fault.Drift where something was left as it is.
func (r *Run) SealAudit(ctx context.Context) (err error) {
	fixed, err := run.ReadKept(ctx, r.BaseRun(), run.AuditPlanFile)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil || fault.Is(err, fault.Drift) { // nothing follows: no purge or deletion waits for it
			r.leaseGeneration(ctx, fixed.Generation, time.Millisecond)
		}
	}()
	defer r.holdGeneration(ctx, fixed.Generation)()
	var all audit.Result
	damaged := map[string]bool{}
	for unit, err := range run.ReadEach(ctx, r.BaseRun(), len(fixed.Parts), run.AuditedFile) {
		if err != nil {
			return err
		}
		all.Merge(newDamage(unit, damaged))
		r.Progress.Touch()
	}
	if !all.Unread {
		err := r.auditWhole(ctx, fixed, &all)
		if err == nil && fixed.Repair && fixed.Sample.IsWhole() { // a collection that was lost is there again
			err = r.loadVectors(ctx, fixed.Manifest)
		}
		if artifact.IsDamage(err) {
			err = errors.Join(r.checkKept(ctx, fixed.Generation), err)
		}
		if err != nil {
			return err
		}
	}
	report := core.Audit{
		Generation: fixed.Generation, Sample: fixed.Sample.String(), Repair: fixed.Repair, Checked: all.Checked,
		Drift: append([]core.Drift{}, all.Drift...), Findings: append([]core.Found{}, all.Findings...),
	}
	for _, drift := range all.Drift {
		report.Left += drift.Found - drift.Mended
	}
	if err := run.AuditFile.Write(ctx, r.Scratch, report); err != nil || report.Left == 0 {
		return err
	}
	return newDriftedError(r.Name(), report)
}

// newDamage returns a unit's result without the damage of segments that another unit reported.
func newDamage(unit audit.Result, seen map[string]bool) audit.Result {
	out := audit.Result{Checked: unit.Checked, Content: unit.Content, Unread: unit.Unread}
	for _, drift := range unit.Drift {
		if drift.Kind != core.DriftSegment {
			out.Drift = append(out.Drift, drift)
		}
	}
	for _, found := range unit.Findings {
		switch {
		case found.Kind != core.DriftSegment:
			out.Findings = append(out.Findings, found)
		case !seen[found.Object]: // a unit ends with the first segment that it cannot read
			seen[found.Object] = true
			out.AddFinding(found, false)
		}
	}
	return out
}

// auditWhole compares what only all units together tell: that every row that counts is in some vectors segment, and,
// where nothing was left out, the content hash.
func (r *Run) auditWhole(ctx context.Context, fixed run.AuditPlan, all *audit.Result) error {
	manifest, err := r.Index.Manifest(ctx, fixed.Manifest)
	if err != nil {
		return err
	}
	table, err := r.OpenTable(ctx, manifest)
	if err != nil {
		return err
	}
	defer table.Release()
	var wanted int64
	for class := range table.ClassesLeft(nil) {
		if fixed.Sample.Holds(class.ID[:]) {
			wanted++
		}
	}
	for chunk := range table.ChunksLeft(nil) {
		if fixed.Sample.Holds(chunk.ID[:]) {
			wanted += int64(chunk.Windows)
		}
	}
	if wanted > all.Checked.Vectors { // a row may lie in several segments
		all.AddFinding(core.Found{
			Kind: core.DriftVector, Object: fixed.Generation, Remedy: r.Index.AdviseRebuild(),
			Why: fmt.Sprintf("%d vectors count, and its vectors segments hold %d of them", wanted, all.Checked.Vectors),
		}, false)
	}
	if !fixed.Sample.IsWhole() {
		return nil
	}
	if made, documents := manifest.Hashes.Content, table.CountDocuments(); made != all.Content ||
		documents != all.Checked.Documents {
		all.AddFinding(core.Found{
			Kind: core.DriftHash, Object: fixed.Generation, Remedy: r.Index.AdviseRebuild(),
			Why: fmt.Sprintf("its manifest has content hash %s of %d documents; its segments give %s of %d",
				made.Digest(), documents, all.Content.Digest(), all.Checked.Documents),
		}, false)
	}
	return nil
}

// newDriftedError returns the error of an audit that left something as it is: the first finding of each kind, and what
// to do.
func newDriftedError(run string, report core.Audit) error {
	var seen, remedies []string
	kinds := map[string]bool{}
	for _, found := range report.Findings {
		if found.Remedy == "" || kinds[found.Kind] {
			continue
		}
		kinds[found.Kind] = true
		seen = append(seen, fmt.Sprintf("%s %s: %s", found.Kind, found.Object, found.Why))
		if !strings.Contains(strings.Join(remedies, "; "), found.Remedy) {
			remedies = append(remedies, found.Remedy)
		}
	}
	return fault.Drift.At("audit", run).
		Because(fmt.Sprintf("%d differences remain in generation %s: %s",
			report.Left, report.Generation, strings.Join(seen, "; "))).
		Advise(strings.Join(remedies, "; "))
}
