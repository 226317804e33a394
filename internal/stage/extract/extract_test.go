package extract_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/sampling"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

const scratch = "i/runs/g"

type bench struct {
	*testing.T
	art    artifact.Index
	claims coordination.Claims
}

func newBench(t *testing.T) bench {
	return bench{t, artifact.Index{Store: stagetest.Must(dir.Open(t.TempDir())), Name: "i"}, memory.NewClaims()}
}

// onBench tests a bench in a test of its own.
func onBench(t *testing.T, name string, test func(t *testing.T, b bench)) {
	t.Run(name, func(t *testing.T) { test(t, newBench(t)) })
}

// in returns the input of a batch over all chunks of documents, as another process would begin it.
func (b bench) in(chat model.Chat, docs ...stagetest.Document) extract.In {
	n := 0
	for _, doc := range docs {
		n += len(doc.Chunks)
	}
	return extract.In{
		Spec: core.Spec{Index: "i"}, Artifacts: b.art, Scratch: scratch, Gen: "g",
		Text: stagetest.Chunks(b, b.art, scratch, 0, docs...), Shard: extract.Shard{To: n}, To: n, Chat: chat,
		Ledger: ledger.New(b.art.Store, b.claims),
	}
}

func entities(names ...string) string {
	type entity struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	list := []entity{}
	for _, name := range names {
		list = append(list, entity{name, "About " + name + "."})
	}
	raw, _ := json.Marshal(map[string]any{"entities": list})
	return string(raw)
}

// extracted reads a batch's file back.
func (b bench) extracted(in extract.In) []rows.Extract {
	var out []rows.Extract
	for _, row := range stagetest.Read(b, b.art, extract.BatchKey(scratch, in.Shard.Number, in.Batch)) {
		dec := rowfile.Dec{B: []byte(row.Value)}
		dec.S()
		dec.U()
		dec.S()
		dec.S()
		out = append(out, stagetest.Must(rows.DecodeExtract(dec.B)))
	}
	return out
}

func (b bench) deadLetters() []string {
	b.Helper()
	var out []string
	for info, err := range b.art.Store.List(b.Context(), b.art.GenerationKey("g", "dead-letters/"), "") {
		stagetest.Ok(b, err)
		out = append(out, info.Key)
	}
	return out
}

func TestUnderParityEntitiesAreAskedForAndTakenLikeTheReference(t *testing.T) {
	b := newBench(t)
	chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
		if strings.Contains(call.Input, "nonsense") {
			return model.Reply{Text: "no list"}, nil
		}
		return model.Reply{Text: `[{"entity_name":"The Kvarn","entity_description":"A mill."},
			{"entity_name":"Bare","entity_description":""}]`}, nil
	}}
	in := b.in(chat, stagetest.Document{Key: "a", Title: "T", Chunks: []string{"A text.", "Some nonsense."}})
	in.Spec.Parity = true
	stagetest.Must(extract.Run(t.Context(), in))
	for _, call := range chat.Calls() {
		assert.True(t, call.System == "" && strings.Contains(call.User, call.Input) &&
			strings.Contains(call.User, "entity_description"), "%+v", call)
	}
	got := b.extracted(in)
	require.Len(t, got[0].Entities, 1, "what has no description is left out")
	assert.Equal(t, "The Kvarn", got[0].Entities[0].Name)
	assert.True(t, got[1].Fallback != "" && len(got[1].Entities) == 0, "a chunk without a list has no mention: %+v", got[1])
}

