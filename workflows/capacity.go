package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Capacity is what MeasureFleet found: what the workers that take from the run's queue can do together. Its zero value
// says that nothing is known.
type Capacity struct {
	Workers   int `json:"workers,omitempty"`
	Slots     int `json:"slots,omitempty"`     // activities at once
	CPU       int `json:"cpu,omitempty"`       // of them, those that fill a core
	Computing int `json:"computing,omitempty"` // activities of the ComputingQueue at once
	Chat      int `json:"chat,omitempty"`      // calls in flight at the chat model; 0: it is built in
	Embed     int `json:"embed,omitempty"`     // as Chat, at the embedder
}

// What one activity does at once, as its stage has it, and how many are in flight beyond what fills the model, since
// each also reads, looks up what was paid, and stores.
const (
	shortenWidth = 16 // calls of one ShortenPartition
	enrichWidth  = 64 // calls of one EnrichPart
	embedWidth   = 8  // requests of one EmbedPart
	spareParts   = 2
	spareBatches = 8
)

// Extraction is spread over a few shards, so that the end of one, and its seal, leave the model full.
const (
	leastShards    = 4
	mostOfAShard   = 16 // batches in flight; a fifth of those of a full shard
	mostBatches    = maxWindow * mostOfAShard
	usualBatches   = 24 // of a fleet that is not known
	storesOfWorker = 4  // activities that wait for stores, to each worker
)

// chooseWindow returns how many units of a stage to keep in flight: so many that the model or the cores are full, no
// more than the slots begin soon, and as many as was usual where the slots have room for them.
func (c Capacity) chooseWindow(stage string) int {
	usual := max(1, usualWindows[stage])
	want := storesOfWorker * c.Workers
	if stage == "chunk" || stage == "reduce" || stage == "segment" {
		if c.Computing == 0 { // no worker is known to poll that queue
			return usual
		}
		return min(2*c.Computing, maxWindow)
	}
	switch stage {
	case "shorten":
		want = countCalls(c.Chat, shortenWidth, c.CPU)
	case stageEnrich:
		want = countCalls(c.Chat, enrichWidth, c.CPU)
	case "embed":
		want = countCalls(c.Embed, embedWidth, c.CPU)
	}
	return c.boundWindow(max(want, usual), usual, maxWindow)
}

// countCalls returns how many activities of a width keep a model full; cores where there is no server to fill.
func countCalls(concurrency, width, cores int) int {
	if concurrency == 0 {
		return 2 * cores
	}
	return computeFill(concurrency, width) + spareParts
}

// computeFill returns one and a half times the concurrency, in activities that have so many calls in flight: the calls
// of an activity do not end together.
func computeFill(concurrency, width int) int { return countPieces(3*concurrency, 2*width) }

// countBatches returns how many batches of extraction to keep in flight, over all shards.
func (c Capacity) countBatches(size int) int {
	want := max(2*c.CPU, usualBatches)
	if c.Chat > 0 {
		want = max(computeFill(c.Chat, size)+spareBatches, usualBatches)
	}
	return c.boundWindow(want, usualBatches, mostBatches)
}

// boundWindow keeps what is wanted within the slots and a few that wait for one; unknown is for a fleet that is not
// known.
func (c Capacity) boundWindow(want, unknown, most int) int {
	if c.Slots == 0 {
		return unknown
	}
	return max(1, min(want, c.Slots+c.Slots/4+1, most))
}

// measureFleet asks what the fleet can do; where that fails, what was known before stands.
func measureFleet(ctx workflow.Context, b Build, before Capacity) Capacity {
	var now Capacity
	if err := executeActivity(withMeasure(ctx), MeasureFleet, b, &now); err != nil {
		return before
	}
	return now
}

// How long after a look at the fleet the next one follows. Waits double while nothing changes.
const (
	firstLook   = 30 * time.Second
	longestLook = 5 * time.Minute
)

// watchFleet looks at the fleet as long as ctx lives, and reports what changed.
func watchFleet(ctx workflow.Context, b Build, known Capacity, changed func(workflow.Context, Capacity)) {
	wait := firstLook
	for workflow.Sleep(ctx, wait) == nil {
		now := measureFleet(ctx, b, known)
		if wait = min(2*wait, longestLook); now != known {
			wait, known = firstLook, now
			changed(ctx, now)
		}
	}
}

// followFleet keeps a fan-out's window fitting while it runs: to what the fleet can do, where the stage has more units
// than are usual at once.
func (f *fanOut) followFleet(ctx workflow.Context, in StageInput) {
	usual, spreads := usualWindows[in.Stage]
	if f.window = max(1, usual); !spreads || countUnits(in.Pending) <= usual {
		return
	}
	known := measureFleet(ctx, in.Build, Capacity{})
	f.window = known.chooseWindow(in.Stage)
	f.wake = workflow.NewBufferedChannel(ctx, 1)
	workflow.Go(ctx, func(ctx workflow.Context) {
		watchFleet(ctx, in.Build, known, func(_ workflow.Context, now Capacity) {
			f.window = now.chooseWindow(in.Stage)
			f.wake.SendAsync(true)
		})
	})
}

// signalWindow sets how many batches a shard may have in flight from now on.
const signalWindow = "window"

// signalCounted is sent by a shard to its stage when it has nothing more to begin.
const signalCounted = "counted"

// Counted says as how many batches a shard counts from now on: as half of those that it has in flight once the last was
// begun, since they end one by one, and as none while it is sealed.
type Counted struct {
	Shard   int `json:"shard"`
	Batches int `json:"batches"`
}

func tellStage(ctx workflow.Context, counted Counted) {
	if stage := workflow.GetInfo(ctx).ParentWorkflowExecution; stage != nil {
		workflow.SignalExternalWorkflow(ctx, stage.ID, stage.RunID, signalCounted, counted)
	}
}

