package workflows

import (
	"fmt"
	"time"
)

// Shape is everything that decides how many commands a run gives and over what: it is fixed by the starter and travels
// with the run, so that workers of two versions cut the same corpus into the same pieces. A zero stands for the value
// of DefaultShape. How many pieces are in flight follows what the workers can do (capacity.go).
type Shape struct {
	Format      int `json:"format,omitempty"`       // Format; no other is run
	ShardChunks int `json:"shard_chunks,omitempty"` // chunks of a shard, at most
	BatchChunks int `json:"batch_chunks,omitempty"` // chunks that one extraction activity works on

	// Outage is how long a run waits, in all between its tries, for stores and model servers to answer again and for
	// room on a full disk, before it needs a person; as good as not at all: a nanosecond.
	Outage time.Duration `json:"outage,omitempty"`
}

// DefaultShape suits any number of workers.
func DefaultShape() Shape {
	return Shape{Format: Format, ShardChunks: 5000, BatchChunks: 64, Outage: DefaultOutage}
}

// usualWindows say how many units of a stage are in flight at once where the fleet need not or cannot be measured: they
// suit one to a few workers. Stage pay has one: a backfill's throttle bounds the calls of one unit at a time.
var usualWindows = map[string]int{
	"chunk": 8, "reduce": 8, "shorten": 8, "embed": 8, "load": 4, "segment": 8, stageEnrich: 2, "verify": 4,
	stageRepair: 4, "restore": 4, "audit": 4,
}

// Limits of a shape. A shard's workflow does not continue as new, nor does that of a run: a batch makes six events, a
// try after an outage some forty, and the engine's limit is 51,200. A workflow may have 2,000 activities in flight; its
// engine serves a fifth of that well.
const (
	maxBatches = 2000
	maxWindow  = 400
	maxOutage  = 7 * 24 * time.Hour // some 1,000 tries of 40 events
)

// WithDefaults returns s with the values of DefaultShape where it has none.
func (s Shape) WithDefaults() Shape {
	first := DefaultShape()
	fillDefault(&s.ShardChunks, first.ShardChunks)
	fillDefault(&s.BatchChunks, first.BatchChunks)
	fillDefault(&s.Outage, first.Outage)
	return s
}

func fillDefault[T int | time.Duration](value *T, first T) {
	if *value == 0 {
		*value = first
	}
}

// Validate returns what is wrong with a shape, in one sentence.
func (s Shape) Validate() error {
	s = s.WithDefaults()
	if s.Format != Format {
		return fmt.Errorf("shape.format is %d, and this worker supports only %d: bring the workers to the version of the "+
			"program that started the run, or start it again with this one", s.Format, Format)
	}
	for _, setting := range []struct {
		name               string
		value, least, most int
	}{
		{"shard_chunks", s.ShardChunks, 1, 1_000_000},
		{"batch_chunks", s.BatchChunks, 1, s.ShardChunks},
	} {
		if setting.value < setting.least || setting.value > setting.most {
			return fmt.Errorf("shape.%s is %d, it must be from %d to %d",
				setting.name, setting.value, setting.least, setting.most)
		}
	}
	if s.Outage < 0 || s.Outage > maxOutage {
		return fmt.Errorf("shape.outage is %s, it must be from 0 to %s", s.Outage, maxOutage)
	}
	if batches := s.CountBatches(s.ShardChunks); batches > maxBatches {
		return fmt.Errorf("a shard of %d chunks in batches of %d has %d batches; the limit is %d: "+
			"raise shape.batch_chunks or lower shape.shard_chunks", s.ShardChunks, s.BatchChunks, batches, maxBatches)
	}
	return nil
}

// CountBatches returns how many batches a shard of so many chunks has.
func (s Shape) CountBatches(chunks int) int { return countPieces(chunks, s.WithDefaults().BatchChunks) }

// countPieces returns how many pieces of a size hold so many items.
func countPieces(items, size int) int { return (items + size - 1) / size }
