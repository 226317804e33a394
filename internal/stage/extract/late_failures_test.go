package extract_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// A batch that waited for its turn while the first chunks failed begins before the run has paused: it asks for nothing,
// and makes no chunk a dead one. Only a person who resumes the run has it go on.
// Promises: 62.
func TestABatchThatBeginsAfterAllFailedAlikeWaitsForAPerson(t *testing.T) {
	b := newBench(t)
	var inFlight sync.WaitGroup // all of the first batch, so that those behind the twentieth fail, too
	inFlight.Add(30)
	first := atomic.Int64{}
	chat := &stagetest.Chat{Answer: func(model.Call) (model.Reply, error) {
		if first.Add(1) <= 30 {
			inFlight.Done()
			inFlight.Wait()
		}
		return model.Reply{}, fault.ModelRejected.At("call", "m").Because("no")
	}}
	in := b.in(chat, stagetest.Numbered(30, "Text %d.")...)
	in.Health = stage.NewHealth()
	_, err := extract.Run(t.Context(), in)
	require.True(t, fault.Is(err, fault.ModelRefused), "%v", err)
	asked := len(chat.Calls())
	for range 3 {
		in.Health.NoteResume(time.Time{})
		_, err := extract.Run(t.Context(), in)
		assert.True(t, fault.Is(err, fault.ModelRefused), "a batch that comes late: %v", err)
	}
	if n := len(chat.Calls()); n != asked || len(b.deadLetters()) != 0 {
		t.Fatalf("%d calls more, %d dead letters", n-asked, len(b.deadLetters()))
	}
	in.Health.NoteResume(time.Unix(1, 0))
	if _, err := extract.Run(t.Context(), in); err != nil || len(b.deadLetters()) != 30 {
		t.Errorf("after a resume: %v, %d dead letters", err, len(b.deadLetters()))
	}
}

// A failure that turned out to be the chunk's own is not paid for again where its batch is stopped after that.
// Promises: 63.
func TestAFailureIsRememberedAsSoonAsAnotherChunkCameToSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		quota := true
		chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
			switch {
			case call.Input == "Text 0.":
				return model.Reply{}, fault.ModelRejected.At("call", "m").Because("no")
			case call.Input == "Text 2." && quota:
				time.Sleep(200 * time.Millisecond)
				return model.Reply{}, fault.ModelQuota.At("call", "m").Because("none is left")
			}
			time.Sleep(20 * time.Millisecond) // what fails is first
			return stagetest.Says(entities("Text"))(call)
		}}
		in := b.in(chat, stagetest.Numbered(3, "Text %d.")...)
		in.Health = stage.NewHealth()
		_, err := extract.Run(t.Context(), in)
		require.True(t, fault.Is(err, fault.ModelQuota), "%v", err)
		asked := len(chat.Calls())
		quota, in.Health = false, stage.NewHealth()
		res := stagetest.Must(extract.Run(t.Context(), in))
		assert.True(t, res.Dead == 1 && len(chat.Calls()) == asked+1, "%+v after %d calls more", res, len(chat.Calls())-asked)
	})
}
