package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// build is the state of one run of BuildIndex.
type build struct {
	Build
	paused  string // code; empty while running
	tries   int    // of stages: a resumed stage needs an id of its own
	plan    Planned
	chunked Chunked
	parts   Extracted
	stage   string
}

// step is one stage of a build.
type step struct {
	name     string
	activity string // empty: shards
	units    func(*build) int
	total    func(*build) int64
	window   int
}

// steps between plan and publish, in order (DESIGN §6). A single-unit step is an activity of its own.
var steps = []step{
	{
		"chunk",
		ChunkDocuments,
		func(b *build) int { return b.plan.Units },
		func(b *build) int64 { return b.plan.Documents },
		8,
	},
	{
		"extract",
		"",
		func(b *build) int { return len(b.chunked.Shards) },
		func(b *build) int64 { return b.chunked.Chunks },
		4,
	},
	{"reduce", ReducePartition, (*build).partitions, (*build).unitTotal, 8},
	{"shorten", ShortenPartition, (*build).partitions, (*build).unitTotal, 8},
	{"embed", EmbedPart, (*build).both, (*build).bothTotal, 8},
	{"load", LoadPart, (*build).both, (*build).bothTotal, 4},
	{"segment", WriteSegments, one, func(*build) int64 { return 1 }, 1},
	{"verify", VerifyPart, (*build).both, (*build).bothTotal, 4},
	{"publish", PublishBuild, one, func(*build) int64 { return 1 }, 1},
	{"collect", CollectGarbage, one, func(*build) int64 { return 1 }, 1},
}

func one(*build) int { return 1 }

func (b *build) partitions() int  { return b.parts.Partitions }
func (b *build) unitTotal() int64 { return int64(b.parts.Partitions) }

// both counts class partitions, then chunk shards.
func (b *build) both() int        { return b.parts.Partitions + len(b.chunked.Shards) }
func (b *build) bothTotal() int64 { return int64(b.both()) }

// BuildIndex builds and publishes one generation. Updates: pause, resume. It holds under 300 events: everything that
// grows with the corpus is in stages.
func BuildIndex(ctx workflow.Context, in Build) (Outcome, error) {
	b := &build{Build: in}
	if err := b.updates(ctx); err != nil {
		return Outcome{}, err
	}
	end, err := b.run(ctx)
	if err != nil {
		end = b.ended(ctx, err)
	}
	// The end must be recorded even when the run was cancelled.
	dctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if err := workflow.ExecuteActivity(quick(dctx), EndBuild, end).Get(dctx, nil); err != nil {
		return Outcome{}, err
	}
	if end.Status == "cancelled" {
		return Outcome{}, temporal.NewCanceledError()
	}
	return Outcome{Status: end.Status, Reason: end.Reason}, nil
}

func (b *build) updates(ctx workflow.Context) error {
	err := workflow.SetUpdateHandler(ctx, UpdatePause, func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(quick(ctx), SetPaused, b.Build, true).Get(ctx, nil)
	})
	return errors.Join(err, workflow.SetUpdateHandler(ctx, UpdateResume, func(ctx workflow.Context) error {
		if err := workflow.ExecuteActivity(quick(ctx), SetPaused, b.Build, false).Get(ctx, nil); err != nil {
			return err
		}
		b.paused = ""
		return nil
	}))
}

