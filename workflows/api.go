// Package workflows orchestrates builds: order, fan-out, options, ids, progress, pause. It is deterministic and reaches
// no technology; what it passes around are references, counts and codes, never text (docs/reference/formats.md,
// Workflows and Invariants).
package workflows

import (
	"strings"
	"time"
)

// TaskQueue is the default queue of workers and starters.
const TaskQueue = "unweaver"

// ComputingQueue returns the task queue, beside that of a run, of its activities that fill a core: those that wait for
// models and stores do not keep them from starting, nor they those.
func ComputingQueue(queue string) string { return queue + "-cpu" }

// Prefixes of workflow ids, and of the generations that name a restore, an audit and a round of retry-failed.
const (
	buildPrefix       = "build/"
	restorePrefix     = "restore/"
	auditPrefix       = "audit/"
	RestoreGeneration = "restore-"
	AuditGeneration   = "audit-"
	RetryGeneration   = "retry-" // of a build that asks again for what failed, and for nothing else
	PurgeGeneration   = "purge-" // of a build that does nothing but a purge
	HintsGeneration   = "hints-" // of a build of the objects that hints name

	backfillPrefix     = "backfill/"
	BackfillGeneration = "backfill-" // of the payments of a backfill, and of the builds that publish it
)

// BuildID returns the id of a build's workflow.
func BuildID(index, generation string) string { return buildPrefix + index + "/" + generation }

// RestoreID returns the id of a restore: an index has one at a time.
func RestoreID(index string) string { return restorePrefix + index }

// AuditID returns the id of an audit: an index has one at a time.
func AuditID(index string) string { return auditPrefix + index }

// BackfillID returns the id of a backfill: a name of an index has one at a time.
func BackfillID(index, name string) string { return backfillPrefix + index + "/" + name }

// BackfillRun returns how people and commands name a backfill.
func BackfillRun(index, name string) string { return index + "/" + backfillPrefix + name }

// ForBackfill reports whether a run, index/generation, is a build that publishes a backfill.
func ForBackfill(run string) bool { return generationBegins(run, BackfillGeneration) }

// Yields reports whether a run, index/generation, gives the lease up to any other build and begins again later: it
// publishes a backfill, or follows hints.
func Yields(run string) bool { return ForBackfill(run) || generationBegins(run, HintsGeneration) }

// ForRetry reports whether a run, index/generation, is a round of retry-failed.
func ForRetry(run string) bool { return generationBegins(run, RetryGeneration) }

// ForPurge reports whether a run, index/generation, does nothing but a purge.
func ForPurge(run string) bool { return generationBegins(run, PurgeGeneration) }

func generationBegins(run, prefix string) bool {
	_, generation, _ := strings.Cut(run, "/")
	return strings.HasPrefix(generation, prefix)
}

// WorkflowID returns the id of the workflow of a run that people name index/generation. A generation that begins with
// "restore-" is a restore, one that begins with "audit-" an audit, so no build may be given such a name.
func WorkflowID(run string) string {
	index, generation, _ := strings.Cut(run, "/")
	if name, ok := strings.CutPrefix(generation, backfillPrefix); ok {
		return BackfillID(index, name)
	}
	if strings.HasPrefix(generation, RestoreGeneration) {
		return RestoreID(index)
	}
	if strings.HasPrefix(generation, AuditGeneration) {
		return AuditID(index)
	}
	return BuildID(index, generation)
}

// Names of workflows: constants, so that renaming a function breaks no run.
const (
	BuildIndexName = "BuildIndex"
	StageName      = "Stage"
	ShardName      = "ExtractShard"
	RestoreName    = "Restore"
	AuditName      = "Audit"
	NotifyName     = "Notify"
	NightlyName    = "Nightly"
	BackfillName   = "Backfill"
)

