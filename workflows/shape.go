package workflows

import (
	"fmt"
	"time"
)

// Shape is everything that decides how many commands a run gives and over what: it is fixed by the starter and travels
// with the run, so that workers of two versions cut the same corpus into the same pieces. A zero of a size stands for
// that of DefaultShape, a zero of a window for what the workers can do.
type Shape struct {
	Format      int     `json:"format,omitempty"`       // Format; no other is run
	ShardChunks int     `json:"shard_chunks,omitempty"` // chunks of a shard, at most
	BatchChunks int     `json:"batch_chunks,omitempty"` // chunks that one extraction activity works on
	ShardWindow int     `json:"shard_window,omitempty"` // batches of a shard in flight; 0: see Windows
	Windows     Windows `json:"windows,omitzero"`

	// Outage is how long a run waits, in all between its tries, for stores and model servers to answer again and for
	// room on a full disk, before it needs a person; as good as not at all: a nanosecond.
	Outage time.Duration `json:"outage,omitempty"`
}

// Windows says how many units of each stage are in flight at once; of extract, how many shards. A zero stands for
// what the workers can do, measured while the stage runs (capacity.go).
type Windows struct {
	Chunk   int `json:"chunk,omitempty"`
	Extract int `json:"extract,omitempty"`
	Reduce  int `json:"reduce,omitempty"`
	Shorten int `json:"shorten,omitempty"`
	Embed   int `json:"embed,omitempty"`
	Load    int `json:"load,omitempty"`
	Verify  int `json:"verify,omitempty"`
	Restore int `json:"restore,omitempty"`
}

// DefaultShape suits any number of workers.
func DefaultShape() Shape {
	return Shape{Format: Format, ShardChunks: 5000, BatchChunks: 64, Outage: DefaultOutage}
}

// usualWindows suit one to a few workers, and stages that the fleet need not or cannot be measured for.
var usualWindows = Windows{
	Chunk: 8, Extract: 4, Reduce: 8, Shorten: 8, Embed: 8, Load: 4, Verify: 4, Restore: 4,
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
		{"shard_window", s.ShardWindow, 0, maxWindow},
		{"windows.chunk", s.Windows.Chunk, 0, maxWindow},
		{"windows.extract", s.Windows.Extract, 0, maxWindow},
		{"windows.reduce", s.Windows.Reduce, 0, maxWindow},
		{"windows.shorten", s.Windows.Shorten, 0, maxWindow},
		{"windows.embed", s.Windows.Embed, 0, maxWindow},
		{"windows.load", s.Windows.Load, 0, maxWindow},
		{"windows.verify", s.Windows.Verify, 0, maxWindow},
		{"windows.restore", s.Windows.Restore, 0, maxWindow},
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

// windowOf returns the window of a stage.
func (w Windows) windowOf(stage string) int {
	switch stage {
	case "chunk":
		return w.Chunk
	case "extract":
		return w.Extract
	case "reduce":
		return w.Reduce
	case "shorten":
		return w.Shorten
	case "embed":
		return w.Embed
	case "load":
		return w.Load
	case "verify":
		return w.Verify
	case "restore", "audit":
		return w.Restore
	}
	return 1
}