func TestAHitIsCountedOnlyWhenTheLedgerAnswered(t *testing.T) {
	refused := fault.ModelAuth.At("call chat model", "test")
	good := stagetest.Says(entities("Marbeck"))
	docs := stagetest.Numbered(100, "Text number %d about Marbeck.")
	onBench(t, "a server that refuses gives none, and the stage counts no calls", func(t *testing.T, b bench) {
		res, err := extract.Run(t.Context(), b.in(&stagetest.Chat{Answer: stagetest.Fails(refused)}, docs...))
		require.ErrorIs(t, err, refused)
		assert.Equal(t, core.Progress{Stage: "extract"}, res.Progress, "a batch that got nothing reports")
	})
	onBench(t, "a first run pays for all and hits nothing; a second one hits all", func(t *testing.T, b bench) {
		chat := &stagetest.Chat{Answer: good}
		for run, hits := range []int64{0, 100} {
			res := stagetest.Must(extract.Run(t.Context(), b.in(chat, docs...)))
			want := core.Progress{Stage: "extract", Done: 100, Hits: core.Calls{Extract: hits}}
			assert.True(t, res.Progress == want && len(chat.Calls()) == 100,
				"run %d reports %+v after %d calls", run, res.Progress, len(chat.Calls()))
		}
	})
	onBench(t, "a batch that is cancelled keeps what the ledger answered, and no more", func(t *testing.T, b bench) {
		_, err := extract.Run(t.Context(), b.in(&stagetest.Chat{Answer: good}, docs[:30]...)) // an earlier run
		stagetest.Ok(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		in := b.in(nil, docs...)
		var shown atomic.Int64
		in.OnProgress = func(p core.Progress) {
			shown.Store(p.Hits.Extract)
			if p.Hits.Extract == 30 {
				cancel()
			}
		}
		in.Chat = &stagetest.Chat{Answer: func(model.Call) (model.Reply, error) {
			<-ctx.Done()
			return model.Reply{}, ctx.Err()
		}}
		res, err := extract.Run(ctx, in)
		assert.True(t, err != nil && res.Progress.Hits.Extract == 30 && shown.Load() == 30,
			"%v: %+v, shown %d hits", err, res.Progress, shown.Load())
	})
	onBench(t, "a negative entry that answers is a hit", func(t *testing.T, b bench) {
		chat := &stagetest.Chat{Answer: stagetest.Says("no")}
		for run, hits := range []int64{0, 10} {
			res := stagetest.Must(extract.Run(t.Context(), b.in(chat, docs[:10]...)))
			assert.True(t, res.Progress.Hits.Extract == hits && res.Dead == 10 && len(chat.Calls()) == 20,
				"run %d: %+v after %d calls", run, res, len(chat.Calls()))
		}
	})
	onBench(t, "built-in models have no ledger", func(t *testing.T, b bench) {
		for range 2 {
			res := stagetest.Must(extract.Run(t.Context(), b.in(builtin.Chat{}, docs[:10]...)))
			assert.True(t, res.Progress.Hits.Extract == 0 && res.Progress.Done == 10, "%+v", res.Progress)
		}
		for info := range b.art.Store.List(t.Context(), "ledger/", "") {
			t.Errorf("wrote %s", info.Key)
		}
	})
}

func TestAChunkKeepsWhatWasSaidAboutItAndWhere(t *testing.T) {
	b := newBench(t)
	in := b.in(
		&stagetest.Chat{Answer: stagetest.Says("```json\n" + entities("Quillon", "Nowhere") + "```")},
		stagetest.Document{Key: "a.txt", Title: "A", Chunks: []string{"Größe of Quillon. ", "Again: quillon, and Quillon."}},
	)
	stagetest.Must(extract.Run(t.Context(), in))
	got := b.extracted(in)
	want := []string{"[[9 16]]", "[[7 14] [20 27]]"}
	for i, x := range got {
		assert.True(t, len(x.Entities) == 2 && fmt.Sprint(x.Entities[0].Spans) == want[i] && x.Entities[1].Spans == nil,
			"chunk %d: %+v", i, x.Entities)
		assert.True(t, x.Rung == extract.RungStrict && !x.Key.IsZero(), "chunk %d: read %q under key %v", i, x.Rung, x.Key)
	}
}

func TestAnAnswerThatCannotBeRead(t *testing.T) {
	doc := stagetest.Document{Key: "a.txt", Title: "The Title", Chunks: []string{strings.Repeat("word  and ", 90)}}
	id := core.ChunkID("a.txt", doc.Chunks[0], 0).String()
	onBench(t, "is asked for once more", func(t *testing.T, b bench) {
		chat := &stagetest.Chat{}
		chat.Answer = func(call model.Call) (model.Reply, error) {
			if len(chat.Calls()) == 1 {
				return model.Reply{Text: "I cannot."}, nil
			}
			return model.Reply{Text: entities("Word")}, nil
		}
		in := b.in(chat, doc)
		res := stagetest.Must(extract.Run(t.Context(), in))
		calls := chat.Calls()
		require.True(t, len(calls) == 2 && calls[0].User == doc.Chunks[0] &&
			strings.HasPrefix(calls[1].User, doc.Chunks[0]+"\n\n"), "%+v", calls)
		x := b.extracted(in)[0]
		assert.True(t, x.Rung == extract.RungRetry+" "+extract.RungStrict && res.Dead == 0, "%+v, %+v", x, res)
	})
	for name, c := range map[string]struct {
		answer func(model.Call) (model.Reply, error)
		reason fault.Code
		raw    string
	}{
		"twice leaves a fallback and a dead letter": {stagetest.Says("I cannot."), fault.BadOutput, "I cannot."},
		"and a text that the model refuses too": {
			stagetest.Fails(fault.ModelRejected.At("call", "m").Because("filtered")), fault.ModelRejected, "call m: filtered",
		},
		"of any length, of which the start is kept": {
			stagetest.Says(strings.Repeat("é", 80<<10)), fault.BadOutput, strings.Repeat("é", 32<<10),
		},
	} {
		onBench(t, name, func(t *testing.T, b bench) {
			in := b.in(&stagetest.Chat{Answer: c.answer}, doc)
			in.Attempt = 3
			res := stagetest.Must(extract.Run(t.Context(), in))
			assert.True(t, res.Dead == 1 && res.Fallbacks == 1 && res.Chunks == 1, "%+v", res)
			x := b.extracted(in)[0]
			description := strings.Join(strings.Fields(doc.Chunks[0][:600]), " ")
			assert.True(t, x.Fallback == string(c.reason) && len(x.Entities) == 1 && x.Entities[0].Name == "The Title "+id[:8] &&
				x.Entities[0].Description == description, "fallback is %+v", x)
			keys := b.deadLetters()
			require.True(t, len(keys) == 1 && strings.HasSuffix(keys[0], "/"+id+".json"), "dead letters %v", keys)
			var letter extract.DeadLetter
			stagetest.Must(blob.ReadJSON(t.Context(), b.art.Store, keys[0], &letter))
			if want := (extract.DeadLetter{
				Chunk: id, Document: "a.txt", Reason: string(c.reason), Attempt: 3, Key: x.Key.String(), Raw: c.raw,
			}); letter != want {
				t.Errorf("got  %+v\nwant %+v", letter, want)
			}
		})
	}
	onBench(t, "is paid for again in a later round, and then forgiven", func(t *testing.T, b bench) {
		chat := &stagetest.Chat{Answer: stagetest.Says("no")}
		stagetest.Must(extract.Run(t.Context(), b.in(chat, doc)))
		chat.Answer = stagetest.Says(entities("Word"))
		in := b.in(chat, doc)
		in.Attempt = 1
		res := stagetest.Must(extract.Run(t.Context(), in))
		assert.True(t, res.Dead == 0 && len(chat.Calls()) == 3, "%+v after %d calls", res, len(chat.Calls()))
	})
}

func TestASystemFailureLeavesTheBatchToBeRepeatedForNothing(t *testing.T) {
	b := newBench(t)
	docs := stagetest.Numbered(40, "Text %d.")
	var answered atomic.Int64
	chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
		if call.Input == "Text 39." {
			return model.Reply{}, fault.ModelQuota.At("call", "m")
		}
		answered.Add(1)
		return model.Reply{Text: entities("Text")}, nil
	}}
	musttest.Refuse(extract.Run(t.Context(), b.in(chat, docs...)))(t, fault.ModelQuota)
	_, _, err := blob.Read(t.Context(), b.art.Store, extract.BatchKey(scratch, 0, 0))
	assert.True(t, fault.Is(err, fault.NotFound), "the unfinished batch has a file: %v", err)
	chat.Answer = func(model.Call) (model.Reply, error) {
		answered.Add(1)
		return model.Reply{Text: entities("Text")}, nil
	}
	res := stagetest.Must(extract.Run(t.Context(), b.in(chat, docs...)))
	assert.True(t, answered.Load() == 40 && res.Progress.Hits.Extract+1 <= 40 && res.Dead == 0,
		"%d answers for 40 chunks; %+v", answered.Load(), res)
}

