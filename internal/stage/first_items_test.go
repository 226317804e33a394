package stage_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// A model that serves a plain sentence, and none of the texts, has spent twenty of them when the run pauses; one who
// resumes it gets forty more. Where one text comes to something, the others are to blame.
// Promises: 141.
func TestTwentyTextsThatFailAlikePauseTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		able    int // the text that comes to something; -1: none
		resumed bool
		want    int // texts until the run pauses; 0: it does not
	}{
		"none comes to something":  {-1, false, 20},
		"the last of them does":    {19, false, 0},
		"a person has it go on":    {-1, true, 40},
		"one behind the pause":     {20, false, 20},
		"the first":                {0, false, 0},
		"one behind the other one": {40, true, 40},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
					time.Sleep(time.Millisecond)
					able := fmt.Sprint("text ", c.able)
					if call.User == model.ProbeText || strings.TrimSuffix(call.User, " again") == able {
						return model.Reply{Text: "ok"}, nil
					}
					return model.Reply{Text: "I am a teapot."}, nil
				}}
				health := stage.NewHealth()
				if c.resumed {
					health.NoteResume(time.Now())
				}
				read := func(text string) (string, bool) { return text, text == "ok" }
				paused := 0
				for i := 0; i < 100 && paused == 0; i++ {
					call := model.Call{User: fmt.Sprint("text ", i)}
					_, err := stage.Ask(t.Context(), chat, call, " again", read, health)
					if fault.Is(err, fault.ModelRefused) {
						paused = i + 1
					} else if err != nil {
						t.Fatal(err)
					}
				}
				assert.Equal(t, c.want, paused, "paused after")
			})
		})
	}
}