// Names of activities: verb and object, unique in the module.
const (
	TakeLease        = "TakeLease"
	PlanBuild        = "PlanBuild"
	BeginStage       = "BeginStage"
	ChunkDocuments   = "ChunkDocuments"
	MeasureFleet     = "MeasureFleet"
	SealChunks       = "SealChunks"
	ExtractChunks    = "ExtractChunks"
	SealShard        = "SealShard"
	SealExtraction   = "SealExtraction"
	ReducePartition  = "ReducePartition"
	ShortenPartition = "ShortenPartition"
	EmbedPart        = "EmbedPart"
	LoadPart         = "LoadPart"
	ImportVectors    = "ImportVectors"
	PayBatches       = "PayBatches"
	WritePiece       = "WritePiece"
	EnrichPart       = "EnrichPart"
	SealEnrichment   = "SealEnrichment"
	WriteSegments    = "WriteSegments"
	VerifyPart       = "VerifyPart"
	PublishBuild     = "PublishBuild"
	CollectGarbage   = "CollectGarbage"
	EndBuild         = "EndBuild"
	SteerRun         = "SteerRun"
	OpenRestore      = "OpenRestore"
	RestorePart      = "RestorePart"
	RepairPart       = "RepairPart"
	SealRepair       = "SealRepair"
	SealRestore      = "SealRestore"
	EndRestore       = "EndRestore"
	OpenAudit        = "OpenAudit"
	AuditPart        = "AuditPart"
	SealAudit        = "SealAudit"
	EndAudit         = "EndAudit"
	SendNotice       = "SendNotice"
	OpenNight        = "OpenNight"
	OpenBackfill     = "OpenBackfill"
	PayBackfill      = "PayBackfill"
	AimBackfill      = "AimBackfill"
	NoteBackfill     = "NoteBackfill"
	EndBackfill      = "EndBackfill"
)

// Names of updates, which are the commands of SteerRun as well, and of the query that answers State.
const (
	UpdatePause  = "pause"
	UpdateResume = "resume"
	UpdateCancel = "cancel"
	QueryState   = "state"

	UpdateConcurrency = "concurrency" // of calls in flight, by Limits
	UpdateBudget      = "budget"      // by Budget
	UpdateRates       = "rates"       // requests and tokens a minute, by Limits
)

// Build names a build, a restore or an audit; it is the input of every activity of it.
type Build struct {
	Index            string        `json:"index"`
	Generation       string        `json:"generation"`
	Spec             string        `json:"spec"` // digest of the stored configuration
	Fence            int64         `json:"fence,omitempty"`
	Attempt          int           `json:"attempt,omitempty"`  // round of retry-failed
	Backfill         string        `json:"backfill,omitempty"` // name of the backfill that it pays for or publishes
	ReplaceCorpus    bool          `json:"replace_corpus,omitempty"`
	Rebuild          bool          `json:"rebuild,omitempty"` // what earlier builds wrote is not trusted: see Planned
	Anew             string        `json:"anew,omitempty"`    // reference of the error that had the run begin again
	Heartbeat        time.Duration `json:"heartbeat"`         // after so long without one, another worker has the activity
	Shape            Shape         `json:"shape"`             // zero values: see Shape
	Budget           *Budget       `json:"budget,omitempty"`
	SearchAttributes bool          `json:"search_attributes,omitempty"` // the server knows them: see visibility.Register
}

// Budget is what a run may spend in all, from its beginning. A zero is a limit that is not given: the one before
// stands.
type Budget struct {
	Calls  int64   `json:"calls,omitempty"`
	Tokens int64   `json:"tokens,omitempty"`
	Money  float64 `json:"money,omitempty"`
}

// LayOver lays b over an older budget: what b gives counts, the rest is the older one's. A nil b changes nothing.
func (b *Budget) LayOver(older Budget) Budget {
	if b == nil {
		return older
	}
	if b.Calls != 0 {
		older.Calls = b.Calls
	}
	if b.Tokens != 0 {
		older.Tokens = b.Tokens
	}
	if b.Money != 0 {
		older.Money = b.Money
	}
	return older
}

// isNegative reports whether a budget is below zero.
func (b *Budget) isNegative() bool { return b != nil && (b.Calls < 0 || b.Tokens < 0 || b.Money < 0) }

// Limits of calls to models that a run is given while it runs, over all workers. What is nil stays as it was.
type Limits struct {
	Concurrency       *int `json:"concurrency,omitempty"`         // calls in flight to an endpoint, 1 at least
	RequestsPerMinute *int `json:"requests_per_minute,omitempty"` // 0: none
	TokensPerMinute   *int `json:"tokens_per_minute,omitempty"`   // 0: none
}

// Resume is the input of the update of that name.
type Resume struct {
	Budget *Budget `json:"budget,omitempty"` // more than the run had; needed when it paused because it was spent
}

// Steer is a person's command to a run, written down before the run obeys it.
type Steer struct {
	Build
	Command   string  `json:"command"` // name of an update
	NewBudget *Budget `json:"new_budget,omitempty"`
	NewLimits *Limits `json:"new_limits,omitempty"`
}

// Receipt is returned by what has nothing else to say, an activity or a command: an answer that holds nothing could be
// given by everybody who reaches the engine, whether they have the codec's key or not.
type Receipt struct{}

