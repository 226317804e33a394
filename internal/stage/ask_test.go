package stage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/stagetest"
)

// script answers one call after the other.
type script []any // a text or an error

func (s script) chat() *stagetest.Chat {
	chat := &stagetest.Chat{}
	chat.Answer = func(model.Call) (model.Reply, error) {
		switch step := s[len(chat.Calls())-1].(type) {
		case error:
			return model.Reply{}, step
		default:
			return model.Reply{Text: fmt.Sprint(step), Usage: model.Usage{Prompt: 10, Completion: 1}}, nil
		}
	}
	return chat
}

func TestAskTellsFailuresOfTheContentFromFailuresOfTheSystem(t *testing.T) {
	down := fault.ModelUnavailable.At("call", "m")
	slow := fault.ModelRateLimited.At("call", "m")
	slow.RetryAfter = 5 * time.Second
	rejected := fault.ModelRejected.At("call", "m").Because("filtered")
	read := func(text string) (string, bool) { return strings.ToUpper(text), strings.HasPrefix(text, "ok") }
	for name, c := range map[string]struct {
		script script
		want   stage.Answer[string]
		code   fault.Code
		calls  int
	}{
		"a good answer": {
			script{"ok"},
			stage.Answer[string]{Value: "OK", Usage: model.Usage{Prompt: 10, Completion: 1}},
			"", 1,
		},
		"a bad one, then a good one": {
			script{"bad", "ok"},
			stage.Answer[string]{Value: "OK", Retried: true, Usage: model.Usage{Prompt: 20, Completion: 2}},
			"", 2,
		},
		"two bad ones": {
			script{"bad", "worse"},
			stage.Answer[string]{Reason: "bad_model_output", Raw: "worse", Usage: model.Usage{Prompt: 20, Completion: 2}},
			"", 2,
		},
		"a refusal of the text": {
			script{rejected},
			stage.Answer[string]{Reason: "model_rejected", Raw: "call m: filtered"},
			"", 1,
		},
		"a refusal of the second call": {
			script{"bad", rejected},
			stage.Answer[string]{
				Reason: "model_rejected", Raw: "call m: filtered", Usage: model.Usage{Prompt: 10, Completion: 1},
			},
			"", 2,
		},
		"a server that comes back": {
			script{down, slow, "ok"},
			stage.Answer[string]{Value: "OK", Usage: model.Usage{Prompt: 10, Completion: 1}},
			"", 3,
		},
		"a server that stays away": {script{down, down, down, down}, stage.Answer[string]{}, fault.ModelUnavailable, 4},
		"a key that is refused":    {script{fault.ModelAuth.At("call", "m")}, stage.Answer[string]{}, fault.ModelAuth, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chat := c.script.chat()
				got, err := stage.Ask(t.Context(), chat, model.Call{User: "text"}, " again", read, nil)
				if fault.CodeOf(err) != c.code || len(chat.Calls()) != c.calls {
					t.Fatalf("%v after %d calls", err, len(chat.Calls()))
				}
				if got != c.want {
					t.Errorf("got  %+v\nwant %+v", got, c.want)
				}
				for i, call := range chat.Calls() {
					again := call.User == "text again"
					if again != (i > 0 && c.script[0] == any("bad")) {
						t.Errorf("call %d says %q", i, call.User)
					}
				}
			})
		})
	}
}

func TestAskStopsWhenItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		chat := script{fault.ModelUnavailable.At("call", "m")}.chat()
		time.AfterFunc(100*time.Millisecond, cancel) // during the first wait
		_, err := stage.Ask(ctx, chat, model.Call{}, "", func(string) (int, bool) { return 0, true }, nil)
		if err == nil || len(chat.Calls()) != 1 {
			t.Errorf("%v after %d calls", err, len(chat.Calls()))
		}
	})
}
