package service_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/workflows"
)

// working writes the state of a run in its extract stage, with what two batches and an older attempt of one wrote.
func working(b *bench) {
	now := time.Now().UTC()
	b.temporal.Executions["build/docs/g1"] = running
	state := core.RunState{Stage: "extract", Total: 100, StageAt: now.Add(-10 * time.Second), Workflow: "build/docs/g1"}
	state.Report.Status, state.Report.Started = core.StatusRunning, now.Add(-20*time.Second)
	b.setState("docs/g1", state)
	account := func(done, calls int64) run.Account {
		return run.Account{
			Done: map[string]int64{"chunk": 50, "extract": done}, Calls: core.Calls{Extract: calls},
			Lately: map[string]run.Lately{"extract": {Done: float64(done), Seconds: 10.9}}, Moved: time.Now(),
			Tokens: core.Tokens{Prompt: 10 * calls},
		}
	}
	for worker, done := range map[string]run.Account{"a": account(30, 30), "b": account(7, 7)} {
		musttest.Get2(b.Stores.Coordination.ExchangeAccount(b.t.Context(), "docs/g1", worker, encode(b.t, done)))(b.t)
	}
	for key, problem := range map[string]core.Problem{
		"b": {Code: "model_rejected", Object: "d2", Detail: "second"},
		"a": {Code: "unreadable_document", Object: "d1", Detail: "first"},
	} {
		b.must(b.Stores.Coordination.SetProblem(b.t.Context(), "docs/g1", key, encode(b.t, problem)))
	}
}

func TestAStatusMergesWhatIsKnown(t *testing.T) {
	b := newBench(t)
	working(b)
	for _, name := range []string{"docs/g1", "build/docs/g1", "docs"} {
		got, err := b.ReadStatus(t.Context(), name)
		require.True(t, err == nil && got.Run == "docs/g1" && got.Status == core.StatusRunning && got.Stage == "extract",
			"%s: %+v, %v", name, got, err)
		last := got.Stages[len(got.Stages)-1]
		assert.True(t, last.Name == "extract" && last.Done == 37 && last.Total == 100,
			"stage %+v, want the sum of all processes, 37 of 100", last)
		assert.True(t, got.Calls.Extract == 37 && got.Tokens.Prompt == 370,
			"paid %+v, %+v; want what every process paid", got.Calls, got.Tokens)
		assert.True(t, len(got.Problems) == 2 && got.Problems[0].Detail == "first", "problems %+v", got.Problems)
		assert.False(t, got.Rate < 3 || got.Rate > 3.8 || got.Overall <= 0.2 || got.Overall >= 0.5 || got.ETASeconds <= 0,
			"rate %g, overall %g, left %g", got.Rate, got.Overall, got.ETASeconds)
	}
}

// A store that is full, or away, is the one that a problem would be written to: the process reports it itself.
func TestAStatusHoldsWhatTheProcessCouldNotWriteDown(t *testing.T) {
	b := newBench(t)
	working(b)
	full := core.Problem{Code: "store_full", Object: "ledger", Detail: "in memory"}
	shown := core.Problem{Code: "model_rejected", Object: "d2", Detail: "second"} // it is written down too
	b.Problems = func(work string) []core.Problem {
		assert.Equal(t, "docs/g1", work, "asked about")
		return []core.Problem{full, shown}
	}
	got, err := b.ReadStatus(t.Context(), "docs")
	assert.True(t, err == nil && len(got.Problems) == 3 && got.Problems[2] == full, "%+v, %v", got.Problems, err)
}

