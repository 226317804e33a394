package run

import (
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/extract"
)

// Shards are the chunks of all units, cut into pieces of which each is reduced, embedded and loaded at once.
type Shards struct {
	Shards []extract.Shard `json:"shards"`
	Chunks []int           `json:"chunks"` // of each shard
	Counts core.Counts     `json:"counts"` // of the generation
	Hashes core.Hashes     `json:"hashes"` // entries of the chunks that the build made
	Failed int64           `json:"failed"` // documents
	Lapsed chunk.Lapsed    `json:"lapsed"`
}

// CountMade returns how many chunks the build made.
func (s Shards) CountMade() (chunks int64) {
	for _, of := range s.Chunks {
		chunks += int64(of)
	}
	return chunks
}

// Partitions are the ranges of class ids that are reduced, shortened, embedded and loaded at once.
type Partitions struct {
	Partitions int   `json:"partitions"`
	Mentions   int64 `json:"mentions"`
	Dead       int64 `json:"dead"`              // with those of the parent that count still
	Refused    int64 `json:"refused,omitempty"` // of the dead, those that the next run asks for again

	Failed []extract.Failed `json:"failed,omitempty"` // the first of the dead, as many as a report lists

	Kept []core.Segment `json:"kept,omitempty"` // mentions of the shards

	Pieces Pieces `json:"pieces,omitzero"`
}
