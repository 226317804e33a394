// Package workflows orchestrates builds: order, fan-out, options, ids, progress, pause. It is deterministic and reaches
// no technology; what it passes around are references, counts and codes, never text (DESIGN §6, §11.10).
package workflows

import "time"

// TaskQueue is the default queue of workers and starters.
const TaskQueue = "unweaver"

// BuildID is the id of a build's workflow.
func BuildID(index, generation string) string { return "build/" + index + "/" + generation }

// RestoreID is the id of a restore.
func RestoreID(index string) string { return "restore/" + index }

// Names of workflows: constants, so that renaming a function breaks no run.
const (
	BuildIndexName = "BuildIndex"
	StageName      = "Stage"
	ShardName      = "ExtractShard"
	RestoreName    = "Restore"
)

// Names of activities: verb and object, unique in the module.
const (
	TakeLease        = "TakeLease"
	PlanBuild        = "PlanBuild"
	BeginStage       = "BeginStage"
	ChunkDocuments   = "ChunkDocuments"
	SealChunks       = "SealChunks"
	ExtractChunks    = "ExtractChunks"
	SealShard        = "SealShard"
	SealExtraction   = "SealExtraction"
	EstimateShard    = "EstimateShard"
	ReducePartition  = "ReducePartition"
	ShortenPartition = "ShortenPartition"
	EmbedPart        = "EmbedPart"
	LoadPart         = "LoadPart"
	ImportVectors    = "ImportVectors"
	WriteSegments    = "WriteSegments"
	VerifyPart       = "VerifyPart"
	PublishBuild     = "PublishBuild"
	CollectGarbage   = "CollectGarbage"
	EndBuild         = "EndBuild"
	SetPaused        = "SetPaused"
	OpenRestore      = "OpenRestore"
	RestorePart      = "RestorePart"
	EndRestore       = "EndRestore"
)

// Names of updates.
const (
	UpdatePause  = "pause"
	UpdateResume = "resume"
)

// Build names a build; it is the input of every activity of it.
type Build struct {
	Index         string        `json:"index"`
	Generation    string        `json:"generation"`
	Spec          string        `json:"spec"` // digest of the stored configuration
	Fence         int64         `json:"fence,omitempty"`
	Attempt       int           `json:"attempt,omitempty"` // round of retry-failed
	DryRun        bool          `json:"dry_run,omitempty"`
	ReplaceCorpus bool          `json:"replace_corpus,omitempty"`
	Heartbeat     time.Duration `json:"heartbeat"` // after this long without one, an activity is given to another worker
}

// Outcome is the result of a build.
type Outcome struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// Planned is what PlanBuild found.
type Planned struct {
	Unchanged bool  `json:"unchanged"`
	Units     int   `json:"units"`
	Documents int64 `json:"documents"`
}

// Chunked is what SealChunks found: the chunks of each shard.
type Chunked struct {
	Shards []int `json:"shards"`
	Chunks int64 `json:"chunks"`
	Import bool  `json:"import,omitempty"` // vectors are imported after load, not written by it
}

// Extracted is what SealExtraction found.
type Extracted struct {
	Partitions int `json:"partitions"`
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

// End is how a build ends.
type End struct {
	Build
	Status    string `json:"status"`
	Reason    string `json:"reason,omitempty"`
	Ref       string `json:"ref,omitempty"` // of the error's text
	Unchanged bool   `json:"unchanged,omitempty"`
}

// BatchChunks is how many chunks one extraction activity works on; ShardChunks how many a shard holds.
const (
	BatchChunks = 64
	ShardChunks = 5000
)