func TestAStatusWithoutOneOfItsSources(t *testing.T) {
	for name, c := range map[string]struct {
		prepare                    func(*bench)
		status, reason, note, says string
	}{
		"no progress can be read": {func(b *bench) {
			b.classes.progress = fault.StoreDown.At("read progress from", "redis").Because(errDown)
		}, core.StatusRunning, "", "store_unavailable", "connection refused"},
		"Temporal is down": {func(b *bench) {
			b.temporal.Down = serviceerror.NewUnavailable("connection refused")
		}, core.StatusRunning, "", "engine_unavailable", "127.0.0.1:7233"},
		"the control record is damaged": {func(b *bench) {
			b.must(b.Stores.Coordination.SetControl(b.t.Context(), "docs/g1", []byte("{")))
		}, core.StatusRunning, "", "segment_damaged", "pause or resume the run, which writes the record again"},
		"the state is damaged": {func(b *bench) {
			b.putState("{")
		}, core.StatusRunning, "", "segment_damaged", "paid results are safe"},
		"Temporal has forgotten the run": {func(b *bench) {
			delete(b.temporal.Executions, "build/docs/g1")
		}, core.StatusFailed, "gone", "unknown_run", "unweaver cancel docs/g1 --lost"},
		"it was terminated": {func(b *bench) {
			b.temporal.Executions["build/docs/g1"] = terminated
		}, core.StatusFailed, "terminated", "", ""},
		"it was terminated, its state damaged": {func(b *bench) {
			b.temporal.Executions["build/docs/g1"] = terminated
			b.putState("{")
		}, core.StatusFailed, "terminated", "segment_damaged", "read the state of run"},
		"there is no state yet": {func(b *bench) { b.putState("") }, core.StatusRunning, "", "", ""},
		"no worker polls": {func(b *bench) {
			b.putState("{}")
			b.temporal.Pollers = 0
		}, core.StatusRunning, "", "no_worker", "start unweaver-worker"},
		"no worker computes": {func(b *bench) {
			b.temporal.Computers = 0
		}, core.StatusRunning, "", "no_worker", "worker.role all or cpu"},
		"no worker computes, nor need it": {func(b *bench) {
			b.temporal.Computers, b.temporal.Kind = 0, workflows.AuditName
		}, core.StatusRunning, "", "", ""},
		"only its report is left": {func(b *bench) {
			b.writeReport("g1", core.StatusHeld)
			b.putState("{}")
			delete(b.temporal.Executions, "build/docs/g1")
		}, core.StatusHeld, "", "", ""},
		"a gate held it, and an operator published it": {func(b *bench) {
			b.writeReport("g1", core.StatusHeld)
			b.putState("{}")
			b.write(b.art.GenerationKey("g1", "manifest.json"), `{"state":"published"}`)
		}, core.StatusHeld, "", "", ""},
		"its report, and no class store": {func(b *bench) {
			b.writeReport("g1", core.StatusCompleted)
			noClasses(b)
		}, core.StatusCompleted, "", "", ""},
		"it ended, the report is not written": {func(b *bench) {
			b.setState("docs/g1", state(core.StatusFailed))
			b.temporal.Executions["build/docs/g1"] = completed
		}, core.StatusFailed, "", "", ""},
	} {
		onBench(t, name, func(t *testing.T, b *bench) {
			working(b)
			c.prepare(b)
			got, err := b.ReadStatus(t.Context(), "docs/g1")
			require.True(t, err == nil && got.Status == c.status && got.Reason == c.reason && got.Run == "docs/g1",
				"%+v, %v; want %s %s", got, err, c.status, c.reason)
			assert.Equal(t, strings.Contains(name, "operator published"), got.Published)
			found := c.note == ""
			for _, problem := range got.Problems {
				if problem.Code == c.note && strings.Contains(problem.Detail, c.says) && problem.Object != "" {
					found = true
				}
			}
			assert.True(t, found, "no problem %q with %q in %+v", c.note, c.says, got.Problems)
		})
	}
}

func TestAStatusThatCannotBeTold(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*bench)
		run     string
		code    fault.Code
		says    string
	}{
		"an index that was never built":  {func(*bench) {}, "docs", fault.RunNotFound, "unweaver index CORPUS --index docs"},
		"a run that never was":           {func(*bench) {}, "docs/g1", fault.RunNotFound, "status"},
		"a name of no run":               {func(*bench) {}, "a/b/c", fault.InvalidParam, "a run is index/generation"},
		"neither report nor class store": {noClasses, "docs/g1", fault.StoreDown, "connection refused"},
		"an index, and no class store":   {noClasses, "docs", fault.StoreDown, "connection refused"},
	} {
		onBench(t, name, func(t *testing.T, b *bench) {
			c.prepare(b)
			musttest.Refuse(b.ReadStatus(t.Context(), c.run))(t, c.code, c.says)
		})
	}
}

