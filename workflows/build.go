package workflows

import (
	"cmp"

	"go.temporal.io/sdk/workflow"
)

// build is the state of one run of BuildIndex.
type build struct {
	run
	plan    Planned
	chunked Chunked
	parts   Extracted
	outcome Outcome
	warning *Warning // of collect
}

// step is one stage of a build.
type step struct {
	name     string
	activity string // empty: shards
	units    func(*build) int
	total    func(*build) int64 // in what status counts
	items    func(*build) int64 // of one unit
	alone    bool               // one unit is an activity, without a child workflow
}

// steps between plan and publish, in order (docs/reference/formats.md, Workflows).
var steps = []step{
	{"chunk", ChunkDocuments, (*build).countPlanUnits, (*build).countDocuments, (*build).perUnit, false},
	{stageBatch, PayBatches, (*build).countOne, (*build).countChunks, (*build).countChunks, true},
	{"extract", "", (*build).countShards, (*build).countChunks, (*build).perShard, false},
	{"reduce", ReducePartition, (*build).countPartitions, (*build).unitTotal, (*build).perShard, true},
	{"shorten", ShortenPartition, (*build).countPartitions, (*build).unitTotal, (*build).perShard, true},
	{"embed", EmbedPart, (*build).countParts, (*build).bothTotal, (*build).perShard, true},
	{"load", LoadPart, (*build).countParts, (*build).bothTotal, (*build).perShard, true},
	{"segment", WritePiece, (*build).countSegments, (*build).piecesTotal, (*build).perPiece, false},
	{stageEnrich, EnrichPart, (*build).countEnrichments, (*build).enrichedTotal, (*build).perShard, false},
	{"verify", VerifyPart, (*build).countParts, (*build).bothTotal, (*build).perShard, true},
	{"publish", PublishBuild, (*build).countOne, (*build).oneTotal, (*build).countChunks, true},
	{stageCollect, CollectGarbage, (*build).countOne, (*build).oneTotal, (*build).countChunks, true},
}

func (b *build) countOne() int   { return 1 }
func (b *build) oneTotal() int64 { return 1 }

func (b *build) countPlanUnits() int   { return b.plan.Units }
func (b *build) countDocuments() int64 { return b.plan.Documents }
func (b *build) perUnit() int64        { return b.plan.Documents/int64(max(b.plan.Units, 1)) + 1 }

func (b *build) countShards() int   { return len(b.chunked.Shards) }
func (b *build) countChunks() int64 { return b.chunked.Chunks }
func (b *build) perShard() int64    { return int64(b.Shape.ShardChunks) }

func (b *build) countPartitions() int { return b.parts.Partitions }
func (b *build) unitTotal() int64     { return int64(b.parts.Partitions) }

// countSegments returns how many splits and class runs are written side by side; few or none where one unit of work
// writes all.
func (b *build) countSegments() int { return b.parts.Pieces }
func (b *build) piecesTotal() int64 { return int64(b.parts.Pieces) + 1 }
func (b *build) perPiece() int64    { return b.countChunks()/int64(max(b.parts.Pieces, 1)) + b.perShard() }

// countEnrichments returns the number of parts of the chunks that enrichments pay for side by side.
func (b *build) countEnrichments() int { return b.parts.Enrich }
func (b *build) enrichedTotal() int64  { return int64(b.parts.Enrich) + 1 }

// countParts counts class partitions, then chunk shards.
func (b *build) countParts() int  { return b.countPartitions() + b.countShards() }
func (b *build) bothTotal() int64 { return int64(b.countParts()) }

// BuildIndex builds and publishes one generation. Updates: pause, resume, cancel; query: state. It holds under 300
// events for a run that is not paused: everything that grows with the corpus is in stages.
func BuildIndex(ctx workflow.Context, in Build) (Outcome, error) {
	b := &build{run: run{Build: in, endActivity: EndBuild}}
	return b.executeRun(ctx, b.buildIndex)
}

// buildIndex takes the lease and does the stages. It returns how the build ended, or the error that ended it.
func (b *build) buildIndex(ctx workflow.Context) (End, error) {
	if err := b.runPausable(ctx, "lease", func(ctx workflow.Context) error {
		return b.runActivity(ctx, TakeLease, 0, b.Build, &b.Fence)
	}); err != nil {
		return End{}, err
	}
	end, err := b.runStages(ctx)
	if err == nil || ctx.Err() != nil {
		return end, err
	}
	if why := causeOf(err); b.Anew == "" && (why.code == codeParentDamaged || why.code == codeOutgrown) {
		b.beginAnew(why.ref)
		b.Rebuild = b.Rebuild || why.code == codeParentDamaged
		return b.runStages(ctx)
	}
	return end, err
}

// beginAnew resets the build, to run in new scratch.
func (b *build) beginAnew(ref string) {
	if b.Anew = ref; ref == "" {
		b.Anew = "untold"
	}
	b.plan, b.chunked, b.parts, b.outcome = Planned{}, Chunked{}, Extracted{}, Outcome{}
	b.now.tries++ // stages need ids of their own
}

