package stage_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
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
			script{"ok"}, stage.Answer[string]{Value: "OK", Usage: model.Usage{Prompt: 10, Completion: 1}}, "", 1,
		},
		"a bad one, then a good one": {
			script{"bad", "ok"}, stage.Answer[string]{Value: "OK", Retried: true, Usage: model.Usage{Prompt: 20, Completion: 2}},
			"", 2,
		},
		"two bad ones": {
			script{"bad", "worse"},
			stage.Answer[string]{Reason: "bad_model_output", Raw: "worse", Usage: model.Usage{Prompt: 20, Completion: 2}}, "", 2,
		},
		"a refusal of the text": {
			script{rejected}, stage.Answer[string]{Reason: "model_rejected", Raw: "call m: filtered"}, "", 1,
		},
		"a refusal of the second call": {
			script{"bad", rejected},
			stage.Answer[string]{
				Reason: "model_rejected", Raw: "call m: filtered", Usage: model.Usage{Prompt: 10, Completion: 1},
			},
			"", 2,
		},
		"a server that comes back": {
			script{down, slow, "ok"}, stage.Answer[string]{Value: "OK", Usage: model.Usage{Prompt: 10, Completion: 1}}, "", 3,
		},
		"a server that stays away": {script{down, down, down, down}, stage.Answer[string]{}, fault.ModelUnavailable, 4},
		"a key that is refused":    {script{fault.ModelAuth.At("call", "m")}, stage.Answer[string]{}, fault.ModelAuth, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chat := c.script.chat()
				got, err := stage.Ask(t.Context(), chat, model.Call{User: "text"}, " again", read, nil)
				require.True(t, fault.CodeOf(err) == c.code && len(chat.Calls()) == c.calls,
					"%v after %d calls", err, len(chat.Calls()))
				assert.Equal(t, c.want, got)
				for i, call := range chat.Calls() {
					again := call.User == "text again"
					assert.Equal(t, i > 0 && c.script[0] == any("bad"), again, "call %d says %q", i, call.User)
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
		assert.True(t, err != nil && len(chat.Calls()) == 1, "%v after %d calls", err, len(chat.Calls()))
	})
}

// A server answers well, then fails half of the calls, then answers nonsense for a while: whatever was sent when, and
// waited for however long, no item is blamed, and the nonsense that is paid for is what was in flight.
func TestAnOutageOfNonsenseIsNoItemsFault(t *testing.T) {
	for name, failing := range map[string]bool{"after failures": true, "all at once": false} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { outage(t, failing) }) })
	}
}

// asking asks a server, which may have so many calls in flight, for items, all of which are open.
func asking(
	t *testing.T, server *stagetest.Chat, width, items int,
) (ask func(item int) (stage.Answer[string], error), open map[int]bool) {
	gate, health := limits.NewGate(), stage.NewHealth()
	gate.SetLimit("docs", width)
	chat := limits.Chat{Chat: server, Limits: limits.Limits{Gate: gate}}
	read := func(text string) (string, bool) { return text, text == "ok" }
	open = map[int]bool{}
	for i := range items {
		open[i] = true
	}
	return func(item int) (stage.Answer[string], error) {
		return stage.Ask(t.Context(), chat, model.Call{User: fmt.Sprint(item)}, " again", read, health)
	}, open
}

func outage(t *testing.T, failing bool) {
	const items, width = 600, 8
	start := time.Now()
	var count, nonsense atomic.Int64
	server := &stagetest.Chat{Answer: func(model.Call) (model.Reply, error) {
		now, number := time.Since(start), count.Add(1)
		time.Sleep(100 * time.Millisecond)
		switch {
		case failing && now > 1200*time.Millisecond && now < 5200*time.Millisecond && number%2 == 0:
			return model.Reply{}, fault.ModelUnavailable.At("call", "m")
		case now >= 5200*time.Millisecond && now < 9200*time.Millisecond:
			nonsense.Add(1)
			return model.Reply{Text: "<html>"}, nil
		}
		return model.Reply{Text: "ok"}, nil
	}}
	ask, open := asking(t, server, width, items)
	outages := 0
	for round := 0; len(open) > 0 && round < 5; round++ {
		var mu sync.Mutex
		var work sync.WaitGroup
		down := false
		for _, i := range slices.Collect(maps.Keys(open)) {
			work.Go(func() {
				got, err := ask(i)
				mu.Lock()
				defer mu.Unlock()
				down = down || fault.Is(err, fault.ModelRefused)
				assert.True(t, got.Reason == "" || err != nil, "item %d is blamed: %+v", i, got)
				if err == nil {
					delete(open, i)
				}
			})
		}
		work.Wait()
		if down {
			outages++
		}
		time.Sleep(10 * time.Second) // the run pauses
	}
	assert.True(t, len(open) == 0 && outages == 1, "%d items are open after %d outages", len(open), outages)
	paid := nonsense.Load()
	assert.True(t, paid != 0 && paid <= 2*width+1, "%d answers of nonsense were paid for", paid)
}

