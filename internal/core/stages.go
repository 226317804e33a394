package core

// Stages of a run, by the names that status, reports and workflows show.
const (
	StagePlan    = "plan"
	StageRepair  = "repair" // only where a store lost its memory
	StageChunk   = "chunk"
	StageBatch   = "batch" // only in mode batch
	StageExtract = "extract"
	StageReduce  = "reduce"
	StageShorten = "shorten"
	StageEmbed   = "embed"
	StageLoad    = "load"
	StageImport  = "import" // only where a vector store imports
	StageSegment = "segment"
	StageEnrich  = "enrich" // only where the configuration names an enrichment
	StageVerify  = "verify"
	StagePublish = "publish"
	StageCollect = "collect"
	StageRestore = "restore" // a separate run
	StageAudit   = "audit"   // a separate run
)

// Stage is a row of the table of stages.
type Stage struct {
	Name   string
	Weight float64 // its usual share of a build's time, in per cent
}

// Stages in the order of a build.
var Stages = []Stage{
	{StagePlan, 1},
	{StageRepair, 0},
	{StageChunk, 3},
	{StageBatch, 0},
	{StageExtract, 70},
	{StageReduce, 4},
	{StageShorten, 3},
	{StageEmbed, 8},
	{StageLoad, 7},
	{StageImport, 0},
	{StageSegment, 2},
	{StageEnrich, 0},
	{StageVerify, 1},
	{StagePublish, 0.5},
	{StageCollect, 0.5},
}
