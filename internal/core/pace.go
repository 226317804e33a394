package core

import (
	"maps"
	"time"
)

// Pace is how far the running stage of a run is, and how fast it gets on.
type Pace struct {
	Done    int64   // pieces of the stage
	Share   float64 // of its work, 0 to 1: by bytes where these are known, else by pieces
	Rate    float64 // pieces a second, over the processes that get on now; 0: nothing moves
	Seconds float64 // that the rest of the stage takes at this pace; 0: unknown
}

// UnitNames returns what the pieces of a stage are called, one and many.
func UnitNames(stage string) (one, many string) {
	switch stage {
	case StagePlan, StageChunk:
		return "document", "documents"
	case StageBatch, StageExtract:
		return "chunk", "chunks"
	case StageImport:
		return "row", "rows"
	case StageSegment, StagePublish, StageCollect:
		return "step", "steps"
	case StageEmbed:
		return "text", "texts"
	}
	return "part", "parts"
}

// Shares of a build's time that stages take without an earlier run: with built-in models, and with models that are
// asked over a network. Extraction is nearly all of the latter.
var builtinWeights = map[string]float64{
	StagePlan: 1, StageChunk: 15, StageExtract: 35, StageReduce: 5, StageShorten: 2, StageEmbed: 1, StageLoad: 26,
	StageSegment: 10, StageVerify: 3, StagePublish: 1, StageCollect: 2,
}

// insideWeight is what embedding weighs beside them where an embedder inside does it.
const insideWeight = 300

// weighStages returns the weights of the stages, in any unit: the seconds that they took when the generation before was
// built, else what they usually take.
func (s RunState) weighStages() (weights map[string]float64, measured bool) {
	if len(s.Expected) > 0 {
		weights = map[string]float64{}
		for _, stage := range s.Expected {
			weights[stage.Name] = stage.Seconds
		}
		return weights, true
	}
	if !s.Paid {
		weights = maps.Clone(builtinWeights)
		if s.Inside {
			weights[StageEmbed] = insideWeight
		}
		return weights, false
	}
	weights = map[string]float64{}
	for _, stage := range Stages {
		weights[stage.Name] = stage.Weight
	}
	return weights, false
}

// EstimateProgress returns the done share of a run, 0 to 1, and how many seconds are left; 0: unknown. What is left of
// the running stage goes by its pace. Later stages go by what they took in the run before, scaled by the number of
// chunks; without one they go by the pace of extraction, and nothing is reported before that moves.
func (s RunState) EstimateProgress(pace Pace) (share, seconds float64) {
	if s.Stage == StageRestore || s.Stage == StageAudit {
		return pace.Share, pace.Seconds
	}
	weights, measured := s.weighStages()
	var all, done, later float64
	current, passed := -1, 0.0
	for number, stage := range Stages {
		weight := weights[stage.Name]
		all += weight
		switch {
		case stage.Name == s.Stage:
			current = number
			done = passed + weight*min(1, pace.Share)
		case current >= 0:
			later += weight
		}
		passed += weight
	}
	if current < 0 || all <= 0 {
		return 0, 0
	}
	share = done / all
	if pace.Seconds <= 0 || s.Stopped != nil {
		return share, 0
	}
	scale, known := s.unitSeconds(weights, measured, pace)
	if !known {
		return share, 0
	}
	return share, pace.Seconds + later*scale
}

// unitSeconds returns how many seconds one unit of the weights takes.
func (s RunState) unitSeconds(weights map[string]float64, measured bool, pace Pace) (float64, bool) {
	if measured {
		if s.ExpectedChunks > 0 && s.Report.Chunks > 0 {
			return float64(s.Report.Chunks) / float64(s.ExpectedChunks), true
		}
		return 1, true
	}
	extract := weights[StageExtract]
	for _, stage := range s.Report.Stages {
		if stage.Name == StageExtract && stage.Name != s.Stage {
			return stage.Seconds / extract, true
		}
	}
	if s.Stage == StageExtract && pace.Share > 0 && pace.Share < 1 {
		return pace.Seconds / (1 - pace.Share) / extract, true
	}
	return 0, false
}

// StageSeconds returns for how many seconds the running stage has worked, pauses not counted.
func (s RunState) StageSeconds(now time.Time) float64 {
	_, idle := s.IdleSeconds(now)
	return max(0, now.Sub(s.StageAt).Seconds()-idle)
}