// put writes a ledger entry for a text as somebody left it there.
func (b bench) put(in extract.In, text, entry string, negative bool) {
	stagetest.Must(in.Ledger.Put(b.Context(), ledger.Extract, extract.Key(in.Chat.Info(), core.Spec{}, text), 0,
		ledger.Result{Value: []byte(entry), Negative: negative}))
}

func TestADamagedLedgerEntryIsToldAndPaidForAgain(t *testing.T) {
	b := newBench(t)
	chat := &stagetest.Chat{Answer: stagetest.Says(entities("Text"))}
	in := b.in(chat, stagetest.Numbered(1, "Text %d.")...)
	b.put(in, "Text 0.", "{", false)
	var shown atomic.Int64
	in.Ledger.OnDamage = func(string, error) { shown.Add(1) }
	for run, hits := range []int64{0, 1} {
		res, err := extract.Run(t.Context(), in)
		assert.True(t, err == nil && res.Progress.Hits.Extract == hits && res.Dead == 0 && len(chat.Calls()) == 1 &&
			shown.Load() == 1, "run %d: %v, %+v, %d calls, %d reports", run, err, res.Progress, len(chat.Calls()), shown.Load())
	}
}

// A gateway answers 422, or nonsense, for a while: nothing is remembered of that, and the run stops asking.
// Promises: 65.
func TestAServerThatServesNobodyCostsNoChunk(t *testing.T) {
	refusal := fault.ModelRefused.At("call chat model", "http://g/v1 model m").Because("422 upstream mismatch")
	docs := stagetest.Numbered(60, "Text %d.")
	for name, bad := range map[string]func(model.Call) (model.Reply, error){
		"refusals": stagetest.Fails(refusal), "nonsense": stagetest.Says("<html>maintenance</html>"),
	} {
		for _, after := range []int64{0, 20} { // good answers before
			onBench(t, fmt.Sprint(name, " after ", after), func(t *testing.T, b bench) {
				var asked atomic.Int64
				chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
					if asked.Add(1) > after {
						return bad(call)
					}
					return stagetest.Says(entities("Text"))(call)
				}}
				in := b.in(chat, docs...)
				in.Health = stage.NewHealth()
				_, err := extract.Run(t.Context(), in)
				require.True(t, fault.Is(err, fault.ModelRefused), "%v", err)
				assert.True(t, name != "refusals" || strings.Contains(err.Error(), "422 upstream mismatch"), "it says %v", err)
				n := len(chat.Calls())
				assert.True(t, n <= 3*64, "%d calls to find out", n)
				chat.Answer = stagetest.Says(entities("Text"))
				res := stagetest.Must(extract.Run(t.Context(), in))
				assert.True(t, res.Dead == 0 && res.Fallbacks == 0 && len(b.deadLetters()) == 0 &&
					res.Progress.Hits.Extract >= after, "when it is mended: %+v, dead letters %v", res, b.deadLetters())
			})
		}
	}
}