func TestAnIndexStandsForItsNewestRun(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*bench)
		want    string
	}{
		"what runs":       {func(b *bench) { b.temporal.Executions["build/docs/g2"] = running }, "docs/g2"},
		"what ended last": {func(*bench) {}, "docs/g3"},
		"the later of two": {func(b *bench) {
			b.temporal.Executions["build/docs/g2"] = running
			b.temporal.Executions["build/docs/g5"] = running
		}, "docs/g5"},
		"a remembered run ended": {
			func(b *bench) { b.remember("docs/g2"); b.temporal.Executions["build/docs/g2"] = completed }, "docs/g3",
		},
		"a memory of nonsense": {func(b *bench) { b.remember("what is this?") }, "docs/g3"},
	} {
		onBench(t, name, func(t *testing.T, b *bench) {
			b.writeReport("g9", core.StatusCompleted)
			b.dated("g9", time.Now().Add(-time.Minute)) // reports are compared by when their files were written
			b.writeReport("g3", core.StatusFailed)
			b.write(b.art.GenerationKey("g4", "dead-letters/report.json"), "{}")
			c.prepare(b)
			got, err := b.ReadStatus(t.Context(), "docs")
			assert.True(t, err == nil && got.Run == c.want, "got %s, %v; want %s", got.Run, err, c.want)
		})
	}
}

// A report that a wrong clock dated a year ahead would stand for its index for a year.
func TestAReportFromTheFutureDoesNotHideTheOthers(t *testing.T) {
	b := newBench(t)
	b.writeReport("g1", core.StatusFailed)
	b.dated("g1", time.Now().AddDate(1, 0, 0))
	got, err := b.ReadStatus(t.Context(), "docs")
	assert.True(t, err == nil && got.Run == "docs/g1", "the only one: %s, %v", got.Run, err)
	b.writeReport("g2", core.StatusCompleted)
	got, err = b.ReadStatus(t.Context(), "docs")
	assert.True(t, err == nil && got.Run == "docs/g2", "got %s, %v", got.Run, err)
}

func (b *bench) dated(generation string, at time.Time) {
	b.must(os.Chtimes(b.Stores.Artifacts.Location(b.art.GenerationKey(generation, "report.json")), at, at))
}

func TestARunThatWaitsSaysForWhatSinceWhenAndUntilWhen(t *testing.T) {
	b := newBench(t)
	b.temporal.Executions["build/docs/g1"] = running
	since := time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
	waits := state(core.StatusWaiting)
	waits.Report.Reason, waits.Report.Detail = "store_unavailable", "read from s3: connection refused"
	waits.Waiting = &core.Waiting{Since: since, Next: since.Add(70 * time.Minute), Tries: 9}
	b.setState("docs/g1", waits)
	got := musttest.Get(b.ReadStatus(t.Context(), "docs/g1"))(t)
	require.True(t, got.Status == core.StatusWaiting && got.Reason == "store_unavailable" && got.Detail != "", "%+v", got)
	assert.True(t, got.Waiting != nil && got.Waiting.Since.Equal(since) &&
		got.Waiting.Next.Equal(since.Add(70*time.Minute)) && got.Waiting.Tries == 9, "waiting %+v", got.Waiting)
	b.temporal.Executions["build/docs/g1"] = terminated
	got, err := b.ReadStatus(t.Context(), "docs/g1")
	assert.True(t, err == nil && got.Waiting == nil && got.Status == core.StatusFailed, "terminated: %+v, %v", got, err)
}

func (b *bench) putState(raw string) {
	b.must(b.Stores.Coordination.SetState(b.t.Context(), "docs/g1", []byte(raw)))
}

func noClasses(b *bench) {
	b.classes.state = fault.StoreDown.At("read state from", "redis").Because(errDown)
}

func (b *bench) remember(work string) {
	b.must(b.Stores.Coordination.SetState(b.t.Context(), "latest:docs", []byte(work)))
}

func checks(t *testing.T, b *bench, spec core.Spec) map[string]control.Check {
	all := musttest.Get(b.RunDoctor(t.Context(), spec))(b.t)
	out := map[string]control.Check{}
	for _, check := range all {
		out[check.Name] = check
	}
	return out
}

func TestDoctorFindsWhatIsSound(t *testing.T) {
	b := newBench(t)
	got := checks(t, b, b.spec("docs"))
	for _, name := range []string{
		"artifacts", "conditional writes", "classes", "vectors", "temporal", "worker", "computing worker", "corpus",
		"chat model", "embedding model", "temporary folder",
	} {
		check, ok := got[name]
		assert.True(t, ok && check.OK && check.Detail != "", "%s: %+v", name, check)
	}
	_, ok := got["import bucket"]
	assert.False(t, ok, "there is no import bucket")
	b.Stores.Staging = b.Stores.Artifacts
	check := checks(t, b, b.spec("docs"))["import bucket"]
	assert.True(t, check.OK && check.Detail != "", "%+v", check)
	for _, folder := range []string{"doctor/", "unweaver-import/"} {
		for info, err := range b.Stores.Artifacts.List(t.Context(), folder, "") {
			t.Errorf("a probe was left behind: %s, %v", info.Key, err)
		}
	}
}