// Stopped is the answer to a pause and to a cancel, and what SteerRun says of one.
type Stopped struct {
	// InFlight counts the calls to models that were sent and not answered when the command bound: they are paid for and
	// kept. Those of a worker that died count too, since it is unknown what became of them.
	InFlight int64 `json:"in_flight"`
}

// Outcome is the result of a build.
type Outcome struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// Planned is what PlanBuild found.
type Planned struct {
	Unchanged bool   `json:"unchanged"`
	Status    string `json:"status,omitempty"`  // of an unchanged build: problems that remain are reported every night
	Rebuild   bool   `json:"rebuild,omitempty"` // what is there already is not trusted by what follows
	Held      string `json:"held,omitempty"`    // by this gate, before anything is built
	Repair    int    `json:"repair,omitempty"`  // parts to verify, where a store lost its memory
	Units     int    `json:"units"`
	Documents int64  `json:"documents"`
	Spec      string `json:"spec,omitempty"` // digest of the configuration by which the run goes on; empty: as before
}

// Chunked is what SealChunks found: the chunks of each shard.
type Chunked struct {
	Shards []int `json:"shards"`
	Chunks int64 `json:"chunks"`
	Import bool  `json:"import,omitempty"` // vectors are imported after load, not written by it
	Batch  bool  `json:"batch,omitempty"`  // a server's Batch API is asked before extraction

	Spec string `json:"spec,omitempty"` // as in Planned

	Unchanged bool   `json:"unchanged,omitempty"` // the build came to what its parent is: nothing has to be published
	Status    string `json:"status,omitempty"`    // of an unchanged build
}

// Extracted is what SealExtraction found.
type Extracted struct {
	Partitions int `json:"partitions"`
	Pieces     int `json:"pieces,omitempty"` // splits and class runs that are units of work of their own
	Enrich     int `json:"enrich,omitempty"` // parts of the chunks that are enriched
}

// Audited is the input of Audit and of OpenAudit: part Part of Of of everything; zeros stand for all of it.
type Audited struct {
	Build
	Part   int  `json:"part,omitempty"`
	Of     int  `json:"of,omitempty"`
	Repair bool `json:"repair,omitempty"` // what the stores lost is written again
}

// Restored is what OpenRestore and OpenAudit found to do.
type Restored struct {
	Build
	Parts int `json:"parts"`
}

// Unit is one piece of a stage.
type Unit struct {
	Build
	Stage string `json:"stage"`
	N     int    `json:"n"`
	Batch int    `json:"batch,omitempty"` // extract: batch of the shard
}

// UnitResult counts what a unit did.
type UnitResult struct {
	Done int64 `json:"done"`
}

// StageState is written at a stage's beginning.
type StageState struct {
	Build
	Stage string `json:"stage"`
	Total int64  `json:"total"`
}

// End is how a run ends, or that it pauses or waits.
type End struct {
	Build
	Status    string `json:"status"`
	Reason    string `json:"reason,omitempty"`
	Ref       string `json:"ref,omitempty"`    // of the error's text
	Detail    string `json:"detail,omitempty"` // that text, where the workflow made it: numbers, settings
	Unchanged bool   `json:"unchanged,omitempty"`

	Waiting *Waiting `json:"waiting,omitempty"` // of a run that waits
	Warning *Warning `json:"warning,omitempty"` // of a build that did what it was for
}

// Warning is a failure that does not make its run fail.
type Warning struct {
	Code   string `json:"code"`
	Object string `json:"object"`        // stage
	Ref    string `json:"ref,omitempty"` // of the error's text
}

// Statuses that a workflow gives a run. The others (completed_with_errors, held) are PublishBuild's.
const (
	statusRunning   = "running"
	statusPaused    = "paused"
	statusWaiting   = "waiting"
	statusCompleted = "completed"
	statusHeld      = "held"
	statusFailed    = "failed"
	statusCancelled = "cancelled"
)

// State answers QueryState.
type State struct {
	Index      string  `json:"index"`
	Generation string  `json:"generation"`
	Phase      Phase   `json:"phase"`
	Stage      string  `json:"stage"`
	Done       int     `json:"done"`             // units of the stage; while a child runs them, those before it began
	Total      int     `json:"total"`            // units of the stage
	Child      string  `json:"child,omitempty"`  // id of the workflow that runs the units: its State shows more
	Paused     string  `json:"paused,omitempty"` // the code that the run pauses or waits for
	Budget     *Budget `json:"budget,omitempty"` // attached by a resume

	Waiting *Waiting `json:"waiting,omitempty"` // in PhaseWaiting
}