func TestBatchesOfAShardJoinToTheSameFileWhateverTheirSize(t *testing.T) {
	docs := stagetest.Numbered(23, "Text %d about one thing.")
	seal := func(t *testing.T, size int) (extract.SealResult, []stagetest.Row) {
		b := newBench(t)
		in := b.in(&stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
			return model.Reply{Text: entities("Thing", call.Ref)}, nil
		}}, docs...)
		batches := 0
		for from := 0; from < 23; from += size {
			in.Batch, in.From, in.To = batches, from, min(from+size, 23)
			assert.Equal(t, int64(in.To-in.From), stagetest.Must(extract.Run(t.Context(), in)).Chunks, "batch %d", batches)
			batches++
		}
		res := stagetest.Must(extract.Seal(t.Context(), extract.SealIn{
			Artifacts: b.art, Scratch: scratch, Shard: in.Shard, Batches: batches, Paid: true, Ledger: in.Ledger,
			Batch: stored(t, b.art.Store, scratch),
		}))
		return res, stagetest.Read(t, b.art, b.art.SegmentKey(res.Kept.SHA256))
	}
	want, mentions := seal(t, 23)
	require.True(t, want.Chunks == 23 && want.Mentions == 3*23 && want.Fresh, "%+v", want)
	for _, size := range []int{1, 7, 22} {
		got, rows := seal(t, size)
		assert.True(t, reflect.DeepEqual(got, want) && fmt.Sprint(rows) == fmt.Sprint(mentions),
			"batches of %d: %+v, want %+v", size, got, want)
	}
}

func shared(in extract.In, share float64) extract.In {
	in.Spec.Extraction = &core.Extraction{Share: share}
	return in
}