// refusing is a corpus that refuses the tags of some objects.
type refusing struct {
	blob.Store
	of string // in their keys
}

func (r refusing) ReadTags(_ context.Context, key string) (map[string]string, error) {
	if strings.Contains(key, r.of) {
		return nil, fault.StoreDenied.At("read tags of", key).Because(blob.ErrTagsRefused)
	}
	return map[string]string{}, nil
}

func TestDoctorAsksForTagsOfSomeObjects(t *testing.T) {
	b := newBench(t)
	spec := b.spec("docs")
	spec.Documents = &core.Documents{S3Tags: true}
	assert.Contains(t, checks(t, b, spec)["tags of objects"].Detail, "given for ")
	corpus := blobmemory.New()
	for i := range 12 {
		musttest.Get(blob.Write(t.Context(), corpus, fmt.Sprintf("%02d.txt", i), []byte("x"), blob.Cond{}))(t)
	}
	for of, want := range map[string]string{
		"none": "given for 8 objects", "03": `refused for 1 of 8 objects: "03.txt"`, "": "",
	} {
		detail, err := service.ProbeTags(t.Context(), refusing{corpus, of})
		assert.True(t, detail == want && fault.Is(err, fault.StoreDenied) == (want == ""), "%q: %q, %v", of, detail, err)
	}
}

// Models of roles are probed once each, and a check names the roles of its model.
func TestDoctorProbesEachModelOnce(t *testing.T) {
	b := newBench(t)
	server := modeltest.Start(t, modeltest.Options{})
	b.Models.AllowEndpoints(config.Endpoint{BaseURL: server.URL})
	spec := b.spec("docs")
	large := core.ChatModel{Provider: "openai", BaseURL: server.URL, Model: "large"}
	spec.Roles = map[string]core.ChatModel{core.RoleShortening: large, core.RoleAnswer: large}
	got := checks(t, b, spec)
	assert.Contains(t, got["chat model of extraction, triples"].Detail, "built-in")
	assert.Contains(t, got["chat model of shortening, answer"].Detail, "openai:large answers")
	assert.EqualValues(t, 1, server.Stats().Chat)
	assert.NotContains(t, got, "chat model")
}

func TestDoctorSaysWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		prepare      func(*bench, *core.Spec)
		detail, hint string
	}{
		"classes":  {func(b *bench, _ *core.Spec) { b.records.ping = errDown }, "connection refused", ""},
		"temporal": {func(b *bench, _ *core.Spec) { b.temporal.Down = errDown }, "connection refused", "engine.address"},
		"worker":   {func(b *bench, _ *core.Spec) { b.temporal.Pollers = 0 }, "no worker polled", "start unweaver-worker"},
		"computing worker": {
			func(b *bench, _ *core.Spec) { b.temporal.Computers = 0 }, "unweaver-cpu", "worker.role all or cpu",
		},
		"corpus": {func(_ *bench, spec *core.Spec) { spec.Corpus = "/nowhere/at/all" }, "/nowhere/at/all", ""},
		"chat model": {func(_ *bench, spec *core.Spec) {
			spec.Chat = core.ChatModel{Provider: "openai", APIKeyEnv: "OPS_TEST_UNSET"}
		}, "OPS_TEST_UNSET, which models.chat.api_key_env names, is empty", "set it"},
		"import bucket": {
			func(b *bench, _ *core.Spec) { b.Stores.Staging = readOnly{b.Stores.Artifacts} }, "read only", "credentials",
		},
		"import bucket, unlisted": {
			func(b *bench, _ *core.Spec) { b.Stores.Staging = unlisted{b.Stores.Artifacts} }, "no such right",
			"list, read, write and delete below unweaver-import/",
		},
		"import bucket, kept": {
			func(b *bench, _ *core.Spec) { b.Stores.Staging = undeleted{b.Stores.Artifacts} }, "no such right",
			"list, read, write and delete below unweaver-import/",
		},
		"conditional writes": {
			func(b *bench, _ *core.Spec) { b.Stores.Artifacts = unconditional{b.Stores.Artifacts} }, "ignores If-None-Match",
			"conditional writes",
		},
		"embedding model": {func(_ *bench, spec *core.Spec) {
			t.Setenv("OPS_TEST_KEY", "k")
			spec.Embedding = core.EmbedModel{Provider: "openai", BaseURL: "http://127.0.0.1:1/v1", APIKeyEnv: "OPS_TEST_KEY"}
		}, "http://127.0.0.1:1/v1/embeddings", "base_url"},
	} {
		onBench(t, name, func(t *testing.T, b *bench) {
			spec := b.spec("docs")
			c.prepare(b, &spec)
			got := checks(t, b, spec)
			probe, _, _ := strings.Cut(name, ",")
			check := got[probe]
			assert.True(t, !check.OK && strings.Contains(check.Detail, c.detail) && strings.Contains(check.Hint, c.hint), "%+v",
				check)
			assert.True(t, got["temporary folder"].OK && got["vectors"].OK, "one failure hid the rest")
		})
	}
}

