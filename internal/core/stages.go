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
	Paid   bool    // it pays for model calls
}

// Stages in the order of a build.
var Stages = []Stage{
	{StagePlan, 1, false},
	{StageRepair, 0, false},
	{StageChunk, 3, false},
	{StageBatch, 0, true},
	{StageExtract, 70, true},
	{StageReduce, 4, false},
	{StageShorten, 3, true},
	{StageEmbed, 8, true},
	{StageLoad, 7, false},
	{StageImport, 0, false},
	{StageSegment, 2, false},
	{StageEnrich, 0, true},
	{StageVerify, 1, false},
	{StagePublish, 0.5, false},
	{StageCollect, 0.5, false},
}
