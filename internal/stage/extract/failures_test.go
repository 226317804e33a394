package extract_test

import (
	"fmt"
	"strings"
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

// aboutTexts counts the calls but for those that ask after the health of the model.
func aboutTexts(chat *stagetest.Chat) (asked int) {
	for _, call := range chat.Calls() {
		if call.Input != model.ProbeText {
			asked++
		}
	}
	return asked
}

// A model answers a plain sentence, and no chunk of the corpus: the run pauses after twenty, and nothing of that is
// remembered. Who resumes it all the same gets on: what failed then is remembered.
// Promises: 62, 66.
func TestAModelThatFailsTheFirstTwentyChunksAlikePausesTheRun(t *testing.T) {
	for name, bad := range map[string]struct {
		answer func(model.Call) (model.Reply, error)
		says   string
	}{
		"nonsense": {stagetest.Says("I am a teapot."), "(bad_model_output); its last answer was: I am a teapot."},
		"a window too small": {
			stagetest.Fails(fault.ModelRejected.At("call", "m").Because("400 at most 99")), "400 at most 99",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			able := false
			chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
				if able || !strings.HasPrefix(call.Input, "Text ") {
					return stagetest.Says(entities("Text"))(call)
				}
				return bad.answer(call)
			}}
			in := b.in(chat, stagetest.Numbered(120, "Text %d.")...)
			in.Health = stage.NewHealth()
			_, err := extract.Run(t.Context(), in)
			require.True(t, fault.Is(err, fault.ModelRefused) &&
				strings.Contains(err.Error(), "the first 20 texts all failed") && strings.Contains(err.Error(), bad.says), "%v",
				err)
			n := len(chat.Calls())
			assert.True(t, n <= 5*64+40, "%d calls to find out", n)
			asked := aboutTexts(chat)
			able = true
			in.Health.NoteResume(time.Unix(1, 0))
			res := stagetest.Must(extract.Run(t.Context(), in))
			assert.True(t, res.Dead == 0 && len(b.deadLetters()) == 0 && res.Progress.Hits.Extract == 0 &&
				aboutTexts(chat) == asked+120, "when it is mended: %+v after %d calls", res, aboutTexts(chat)-asked)
		})
	}
	t.Run("and takes twice as many in another process of a run that a person resumed", func(t *testing.T) {
		b := newBench(t)
		refusing := stagetest.Fails(fault.ModelRejected.At("call", "m").Because("no"))
		in := b.in(&stagetest.Chat{Answer: refusing}, stagetest.Numbered(120, "Text %d.")...)
		in.Health = stage.NewHealth()
		in.Health.NoteResume(time.Unix(1, 0))
		_, err := extract.Run(t.Context(), in)
		assert.True(t, err != nil && strings.Contains(err.Error(), "the first 40 texts all failed"), "%v", err)
	})
	t.Run("and goes on when a person resumes it", func(t *testing.T) {
		b := newBench(t)
		chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
			if strings.HasPrefix(call.Input, "Text ") {
				return model.Reply{}, fault.ModelRejected.At("call", "m").Because("no")
			}
			return stagetest.Says(entities("Text"))(call)
		}}
		in := b.in(chat, stagetest.Numbered(100, "Text %d.")...)
		in.Health = stage.NewHealth()
		resumes := 0
		for ; resumes < 10; resumes++ {
			in.Health.NoteResume(time.Unix(int64(resumes), 0))
			if _, err := extract.Run(t.Context(), in); err == nil {
				break
			}
		}
		assert.True(t, resumes >= 1 && resumes <= 4 && len(b.deadLetters()) == 100,
			"%d resumes, %d dead letters", resumes, len(b.deadLetters()))
	})
}

// What failed before anything worked is remembered as soon as something does, and not where nothing does.
// Promises: 66.
func TestAFailureBeforeTheFirstSuccessIsRememberedOnceThereIsOne(t *testing.T) {
	for _, c := range []struct{ bad, again int }{{3, 0}, {10, 10}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
				for i := range c.bad {
					if call.Input == fmt.Sprintf("Text %d.", i) {
						return model.Reply{}, fault.ModelRejected.At("call", "m").Because("no")
					}
				}
				time.Sleep(20 * time.Millisecond) // what fails is first
				return stagetest.Says(entities("Text"))(call)
			}}
			in := b.in(chat, stagetest.Numbered(10, "Text %d.")...)
			in.Health = stage.NewHealth()
			res := stagetest.Must(extract.Run(t.Context(), in))
			asked := len(chat.Calls())
			in.Health = stage.NewHealth()
			again := stagetest.Must(extract.Run(t.Context(), in))
			assert.True(t, res.Dead == int64(c.bad) && again.Dead == res.Dead && len(chat.Calls())-asked == c.again,
				"%d bad: %+v, then %+v after %d calls more", c.bad, res, again, len(chat.Calls())-asked)
		})
	}
}

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