func TestRunsAreListedTheFinishedOnesToo(t *testing.T) {
	b := newBench(t)
	b.writeReport("g1", core.StatusCompleted)
	b.writeReport("g2", core.StatusHeld)
	began := time.Now().Add(-time.Minute)
	b.setState("docs/g3", core.RunState{
		Report: core.Report{Status: core.StatusRunning, Started: began}, Stage: "extract", Total: 10, StageAt: began,
	})
	b.remember("docs/g3")
	b.temporal.Executions["build/docs/g3"] = running
	runs := musttest.Get(b.ListRuns(t.Context(), "", 0))(b.t)
	require.True(t, len(runs) == 3 && runs[0].Run == "docs/g3" && runs[0].Status == core.StatusRunning &&
		runs[0].Stage == "extract", "%+v", runs)
	b.temporal.Executions["build/docs/g3"] = terminated
	runs, err := b.ListRuns(t.Context(), "docs", 1)
	assert.True(t, err == nil && len(runs) == 1 && runs[0].Status == core.StatusFailed && runs[0].Reason == "gone",
		"a run that was ended from outside: %+v, %v", runs, err)
	cards, err := b.ListIndexes(t.Context())
	assert.True(t, err == nil && len(cards) == 1 && cards[0].State == runlog.StateEmpty && cards[0].Running == nil &&
		cards[0].LastRun != nil && cards[0].LastRun.Run == "docs/g3", "%+v, %v", cards, err)
	musttest.Refuse(b.ListRuns(t.Context(), "other", 0))(t, fault.RunNotFound, "never built", "--index other")
	musttest.Refuse(b.ListRuns(t.Context(), "../docs", 0))(t, fault.InvalidParam, "name index")
}

func cancelling(b *bench, work string) {
	b.must(b.Stores.Coordination.SetControl(b.t.Context(), work, encode(b.t, run.Control{Stop: run.CommandCancel})))
}

func TestABuildDoesNotJoinOneThatIsBeingCancelled(t *testing.T) {
	inTime(t, func(t *testing.T, b *bench) {
		first := musttest.Get(b.BuildIndex(t.Context(), indexRequest(b, "docs", "")))(b.t)
		cancelling(b, first.Run)
		go func() {
			time.Sleep(3 * time.Second)
			b.temporal.Mu.Lock()
			defer b.temporal.Mu.Unlock()
			b.temporal.Executions["build/"+first.Run] = terminated
		}()
		began := time.Now()
		second, err := b.BuildIndex(t.Context(), indexRequest(b, "docs", ""))
		assert.True(t, err == nil && !second.Attached && second.Run != first.Run, "%+v, %v", second, err)
		waited := time.Since(began)
		assert.True(t, waited >= 3*time.Second && waited <= 10*time.Second, "it waited %s for the end of the other", waited)
		cancelling(b, second.Run) // and no worker is there to end it
		_, err = b.BuildIndex(t.Context(), indexRequest(b, "docs", ""))
		musttest.Fail(t, err, fault.LeaseHeld, second.Run+" is being cancelled", "unweaver status "+second.Run)
	})
}