// A chunk is paid for once, whatever the share was before and is later, and an estimate is exact to the call.
func TestAShareOfTheChunksIsSentAndTheOthersAreExtractedByRule(t *testing.T) {
	b := newBench(t)
	docs := stagetest.Numbered(60, "Ada Lovelace met Charles Babbage in London %d times.")
	paid := 0
	for _, share := range []float64{0, 0.4, 0.2, 0.4, 0.8, 1, 0.3} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			chat := &stagetest.Chat{Answer: stagetest.Says(entities("By the model"))}
			in := shared(b.in(chat, docs...), share)
			estimate := stagetest.Must(extract.Count(t.Context(), extract.CountIn{
				Spec: in.Spec, Model: chat.Info(), Ledger: in.Ledger, Chunks: extract.StreamTexts(t.Context(), in),
			}))
			stagetest.Must(extract.Run(t.Context(), in))
			sent := 0
			for i, row := range b.extracted(in) {
				want := sampling.ShouldSend(docs[i].Chunks[0], share)
				byModel := row.Entities[0].Name == "By the model"
				assert.True(t, byModel == want && byModel != (row.Rung == extract.RungRule) && byModel != row.Key.IsZero(),
					"chunk %d: %+v, sent %v", i, row, want)
				assert.True(t, byModel || strings.Contains(fmt.Sprint(row.Entities), "Charles Babbage"), "chunk %d: %+v", i, row)
				if want {
					sent++
				}
			}
			calls := len(chat.Calls())
			assert.True(t, calls == max(0, sent-paid), "%d calls for %d chunks of which %d were paid", calls, sent, paid)
			assert.True(t, estimate.Calls == int64(calls) && estimate.Rules == int64(60-sent) &&
				estimate.Hits == int64(sent-calls), "estimate %+v, %d calls, %d sent", estimate, calls, sent)
			paid = max(paid, sent)
		})
	}
}

func TestThePreflightAsksForAChunkThatIsSent(t *testing.T) {
	b := newBench(t)
	chat := &stagetest.Chat{Answer: stagetest.Says(entities("X"))}
	docs := stagetest.Numbered(60, "Ada Lovelace met Charles Babbage in London %d times.")
	key := stagetest.Must(extract.ExtractFirst(t.Context(), shared(b.in(chat, docs...), 0.2), nil))
	if calls := chat.Calls(); len(calls) != 1 || key.IsZero() || !sampling.ShouldSend(calls[0].Input, 0.2) {
		t.Errorf("%d calls, key %v", len(calls), key)
	}
	key, err := extract.ExtractFirst(t.Context(), shared(b.in(chat, docs...), 0), nil)
	assert.True(t, err == nil && key.IsZero() && len(chat.Calls()) == 1,
		"of no share: %v %v, %d calls", key, err, len(chat.Calls()))
}

func TestAShareOfTheBuiltInModelIsAllOfIt(t *testing.T) {
	b := newBench(t)
	in := b.in(nil, stagetest.Numbered(3, "Ada Lovelace %d.")...)
	assert.Equal(t, (extract.Estimate{Chunks: 3}), musttest.Get(extract.Count(t.Context(), extract.CountIn{
		Spec: shared(in, 0).Spec, Model: model.Info{Provider: "builtin"},
		Ledger: ledger.New(b.art.Store, b.claims), Chunks: extract.StreamTexts(context.Background(), in),
	}))(t))
}

// noClaims fails a test that claims anything.
type noClaims struct {
	coordination.Claims
	t *testing.T
}

func (c noClaims) Claim(context.Context, string, string, time.Duration) (bool, error) {
	c.t.Error("claimed")
	return false, errors.New("claimed")
}

func TestCountTellsWhatWouldBePaidAndTakesNothing(t *testing.T) {
	b := newBench(t)
	docs := stagetest.Numbered(50, "Text number %d of fifty.")
	paid := &stagetest.Chat{Answer: stagetest.Says(entities("X"))}
	_, err := extract.Run(t.Context(), b.in(paid, docs[:20]...)) // an earlier run
	stagetest.Ok(t, err)
	bad := &stagetest.Chat{Answer: stagetest.Says("no")}
	stagetest.Must(extract.Run(t.Context(), b.in(bad, docs[20:25]...)))
	in := b.in(nil, docs...)
	readOnly := &stagetest.Tampered{Store: b.art.Store, OnPut: func(key string) error {
		t.Errorf("wrote %s", key)
		return errors.New("wrote")
	}}
	in.Artifacts.Store = readOnly
	count := func(info model.Info, attempt int) extract.Estimate {
		estimate := stagetest.Must(extract.Count(t.Context(), extract.CountIn{
			Model: info, Ledger: ledger.New(readOnly, noClaims{t: t}), Attempt: attempt,
			Chunks: extract.StreamTexts(t.Context(), in),
		}))
		return estimate
	}
	info := (&stagetest.Chat{}).Info()
	got := count(info, 0)
	assert.True(t, got.Chunks == 50 && got.Calls == 25 && got.Hits == 25, "%+v", got)
	assert.True(t, got.Prompt >= 25*100 && got.Prompt <= 25*300 && got.Completion >= 25*6 && got.Completion <= 25*15,
		"tokens %+v", got)
	assert.True(t, got.Measured.Calls == 25 && got.Measured.Completion > 0 && got.Tokens > 0, "measured %+v", got)
	if later := count(info, 1); later.Calls != 30 { // bad answers are asked for again
		t.Errorf("in a later round %+v", later)
	}
	assert.Equal(t, extract.Estimate{Chunks: 50}, count(model.Info{Provider: "builtin"}, 0), "built-in models")
	info.Model = "another"
	other := count(info, 0)
	assert.True(t, other.Calls == 50 && other.Hits == 0, "another model %+v", other)
}