// A server that stumbles now and then (too many requests, errors, nonsense, cut answers) is asked for nothing twice
// that it answered well, the small request included.
func TestAStumblingServerIsPaidOnceForEachText(t *testing.T) {
	const runs, items, width = 12, 300, 64
	twice := 0
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) { twice += stumbling(t, uint64(seed), items, width) })
	}
	assert.True(t, twice <= 0, "%d answers were paid for twice in %d runs", twice, runs)
}

// stumbling asks for items of a server that stumbles, and gives how many texts it answered well before.
func stumbling(t *testing.T, seed uint64, items, width int) (twice int) {
	var mu sync.Mutex
	chance, answered := rand.New(rand.NewPCG(seed, 1)), map[string]bool{}
	server := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
		mu.Lock()
		luck, bad := chance.Float64(), chance.Float64() < 0.08
		mu.Unlock()
		switch {
		case luck < 0.2:
			busy := fault.ModelRateLimited.At("call", "m")
			busy.RetryAfter = time.Second
			return model.Reply{}, busy
		case luck < 0.25:
			return model.Reply{}, fault.ModelUnavailable.At("call", "m")
		}
		time.Sleep(50 * time.Millisecond)
		if bad {
			return model.Reply{Text: "Sure!"}, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if answered[call.User] {
			twice++
		}
		answered[call.User] = true
		return model.Reply{Text: "ok"}, nil
	}}
	ask, open := asking(t, server, width, items)
	for round := 0; len(open) > 0 && round < 20; round++ { // a batch whose calls failed too often is repeated
		places, work := make(chan struct{}, width), sync.WaitGroup{}
		for _, i := range slices.Sorted(maps.Keys(open)) {
			places <- struct{}{}
			work.Go(func() {
				defer func() { <-places }()
				_, err := ask(i)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					delete(open, i)
				}
			})
		}
		work.Wait()
	}
	assert.True(t, len(open) == 0, "%d items are open", len(open))
	return twice
}

// A text that no answer to can be read is the item's fault where others are served before and after. The last victims
// of an outage, which have two bad answers while the next request is served, are asked for once more.
func TestAnItemIsBlamedWhereOthersAreServedAndTheLastVictimOfAnOutageIsAskedForAgain(t *testing.T) {
	for reason, answers := range map[fault.Code]script{
		"": {"bad", "worse", "ok", "ok"}, fault.BadOutput: {"bad", "worse", "ok", "bad", "ok"}, // the third is the small request
	} {
		synctest.Test(t, func(t *testing.T) {
			chat, health := answers.chat(), stage.NewHealth()
			answer := chat.Answer
			chat.Answer = func(call model.Call) (model.Reply, error) { time.Sleep(time.Millisecond); return answer(call) }
			read := func(text string) (string, bool) { return text, text == "ok" }
			got, err := stage.Ask(t.Context(), chat, model.Call{User: "text"}, " again", read, health)
			assert.True(t, err == nil && got.Reason == string(reason) && (got.Value == "ok") == (reason == "") &&
				(reason != "" || !got.Retried) && len(chat.Calls()) == len(answers), "%+v, %v", got, err)
		})
	}
}

