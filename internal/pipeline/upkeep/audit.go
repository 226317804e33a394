package upkeep

import (
	"context"
	"encoding/hex"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/audit"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/stage/verify"
)

// AuditFolder is the scratch folder of an audit, which has no fence.
const AuditFolder = "audit"

// OpenAudit lists what a part of the served generation is made of, and gives the number of units.
func (r *Run) OpenAudit(ctx context.Context, sample core.Sample, repair bool) (int, error) {
	fixed, err := run.MakeOnce(ctx, r.BaseRun(), run.AuditPlanFile, func(ctx context.Context) (run.AuditPlan, error) {
		return r.planAudit(ctx, sample, repair)
	})
	if err != nil {
		return 0, err
	}
	r.leaseGeneration(ctx, fixed.Generation, auditLease)
	return len(fixed.Parts), nil
}

func (r *Run) planAudit(ctx context.Context, sample core.Sample, repair bool) (run.AuditPlan, error) {
	fixed := run.AuditPlan{Sample: sample, Repair: repair}
	current, _, err := r.Index.ReadPointer(ctx)
	if err != nil {
		return fixed, err
	}
	if current.Manifest == "" {
		return fixed, fault.UnknownIndex.At("audit", r.Job.Index).
			Because("the index has no published generation").
			Advise("build it with: unweaver index")
	}
	fixed.Manifest, fixed.Generation = current.Manifest, current.Generation
	manifest, err := r.Index.Manifest(ctx, current.Manifest)
	if err != nil {
		return fixed, err
	}
	if err := r.ReopenVectors(ctx, manifest.Collections); err != nil {
		return fixed, err
	}
	if repair && !sample.IsWhole() { // it would fill a part of a lost collection, which the next process would search
		stores, err := unit.ReadIdentities(ctx, r.Records, r.Vectors, manifest.Collections)
		if err == nil && (stores.Classes == "" || stores.Chunks == "") {
			err = fault.Drift.At("audit", r.Job.Index).
				Because("the vector store lost more than a repair of the sample can restore").
				Advise("run: unweaver restore " + r.Job.Index)
		}
		if err != nil {
			return fixed, err
		}
	}
	fixed.Parts, err = auditParts(current.Manifest, manifest, sample)
	return fixed, err
}

// auditParts lists the files and documents segments whose sums the sample holds, and the partitions and parts of stores
// that may have ids of it.
func auditParts(sha string, manifest *core.Manifest, sample core.Sample) (parts []run.Part, err error) {
	var stores []run.Part
	for _, part := range unit.PartsOf(sha, manifest) {
		if part.Check == run.CheckStore {
			stores = append(stores, part)
			continue
		}
		sum, err := hex.DecodeString(part.Unit.Segment.SHA256)
		if err != nil || len(sum) < 8 {
			return nil, fault.SegmentDamage.At("audit", manifest.Generation).
				Because("its manifest names a segment that is not a sha256: " + fault.QuoteName(part.Unit.Segment.SHA256))
		}
		if !sample.Holds(sum) {
			continue
		}
		parts = append(parts, part)
		if part.Kind == "documents" {
			part.Check = run.CheckDocuments
			parts = append(parts, part)
		}
	}
	return slices.Concat(parts, auditPartitions(manifest, sample), stores), nil
}

// auditPartitions cuts the classes of a generation.
func auditPartitions(manifest *core.Manifest, sample core.Sample) []run.Part {
	partitions := 1
	for partitions < unit.MaxPartitions && manifest.Counts.Mentions > int64(partitions)*unit.MentionsPerPartition {
		partitions *= 2
	}
	var parts []run.Part
	for partition := range partitions {
		if _, _, some := auditBounds(partitions, sample, partition); some {
			parts = append(parts, run.Part{
				Check: run.CheckClasses, Kind: "classes", Partition: partition, Partitions: partitions,
			})
		}
	}
	return parts
}

// auditBounds gives the raw class ids of a partition that are in a sample, and reports whether there can be any.
func auditBounds(partitions int, sample core.Sample, partition int) (from, to string, some bool) {
	from, to = reduce.PartitionBounds(partition, partitions)
	first, end := sample.Bounds()
	from = max(from, first)
	if to == "" || end != "" && end < to {
		to = end
	}
	return from, to, to == "" || from < to
}

// AuditPart looks at one unit. What has drifted is written down for SealAudit; a unit of a repair that finds records or
// rows missing or wrong writes them again.
func (r *Run) AuditPart(ctx context.Context, number int) (audit.Result, error) {
	file := run.AuditedFile(number)
	return unit.FinishUnit(ctx, r.Run.Run, file, func(
		ctx context.Context, progress *core.Progress,
	) (audit.Result, error) {
		fixed, err := run.ReadKept(ctx, r.BaseRun(), run.AuditPlanFile)
		if err != nil {
			return audit.Result{}, err
		}
		defer r.holdGeneration(ctx, fixed.Generation)()
		part := fixed.Parts[number]
		progress.Bytes = part.Unit.Segment.Bytes
		going := r.checkKept(ctx, fixed.Generation)
		if going != nil && (!fault.Is(going, fault.GenCollected) || fixed.Repair && part.Check == run.CheckStore) {
			return audit.Result{}, going // nothing would delete what it wrote
		}
		result, err := r.auditPart(ctx, fixed, part, progress)
		switch {
		case artifact.IsDamage(err):
			err = r.noteUnreadable(ctx, fixed, part, err, &result)
		case err == nil && part.Check == run.CheckStore && len(result.Drift) > 0:
			err = going // what is missing may have been collected
		}
		return result, err
	})
}