type brokenLedger struct{ err error }

func (l brokenLedger) Get(context.Context, string, core.Digest, int) (*ledger.Entry, error) {
	return nil, l.err
}

func TestCountTellsThatTheLedgerCannotBeRead(t *testing.T) {
	b := newBench(t)
	in := b.in(nil, stagetest.Numbered(3, "Text %d.")...)
	musttest.Refuse(extract.Count(t.Context(), extract.CountIn{
		Model: (&stagetest.Chat{}).Info(), Ledger: brokenLedger{fault.StoreDenied.At("read", "ledger")},
		Chunks: extract.StreamTexts(t.Context(), in),
	}))(t, fault.StoreDenied)
}

// What an answer costs is known of a model that has answered; of one that has not, hardly.
func TestWhatCallsAreChargedForIsARangeThatHoldsIt(t *testing.T) {
	guess := extract.Estimate{Calls: 100, Prompt: 40_000, Tokens: 20_000}
	prompt, completion := guess.EstimateCharge(0)
	assert.True(t, prompt[0] < 40_000 && prompt[1] > 40_000 && completion[0] <= 10_000 && completion[1] >= 60_000,
		"nothing is measured: %v, %v", prompt, completion)
	if _, completion = guess.EstimateCharge(64); completion[1] != 6400 || completion[0] > completion[1] {
		t.Errorf("an answer has 64 tokens at most: %v", completion)
	}
	known := guess
	known.Measured = extract.Measured{Calls: 40, Tokens: 8000, Reckoned: 16_000, Prompt: 20_000, Completion: 32_000}
	prompt, completion = known.EstimateCharge(0)
	assert.True(t, prompt[0] <= 50_000 && prompt[1] >= 50_000 && completion[0] <= 80_000 && completion[1] >= 80_000 &&
		completion[1] <= 110_000, "a model that writes four times the text: %v, %v", prompt, completion)
	few := (extract.Estimate{}).Plus(known).Plus(known)
	assert.True(t, few.Measured.Calls == 80 && few.Tokens == 40_000, "twice: %+v", few)
}

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
		onBench(t, name, func(t *testing.T, b bench) {
			able := false
			chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
				if able || !strings.HasPrefix(call.Input, "Text ") {
					return stagetest.Says(entities("Text"))(call)
				}
				return bad.answer(call)
			}}
			in := b.in(chat, stagetest.Numbered(120, "Text %d.")...)
			in.Health = stage.NewHealth()
			musttest.Refuse(extract.Run(t.Context(), in))(t, fault.ModelRefused, "the first 20 texts all failed", bad.says)
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
	musttest.Refuse(extract.Run(t.Context(), in))(t, fault.ModelRefused)
	asked := len(chat.Calls())
	for range 3 {
		in.Health.NoteResume(time.Time{})
		musttest.Code(t, musttest.Err(extract.Run(t.Context(), in)), fault.ModelRefused, "a batch that comes late")
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
		musttest.Refuse(extract.Run(t.Context(), in))(t, fault.ModelQuota)
		asked := len(chat.Calls())
		quota, in.Health = false, stage.NewHealth()
		res := stagetest.Must(extract.Run(t.Context(), in))
		assert.True(t, res.Dead == 1 && len(chat.Calls()) == asked+1, "%+v after %d calls more", res, len(chat.Calls())-asked)
	})
}
