package retrieve

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/index/liveset"
)

// KeptFrameBytes returns how many bytes unpacked frames hold.
func KeptFrameBytes() int {
	bytes, _ := unpacked.CountHeld()
	return bytes
}

// FramesUnderWay returns how many frames are being read.
func FramesUnderWay() int {
	_, underWay := unpacked.CountHeld()
	return underWay
}

// KeepFrames bounds what unpacked frames hold until the function that it gives is called.
func KeepFrames(limit int) func() {
	was := unpacked
	unpacked = artifact.NewFrames(limit)
	return func() { unpacked = was }
}

// Where the first who asked for a view has gone before its turn, those who came after it get it all the same; one that
// nobody waits for is forgotten.
func TestAViewIsMadeForThoseWhoWait(t *testing.T) {
	var v views
	first, last := v.enter(), v.enter()
	one, isFirst := v.take("a")
	_, again := v.take("a")
	assert.True(t, isFirst && !again)
	v.leaveView(one)
	turn := make(chan bool)
	go func() {
		defer v.enter()()
		turn <- v.isAwaited(one)
	}()
	select {
	case <-turn:
		t.Error("more views are made at once than may be")
	case <-time.After(10 * time.Millisecond):
	}
	first()
	assert.True(t, <-turn)
	v.leaveView(one)
	assert.False(t, v.isAwaited(one))
	_, isFirst = v.take("a")
	assert.True(t, isFirst)
	last()
}

// GenerationOf returns a generation that has a set and nothing else.
func GenerationOf(set *liveset.Set) *Generation { return &Generation{Live: set} }

// AllowedBy returns the test of a filter for chunks, as a question has it.
func AllowedBy(generation *Generation, filter Filter) func(chunk uint32) bool {
	return generation.newAllowed(context.Background(), Query{Filter: filter}).testNumbers()
}

// CountKept returns of how many filters a generation has verdicts.
func CountKept(generation *Generation) int { return len(generation.verdicts.kept) }

// CountAllowed returns how many documents a filter leaves in.
func CountAllowed(generation *Generation, filter Filter) (left int) {
	allowed := generation.newAllowed(context.Background(), Query{Filter: filter})
	documents, _, _ := generation.Live.Counts()
	for i := range documents {
		if allowed.ofDocument(uint32(i)) {
			left++
		}
	}
	return left
}