// run does the stages. It returns how the build ended, or the error that ended it.
func (b *build) run(ctx workflow.Context) (End, error) {
	if err := workflow.ExecuteActivity(quick(ctx), TakeLease, b.Build).Get(ctx, &b.Fence); err != nil {
		return End{}, err
	}
	if err := b.pausable(ctx, "plan", func(ctx workflow.Context) error {
		if err := b.begin(ctx, "plan", 1); err != nil {
			return err
		}
		return workflow.ExecuteActivity(long(ctx, b.Build), PlanBuild, b.Build).Get(ctx, &b.plan)
	}); err != nil {
		return End{}, err
	}
	if b.plan.Unchanged {
		return End{Build: b.Build, Status: "completed", Unchanged: true}, nil
	}
	out := Outcome{}
	for _, s := range steps {
		if b.DryRun && s.name == "extract" {
			s.activity = EstimateShard
		}
		if b.DryRun && s.name == "reduce" {
			return End{Build: b.Build, Status: "completed", Reason: "dry_run"}, nil
		}
		if err := b.pausable(ctx, s.name, func(ctx workflow.Context) error { return b.step(ctx, s, &out) }); err != nil {
			return End{}, err
		}
		if out.Status == "held" {
			break
		}
	}
	return End{Build: b.Build, Status: out.Status, Reason: out.Reason}, nil
}

// step runs one stage and what seals it.
func (b *build) step(ctx workflow.Context, s step, out *Outcome) error {
	n := s.units(b)
	if err := b.begin(ctx, s.name, s.total(b)); err != nil {
		return err
	}
	unit := Unit{Build: b.Build, Stage: s.name}
	switch {
	case s.name == "publish":
		return workflow.ExecuteActivity(long(ctx, b.Build), s.activity, unit).Get(ctx, out)
	case n == 1 && s.activity != "" && s.name != "chunk":
		if err := workflow.ExecuteActivity(long(ctx, b.Build), s.activity, unit).Get(ctx, nil); err != nil {
			return err
		}
	default:
		id := fmt.Sprintf("%s/%s", BuildID(b.Index, b.Generation), s.name)
		if b.tries > 0 {
			id += fmt.Sprintf("/retry-%02d", b.tries)
		}
		in := StageInput{Build: b.Build, Stage: s.name, Activity: s.activity, Units: n, Window: s.window}
		if s.activity == "" {
			in.Sizes = b.chunked.Shards
		}
		if err := workflow.ExecuteChildWorkflow(child(ctx, id), StageName, in).Get(ctx, nil); err != nil {
			return err
		}
	}
	switch {
	case s.name == "chunk":
		return workflow.ExecuteActivity(long(ctx, b.Build), SealChunks, b.Build).Get(ctx, &b.chunked)
	case s.name == "load" && b.chunked.Import:
		return workflow.ExecuteActivity(long(ctx, b.Build), ImportVectors, b.Build).Get(ctx, nil)
	case s.name == "extract" && !b.DryRun:
		return workflow.ExecuteActivity(long(ctx, b.Build), SealExtraction, b.Build).Get(ctx, &b.parts)
	}
	return nil
}

func (b *build) begin(ctx workflow.Context, stage string, total int64) error {
	b.stage = stage
	return workflow.ExecuteActivity(quick(ctx), BeginStage, StageState{Build: b.Build, Stage: stage, Total: total}).
		Get(ctx, nil)
}

// pausable runs f; while it fails with a code that a person can mend, the build waits to be resumed and runs it again.
func (b *build) pausable(ctx workflow.Context, stage string, f func(workflow.Context) error) error {
	for {
		err := f(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		code, ref := failure(err)
		if !pausing[code] {
			return err
		}
		b.paused = code
		b.tries++
		st := End{Build: b.Build, Status: "paused", Reason: code, Ref: ref}
		if err := workflow.ExecuteActivity(quick(ctx), EndBuild, st).Get(ctx, nil); err != nil {
			return err
		}
		if err := workflow.Await(ctx, func() bool { return b.paused == "" }); err != nil {
			return err
		}
	}
}

// ended describes a build that an error ended.
func (b *build) ended(ctx workflow.Context, err error) End {
	code, ref := failure(err)
	if ctx.Err() != nil || code == "cancelled" {
		return End{Build: b.Build, Status: "cancelled", Reason: "cancelled"}
	}
	return End{Build: b.Build, Status: "failed", Reason: code, Ref: ref}
}