// spread is the batches of extraction over shards: of those that were begun first as many as they may have, and so many
// shards that together they have what is wanted.
type spread struct {
	in      StageInput
	batches int  // wanted in flight
	listens bool // to what shards tell
	waiting int  // shards that were not begun
	open    []*openShard
}

// openShard is a shard that was begun and has not ended.
type openShard struct {
	number, batches, window int
	begun                   bool // all of it: batches is as how many it counts
	run                     workflow.ChildWorkflowFuture
}

// newSpread measures the fleet where there are more batches than are usual at once.
func newSpread(ctx workflow.Context, f *fanOut, in StageInput) *spread {
	shape := in.Shape.WithDefaults()
	s := &spread{in: in, batches: usualBatches, waiting: countUnits(in.Pending)}
	f.room, f.ended = s.hasRoom, func(n int) { s.endShard(ctx, n) }
	if s.countAll() <= usualBatches {
		return s
	}
	known := measureFleet(ctx, in.Build, Capacity{})
	s.batches = known.countBatches(shape.BatchChunks)
	f.wake, s.listens = workflow.NewBufferedChannel(ctx, 1), true
	workflow.Go(ctx, func(ctx workflow.Context) { s.listenShards(ctx, f.wake) })
	workflow.Go(ctx, func(ctx workflow.Context) {
		watchFleet(ctx, in.Build, known, func(ctx workflow.Context, now Capacity) {
			s.batches = now.countBatches(shape.BatchChunks)
			s.sendWindows(ctx)
			f.wake.SendAsync(true)
		})
	})
	return s
}

// countAll counts the batches of the shards that are pending, up to more than are usual at once.
func (s *spread) countAll() (n int) {
	for _, r := range s.in.Pending {
		for shard := r.From; shard < r.To && n <= usualBatches; shard++ {
			n += s.countLeft(shard)
		}
	}
	return n
}

// countLeft returns how many batches of a shard are to do, one where only its seal is.
func (s *spread) countLeft(n int) int {
	if shard := s.in.newShardInput(n); shard.Begun {
		return max(1, countUnits(shard.Pending))
	}
	return max(1, s.in.Shape.CountBatches(s.in.Sizes[n]))
}

// computeWindow returns how many batches a shard may have in flight. Where fewer shards have something to begin than
// extraction is spread over, those have all that is wanted: a fleet with two batches a worker has one without any again
// and again.
func (s *spread) computeWindow() int {
	shards, least := maxWindow, leastShards
	if s.hasFewShards() {
		shards = max(1, min(shards, s.countUnbegun()))
		least = shards
	}
	return min(max(mostOfAShard, countPieces(s.batches, shards)), countPieces(s.batches, least), maxWindow)
}

// hasFewShards reports whether fewer shards have something to begin than extraction is spread over.
func (s *spread) hasFewShards() bool { return s.listens && s.countUnbegun() < leastShards }

// countUnbegun returns how many shards still have batches to begin.
func (s *spread) countUnbegun() int {
	n := s.waiting
	for _, shard := range s.open {
		if !shard.begun {
			n++
		}
	}
	return n
}

// computeWindows returns the windows of the open shards, in their order; left is what they leave of the batches that
// are wanted.
func (s *spread) computeWindows() (windows []int, left int) {
	each, few := s.computeWindow(), s.hasFewShards()
	left = s.batches
	for _, shard := range s.open {
		if few && shard.begun { // before those that it leaves the rest to
			left -= shard.batches
		}
	}
	for _, shard := range s.open {
		window := min(each, shard.batches)
		switch {
		case few && shard.begun || left <= 0:
			window = 0
		case few:
			window = min(window, left)
		}
		windows, left = append(windows, window), left-window
	}
	return windows, left
}

// hasRoom reports whether one more shard is to be begun.
func (s *spread) hasRoom() bool {
	_, left := s.computeWindows()
	return len(s.open) < maxWindow && left > 0
}

// beginShard begins a shard and chooses its window.
func (s *spread) beginShard(n int) *openShard {
	batches := s.countLeft(n)
	shard := &openShard{number: n, batches: batches, window: min(s.computeWindow(), batches)}
	if _, left := s.computeWindows(); s.hasFewShards() && left > 0 { // each shard has a window from its beginning
		shard.window = min(shard.window, left)
	}
	s.waiting--
	s.open = append(s.open, shard)
	return shard
}

// listenShards takes the shards' word of how many batches they have in flight.
func (s *spread) listenShards(ctx workflow.Context, wake workflow.Channel) {
	for signals := workflow.GetSignalChannel(ctx, signalCounted); ; {
		var counted Counted
		signals.Receive(ctx, &counted)
		for _, shard := range s.open {
			if shard.number == counted.Shard {
				shard.begun, shard.batches = true, counted.Batches
			}
		}
		s.sendWindows(ctx)
		wake.SendAsync(true)
	}
}

// endShard gives the window of a shard to those that wait for one.
func (s *spread) endShard(ctx workflow.Context, n int) {
	for i, shard := range s.open {
		if shard.number == n {
			s.open = append(s.open[:i:i], s.open[i+1:]...)
			break
		}
	}
	s.sendWindows(ctx)
}

// sendWindows sends each open shard its window, where that differs from what it knows.
func (s *spread) sendWindows(ctx workflow.Context) {
	windows, _ := s.computeWindows()
	for i, shard := range s.open {
		if shard.window == windows[i] || shard.begun || shard.run == nil || shard.run.IsReady() ||
			!shard.run.GetChildWorkflowExecution().IsReady() { // it is reported at the next change
			continue
		}
		shard.window = windows[i]
		shard.run.SignalChildWorkflow(ctx, signalWindow, windows[i])
	}
}