func TestAnIndexWithoutAReportNamesWhoHoldsItsLease(t *testing.T) {
	b := newBench(t)
	_, err := b.ReadStatus(t.Context(), "docs")
	musttest.Fail(t, err, fault.RunNotFound, "never built")
	b.hold(foreign)
	_, err = b.ReadStatus(t.Context(), "docs")
	musttest.Fail(t, err, fault.RunNotFound, "run docs/g1 of Temporal at temporal.example:7233 holds the lease",
		"unweaver cancel docs/g1 --lost")
}

// The stores answer and have lost what is served: ls and doctor name the index and the command that writes it again.
func TestAnIndexThatCannotBeServedIsSeen(t *testing.T) {
	look := func(b *bench) (runlog.Card, control.Check) {
		cards := musttest.Get(b.ListIndexes(t.Context()))(b.t)
		require.Len(t, cards, 1, "%+v", cards)
		return cards[0], checks(t, b, b.spec("docs"))["indexes"]
	}
	for name, lose := range map[string]func(*bench){
		"a collection": func(b *bench) { b.must(b.Stores.Vectors.Drop(t.Context(), "docs-chunks")) },
		"a collection made again": func(b *bench) {
			b.must(b.Stores.Vectors.Drop(t.Context(), "docs-classes"))
			b.must(b.Stores.Vectors.Create(t.Context(), "docs-classes", 3))
		},
		"a segment":                  func(b *bench) { b.must(b.art.Store.Delete(t.Context(), b.art.SegmentKey(segment))) },
		"a part of a segment":        func(b *bench) { b.write(b.art.SegmentKey(segment), "") },
		"the entity or vector store": func(b *bench) { b.Stores.Records = recordsmemory.New() },
	} {
		onBench(t, name, func(t *testing.T, b *bench) {
			b.publish()
			for _, collection := range []string{"docs-classes", "docs-chunks"} {
				b.must(b.Stores.Vectors.Create(t.Context(), collection, 3))
			}
			current, _, err := b.art.ReadPointer(t.Context())
			b.must(err)
			manifest := musttest.Get(b.art.ManifestOf(t.Context(), current))(b.t)
			proven := musttest.Get(unit.ReadIdentities(t.Context(), b.Stores.Records, b.Stores.Vectors, manifest.Collections))(t)
			proven.Manifest = current.Manifest
			musttest.Get(blob.WriteJSON(t.Context(), b.art.Store, unit.ProvenKey(b.art), proven, blob.Cond{}))(b.t)
			card, check := look(b)
			assert.True(t, card.State == runlog.StatePublished && card.Detail == "" && check.OK, "whole: %+v, %+v", card, check)
			lose(b)
			card, check = look(b)
			assert.True(t, card.State == runlog.StateDamaged && strings.Contains(card.Detail, "unweaver restore docs"),
				"ls: %+v", card)
			assert.True(t, !check.OK && strings.Contains(check.Detail, "1 of 1") && strings.Contains(check.Hint, "restore docs"),
				"doctor: %+v", check)
		})
	}
}

func TestEveryCommandRefusesWhatIsNoName(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{
		"../../../../etc", "..", "ledger", "doctor", "", "docs/../../x", "ledger/g1", "a b", "docs/g1/",
	} {
		for command, err := range map[string]error{
			"index": second(b.BuildIndex(t.Context(), control.IndexRequest{Spec: b.spec(name)})),
			"generation": second(b.BuildIndex(t.Context(),
				control.IndexRequest{Spec: b.spec("docs"), Generation: "../" + name})),
			"estimate":    second(b.EstimateBuild(t.Context(), control.IndexRequest{Spec: b.spec(name)})),
			"status":      second(b.ReadStatus(t.Context(), name)),
			"pause":       b.PauseRun(t.Context(), name),
			"resume":      b.ResumeRun(t.Context(), name, &core.Budget{Calls: 1}),
			"cancel":      b.CancelRun(t.Context(), name),
			"lost":        b.MarkLost(t.Context(), name),
			"generations": second(b.ListGenerations(t.Context(), name)),
			"restore":     second(b.RestoreIndex(t.Context(), name)),
			"audit":       second(b.AuditIndex(t.Context(), control.AuditRequest{Index: name})),
		} {
			assert.True(t, fault.Is(err, fault.InvalidParam), "%s %q: %v", command, name, err)
		}
	}
	assert.True(t, len(b.temporal.Started)+len(b.temporal.Updates)+len(b.temporal.Queries) == 0, "%+v", b.temporal)
}

func second[T any](_ T, err error) error { return err }