func (r *Run) auditPart(
	ctx context.Context, fixed run.AuditPlan, part run.Part, progress *core.Progress,
) (result audit.Result, err error) {
	if part.Check == run.CheckFile {
		result.Checked.Segments, result.Checked.Bytes = 1, part.Unit.Segment.Bytes
		return result, r.CheckFile(ctx, part.Unit.Segment)
	}
	manifest, err := r.Index.Manifest(ctx, fixed.Manifest)
	if err != nil {
		return result, err
	}
	if part.Check == run.CheckStore {
		return r.auditStore(ctx, fixed, part, manifest, progress)
	}
	table, err := r.OpenTable(ctx, manifest)
	if err != nil {
		return result, err
	}
	defer table.Release()
	settings, err := r.Index.Spec(ctx, manifest.Spec)
	if err != nil {
		return result, err
	}
	free, err := r.TakePlace(ctx)
	if err != nil {
		return result, err
	}
	defer free()
	in := audit.In{Spec: settings, Artifacts: r.Index, Manifest: manifest, Table: table, OnProgress: r.Progress.Touch}
	if part.Check == run.CheckDocuments {
		dead, err := deadDocuments(manifest, table, part.Unit.Segment)
		if err != nil {
			return result, err
		}
		return audit.AuditDocuments(ctx, in, part.Unit.Segment, dead)
	}
	source, err := auditSource(manifest, table)
	if err != nil {
		return result, err
	}
	from, to, _ := auditBounds(part.Partitions, fixed.Sample, part.Partition)
	return audit.AuditClasses(ctx, in, source, from, to)
}

// deadDocuments says which rows of a documents segment do not count; nil of all none.
func deadDocuments(
	manifest *core.Manifest, table *stored.Table, segment core.Segment,
) (func(row int) bool, error) {
	for _, one := range manifest.Segments.Splits {
		if segment.Part < one.Text || segment.Part >= one.Text+one.Texts {
			continue
		}
		parts, err := stored.SelectParts(manifest.Segments.Documents, "documents", one.Text, one.Texts)
		if err != nil {
			return nil, err
		}
		first := 0
		for _, part := range parts[:segment.Part-one.Text] {
			first += int(part.Rows)
		}
		if dead := table.DeadRows(one.SHA256); dead != nil {
			return func(row int) bool { return dead(first + row) }, nil
		}
		return nil, nil
	}
	return nil, nil
}

// auditSource returns where the mentions and classes of a generation lie.
func auditSource(manifest *core.Manifest, table *stored.Table) (source audit.Source, err error) {
	listed := manifest.Segments
	for number, one := range listed.Splits {
		parts, err := stored.SelectParts(listed.Mentions, "mentions", one.Extract, one.Extracts)
		if err != nil {
			return source, err
		}
		file, dead := table.Splits[number], table.DeadRows(one.SHA256)
		for i, part := range parts {
			base := int64(segment.FirstChunk(file, i))
			source.Mentions = append(source.Mentions, audit.Part{Segment: part, Dead: func(chunk int64) bool {
				at := base + chunk
				return at < 0 || at >= int64(len(file.Chunks)) || dead != nil && dead(int(file.Chunks[at].Document))
			}})
		}
	}
	for _, one := range listed.Runs {
		parts, err := stored.SelectParts(listed.Classes, "classes", one.Classes, one.Parts)
		if err != nil {
			return source, err
		}
		dead, first := table.DeadRows(one.SHA256), int64(0)
		for _, part := range parts {
			next := audit.Part{Segment: part}
			if base := first; dead != nil {
				next.Dead = func(row int64) bool { return dead(int(base + row)) }
			}
			source.Classes = append(source.Classes, next)
			first += part.Rows
		}
	}
	return source, nil
}

// auditStore looks whether a store has what a segment says, and writes it again where that is wanted.
func (r *Run) auditStore(
	ctx context.Context, fixed run.AuditPlan, part run.Part, manifest *core.Manifest, progress *core.Progress,
) (audit.Result, error) {
	var result audit.Result
	kind, remedy := core.DriftVector, "unweaver audit "+r.Job.Index+" --repair"
	if part.Unit.Kind == verify.Records {
		kind = core.DriftRecord
	}
	if fixed.Repair {
		remedy = ""
	}
	found, err := r.CheckStore(ctx, verify.In{
		Manifest: manifest, Unit: part.Unit,
		Within:   func(id core.ID) bool { return fixed.Sample.Holds(id[:]) },
		Compare:  true,
		ReadOnly: !fixed.Repair,
		Found: func(drifted verify.Finding) {
			why := "it is missing from the store"
			if drifted.Wrong {
				why = "the store has different content under its key"
			}
			result.AddFinding(core.Found{Kind: kind, Object: drifted.Key, Why: why, Remedy: remedy}, fixed.Repair)
		},
	})
	if kind == core.DriftRecord {
		result.Checked.Records, progress.Written.Records = found.Checked, found.Rewritten
	} else {
		result.Checked.Vectors, progress.Written.Rows = found.Checked, found.Rewritten
	}
	return result, err
}

// noteUnreadable notes that a segment cannot be read, unless its generation was collected meanwhile.
func (r *Run) noteUnreadable(
	ctx context.Context, fixed run.AuditPlan, part run.Part, cause error, result *audit.Result,
) error {
	if err := r.checkKept(ctx, fixed.Generation); err != nil {
		return err
	}
	object := r.Artifacts.Location(r.Index.SegmentKey(part.Unit.Segment.SHA256))
	if seen := fault.As(cause); seen != nil && seen.Object != "" {
		object = seen.Object
	}
	result.Unread = true
	result.AddFinding(core.Found{
		Kind: core.DriftSegment, Object: object, Why: part.Kind + ": " + cause.Error(), Remedy: r.Index.AdviseRebuild(),
	}, false)
	return nil
}