func TestAnObjectIsReadInTheVersionThatWasListed(t *testing.T) {
	for name, c := range map[string]struct {
		changes int    // before so many readings
		content string // of the version that is read; empty: none is
		gone    bool   // it is removed in the end
	}{
		"at rest":         {0, "version 0", false},
		"changed once":    {1, "version 1", false},
		"changed thrice":  {3, "version 3", false},
		"never at rest":   {4, "", false},
		"gone by then":    {1, "", true},
		"gone in the end": {3, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, version := blobmemory.New(), 0
				change := func() blob.Info {
					content := "version " + string(rune('0'+version))
					version++
					info := stagetest.Must(blob.Write(t.Context(), store, "a.md", []byte(content), blob.Cond{}))
					return info
				}
				listed, content := change(), ""
				err := stage.ReadSteady(t.Context(), store, listed, func(now blob.Info) error {
					if version <= c.changes {
						if change(); c.gone && version > c.changes {
							require.NoError(t, store.Delete(t.Context(), "a.md"))
							return fault.Precondition.At("read", "a.md")
						}
					}
					body, err := stage.Open(t.Context(), store, now)
					if err != nil {
						return err
					}
					raw, err := io.ReadAll(body)
					if err != nil {
						return err
					}
					content = string(raw)
					digest, err := body.Digest(nil)
					want := core.Digest(sha256.Sum256(raw))
					assert.True(t, err == nil && digest == want, "digest %s, want %s, %v", digest, want, err)
					return body.Close()
				})
				assert.True(t, content == c.content && fault.Is(err, fault.DocumentChanged) == (c.content == ""),
					"read %q, want %q: %v", content, c.content, err)
				assert.True(t, !c.gone || strings.Contains(err.Error(), "removed"), "%v", err)
			})
		})
	}
}

func TestReadingABodyEndsWithItsContext(t *testing.T) {
	store := blobmemory.New()
	info := stagetest.Must(blob.Write(t.Context(), store, "a.md", []byte("text"), blob.Cond{}))
	ctx, cancel := context.WithCancel(t.Context())
	body, err := stage.Open(ctx, store, info)
	require.NoError(t, err)
	cancel()
	_, err = body.Digest(nil)
	assert.ErrorIs(t, err, context.Canceled)
	assert.NoError(t, body.Close())
}

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

func TestTheFirstPatternThatMatchesNamesTheCharset(t *testing.T) {
	spec := core.Spec{Documents: &core.Documents{Encoding: []string{"old/**=koi8-r", "*.txt=windows-1251"}}}
	for object, want := range map[string]string{
		"old/a/b.txt": "koi8-r", "b.txt": "windows-1251", "new/b.txt": "", "b.md": "",
	} {
		assert.Equal(t, want, stage.EncodingOf(spec, object), "%s", object)
	}
	assert.Empty(t, stage.EncodingOf(core.Spec{}, "b.txt"))
}

// Be it loose or in a pack: what is paid for again is found from then on.
func TestADamagedEntryIsAskedForAgainOnce(t *testing.T) {
	damaged := []byte("{no JSON")
	for place, store := range map[string]func(book *ledger.Ledger, key core.Digest) error{
		"loose": func(book *ledger.Ledger, key core.Digest) error {
			_, err := book.Put(t.Context(), ledger.Shorten, key, 0, ledger.Result{Value: damaged})
			return err
		},
		"packed": func(book *ledger.Ledger, key core.Digest) error {
			last := core.Digest(bytes.Repeat([]byte{0xff}, len(key)))
			_, err := book.PackEntries(t.Context(), ledger.Shorten, parallel.Items([]ledger.Stored{
				{Key: key, Value: damaged}, {Key: last, Value: damaged},
			}))
			return err
		},
	} {
		book, key, asked := ledger.New(blobmemory.New(), memory.NewClaims()), core.Sum("a text"), 0
		require.NoError(t, store(book, key))
		for try := range 2 {
			var found string
			fresh, passing, err := stage.RecallOrAsk(t.Context(), book, ledger.Shorten, key, 0,
				func(context.Context) (stage.Answer[string], error) {
					asked++
					return stage.Answer[string]{Value: "short"}, nil
				}, func(answer stage.Answer[string]) string { return answer.Value }, &found)
			assert.True(t, err == nil && !passing && fresh == (try == 0) && found == "short" && asked == 1,
				"%s, try %d: %v, %v, %q, asked %d times, %v", place, try, fresh, passing, found, asked, err)
		}
	}
}