// runStages does what follows the lease.
func (b *build) runStages(ctx workflow.Context) (End, error) {
	if err := b.runPausable(ctx, "plan", func(ctx workflow.Context) error {
		if err := b.beginStage(ctx, "plan", 1); err != nil {
			return err
		}
		return b.runActivity(ctx, PlanBuild, 0, b.Build, &b.plan)
	}); err != nil {
		return End{}, err
	}
	b.Rebuild = b.Rebuild || b.plan.Rebuild
	b.Spec = cmp.Or(b.plan.Spec, b.Spec)
	if b.plan.Held != "" { // by a gate that is known before anything is built
		return End{Status: statusHeld, Reason: b.plan.Held}, nil
	}
	if b.plan.Repair > 0 {
		if err := b.runPausable(ctx, stageRepair, b.repairStores); err != nil {
			return End{}, err
		}
	}
	if b.plan.Unchanged {
		return End{Status: b.plan.Status, Unchanged: true}, nil
	}
	for _, s := range steps {
		if s.name == stageBatch && !b.chunked.Batch || s.name == stageEnrich && b.parts.Enrich == 0 {
			continue
		}
		if err := b.runPausable(ctx, s.name, func(ctx workflow.Context) error {
			return b.downgradeError(ctx, s.name, b.runStep(ctx, s))
		}); err != nil {
			return End{}, err
		}
		if b.chunked.Unchanged {
			return End{Status: b.chunked.Status, Unchanged: true}, nil
		}
		if b.outcome.Status == statusHeld {
			break
		}
	}
	return End{Status: b.outcome.Status, Reason: b.outcome.Reason, Warning: b.warning}, nil
}

// downgradeError makes a warning of what keeps collect from its work: the generation is published, the next night
// collects, and the lease is worth more to it than a run that waits with it.
func (b *build) downgradeError(ctx workflow.Context, stage string, err error) error {
	if stage != stageCollect || err == nil || ctx.Err() != nil {
		return err
	}
	why := causeOf(err)
	if why.code == codePaused || why.code == codeCancelled {
		return err
	}
	b.warning = &Warning{Code: why.code, Object: stage, Ref: why.ref}
	return nil
}

// repairStores verifies everything that the kept generations name against stores that lost their memory, and writes
// again what is missing.
func (b *build) repairStores(ctx workflow.Context) error {
	if err := b.beginStage(ctx, stageRepair, int64(b.plan.Repair)); err != nil {
		return err
	}
	in := StageInput{
		Build: b.Build, Stage: stageRepair, Activity: RepairPart, Units: b.plan.Repair, Items: b.perShard(),
	}
	if err := b.runUnits(ctx, BuildID(b.Index, b.Generation)+"/"+stageRepair, in); err != nil {
		return err
	}
	return b.runActivity(ctx, SealRepair, 1, b.Build, nil)
}

const (
	stageRepair  = "repair" // only there when a store lost its memory
	stageCollect = "collect"
	stageBatch   = "batch"  // only there in mode batch
	stageEnrich  = "enrich" // only there where the configuration names an enrichment
)

// runStep runs one stage and what seals it.
func (b *build) runStep(ctx workflow.Context, s step) error {
	if err := b.beginStage(ctx, s.name, s.total(b)); err != nil {
		return err
	}
	unit := Unit{Build: b.Build, Stage: s.name}
	count := s.units(b)
	switch {
	case s.name == "publish":
		return b.runActivity(ctx, s.activity, s.items(b), unit, &b.outcome)
	case s.name == "segment" && count == 0: // WriteSegments alone
	case count == 1 && s.alone:
		if b.now.left == nil {
			if err := b.runActivity(ctx, s.activity, s.items(b), unit, nil); err != nil {
				return err
			}
			b.now.left = &StageResult{} // a pause in what follows does not run it again
		}
	default:
		in := StageInput{Build: b.Build, Stage: s.name, Activity: s.activity, Units: count, Items: s.items(b)}
		if s.activity == "" {
			in.Sizes = b.chunked.Shards
		}
		if err := b.runUnits(ctx, BuildID(b.Index, b.Generation)+"/"+s.name, in); err != nil {
			return err
		}
	}
	switch {
	case s.name == "chunk":
		err := b.runActivity(ctx, SealChunks, b.plan.Documents, b.Build, &b.chunked)
		b.Spec = cmp.Or(b.chunked.Spec, b.Spec)
		return err
	case s.name == "load" && b.chunked.Import:
		return b.runActivity(ctx, ImportVectors, b.countChunks(), b.Build, nil)
	case s.name == "segment":
		return b.runActivity(ctx, WriteSegments, b.countChunks(), unit, nil)
	case s.name == stageEnrich:
		return b.runActivity(ctx, SealEnrichment, b.countChunks(), b.Build, nil)
	case s.name == "extract":
		return b.runActivity(ctx, SealExtraction, b.countChunks(), b.Build, &b.parts)
	}
	return nil
}
