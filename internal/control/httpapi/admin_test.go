package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// recorder is a Control that remembers what it was asked and answers as configured.
type recorder struct {
	asked    []any
	operator core.Operator // of a move
	err      error
}

func (r *recorder) ask(method string, input ...any) error {
	r.asked = append([]any{method}, input...)
	return r.err
}

func (r *recorder) BuildIndex(_ context.Context, request control.IndexRequest) (control.Run, error) {
	return control.Run{Run: "docs/g1", Attached: true}, r.ask("index", request)
}

func (r *recorder) ReadStatus(_ context.Context, run string) (control.Status, error) {
	status := control.Status{Report: core.Report{Run: run, Status: core.StatusRunning}, Stage: "extract", Overall: 0.5}
	status.Problems = []core.Problem{{Code: "no_worker", Object: "unweaver", Detail: "none polls"}}
	return status, r.ask("status", run)
}
func (r *recorder) PauseRun(_ context.Context, run string) (control.Stopped, error) {
	return r.stopped(), r.ask("pause", run)
}
func (r *recorder) ResumeRun(_ context.Context, run string, budget *core.Budget) error {
	if budget == nil {
		return r.ask("resume", run)
	}
	return r.ask("resume", run, *budget)
}
func (r *recorder) CancelRun(_ context.Context, run string) (control.Stopped, error) {
	return r.stopped(), r.ask("cancel", run)
}

// stopped returns what the recorder answers to what stops a run.
func (r *recorder) stopped() control.Stopped {
	calls := int64(7)
	return control.Stopped{InFlight: &calls}
}
func (r *recorder) LimitRun(_ context.Context, in control.LimitRequest) error {
	return r.ask("limit", in)
}
func (r *recorder) MarkLost(_ context.Context, run string) error { return r.ask("lost", run) }

func (r *recorder) DeadLetters(_ context.Context, index string) ([]core.Letter, error) {
	return []core.Letter{{Chunk: "c1", Kind: core.LetterContent}}, r.ask("dead-letters", index)
}

func (r *recorder) DeadLetter(_ context.Context, index, chunk string) (core.Letter, error) {
	return core.Letter{Chunk: chunk, Text: "words"}, r.ask("dead-letter", index, chunk)
}

func (r *recorder) DiscardLetters(_ context.Context, request control.LettersRequest) error {
	return r.ask("discard", request.Name, request.Chunks, request.Why)
}

func (r *recorder) RetryFailed(_ context.Context, request control.LettersRequest) (control.Run, error) {
	return control.Run{Run: request.Name + "/retry-1"}, r.ask("retry-failed", request.Name, request.Chunks)
}

func (r *recorder) PurgeDocuments(_ context.Context, request control.PurgeRequest) (control.PurgeAnswer, error) {
	return control.PurgeAnswer{Run: &control.Run{Run: request.Index + "/purge-1"}}, r.ask("purge", request)
}

func (r *recorder) ListPurges(_ context.Context, request control.PurgesRequest) (control.PurgesAnswer, error) {
	return control.PurgesAnswer{Readmits: 1}, r.ask("purges", request)
}

func (r *recorder) ApplySchedule(_ context.Context, request control.ScheduleRequest) (control.Applied, error) {
	return control.Applied{Index: request.Spec.Index, Change: "created"}, r.ask("schedule-apply", request)
}

func (r *recorder) ListSchedules(context.Context) ([]control.Scheduled, error) {
	return []control.Scheduled{{Index: "docs", Paused: true}}, r.ask("schedules")
}

func (r *recorder) PauseSchedule(_ context.Context, index, note string) error {
	return r.ask("schedule-pause", index, note)
}

func (r *recorder) ResumeSchedule(_ context.Context, index, note string) error {
	return r.ask("schedule-resume", index, note)
}

func (r *recorder) TriggerSchedule(_ context.Context, index string) (control.Triggered, error) {
	return control.Triggered{Index: index, Running: "docs/g1"}, r.ask("schedule-trigger", index)
}

func (r *recorder) DeleteSchedule(_ context.Context, index string) error {
	return r.ask("schedule-delete", index)
}

func (r *recorder) EstimateBuild(_ context.Context, request control.IndexRequest) (core.Estimated, error) {
	report := core.Report{Index: request.Spec.Index, Reason: "dry_run"}
	return core.Estimated{Report: report}, r.ask("estimate", request.Spec.Index)
}

func (r *recorder) ListGenerations(_ context.Context, index string) ([]artifact.Generation, error) {
	return []artifact.Generation{{Generation: "g1", Seq: 7, State: "current"}}, r.ask("generations", index)
}

func (r *recorder) ListIndexes(context.Context) ([]runlog.Card, error) {
	return []runlog.Card{{Index: "docs", Documents: 7}}, r.ask("indexes")
}

func (r *recorder) ListRuns(_ context.Context, index string, limit int) ([]runlog.Summary, error) {
	return []runlog.Summary{{Run: "docs/g1"}}, r.ask("runs", index, limit)
}

func (r *recorder) ReadTrends(_ context.Context, index string, nights int) ([]runlog.Trends, error) {
	return []runlog.Trends{{Index: "docs", Totals: runlog.Totals{Nights: 3}}}, r.ask("trends", index, nights)
}

func (r *recorder) ReadLog(_ context.Context, run string) (runlog.Log, error) {
	return runlog.Log{Letters: []core.Problem{{Code: "dead_letter"}}}, r.ask("log", run)
}

func (r *recorder) RestoreIndex(_ context.Context, index string) (control.Run, error) {
	return control.Run{Run: index + "/restore-1"}, r.ask("restore", index)
}

func (r *recorder) AuditIndex(_ context.Context, request control.AuditRequest) (control.Run, error) {
	return control.Run{Run: request.Index + "/audit-1"}, r.ask("audit", request)
}

func (r *recorder) MoveGeneration(ctx context.Context, request control.MoveRequest) (core.Move, error) {
	r.operator = control.OperatorOf(ctx)
	return core.Move{Index: request.Index, To: request.Generation, Release: 7}, r.ask("move", request)
}

func (r *recorder) ChangeBranch(_ context.Context, request control.BranchRequest) (core.Branch, error) {
	return core.Branch{Name: request.Name, Base: request.Index, Set: request.Set}, r.ask("branch", request)
}

func (r *recorder) ListBranches(_ context.Context, index string) ([]core.Branch, error) {
	return []core.Branch{{Name: "exp", Base: index, Own: true}}, r.ask("branches", index)
}

func (r *recorder) ReadOverlay(_ context.Context, index string) (control.Overlaid, error) {
	overlay := core.Overlay{Index: index, Base: "docs", Set: map[string]string{"keep": "2"}}
	return control.Overlaid{Overlay: overlay, Corpus: "/c"}, r.ask("overlay", index)
}

func (r *recorder) CompareGenerations(_ context.Context, request control.DifferenceRequest) (core.Difference, error) {
	return core.Difference{Index: request.Index, Chunks: core.ChunkDifference{Added: 3}}, r.ask("diff", request)
}

func (r *recorder) ListAliases(_ context.Context, request control.AliasesRequest) (core.AliasList, error) {
	return core.AliasList{Index: request.Index, Searched: core.AliasSearch{Pairs: 3}}, r.ask("aliases", request)
}

func (r *recorder) ListOperations(_ context.Context, index string, limit int) ([]core.Operation, error) {
	return []core.Operation{{ID: "o1", Action: core.ActionTag, Outcome: &core.OperationOutcome{Result: "done"}}},
		r.ask("operations", index, limit)
}

func (r *recorder) StartBackfill(_ context.Context, request control.BackfillRequest) (control.BackfillStarted, error) {
	return control.BackfillStarted{Index: request.Index, Name: request.Name, Again: true}, r.ask("backfill", request)
}

func (r *recorder) ListBackfills(_ context.Context, named control.BackfillNamed) ([]core.Backfill, error) {
	return []core.Backfill{{Index: named.Index, Name: "old"}}, r.ask("backfills", named)
}

func (r *recorder) DeleteIndex(_ context.Context, request control.DeleteRequest) (core.Deletion, error) {
	return core.Deletion{Index: request.Index, Generations: 2}, r.ask("delete", request)
}

func (r *recorder) PauseBackfill(_ context.Context, named control.BackfillNamed) error {
	return r.ask("backfill-pause", named)
}

func (r *recorder) ResumeBackfill(_ context.Context, named control.BackfillNamed) error {
	return r.ask("backfill-resume", named)
}

func (r *recorder) CancelBackfill(_ context.Context, named control.BackfillNamed) error {
	return r.ask("backfill-cancel", named)
}

func (r *recorder) RunDoctor(_ context.Context, spec core.Spec) ([]control.Check, error) {
	return []control.Check{{Name: "worker", Detail: "none polls", Hint: "start one"}}, r.ask("doctor", spec)
}

// methods calls each method of a Control and gives what it answers.
func methods(ctx context.Context, controller control.Control) map[string]func() (any, error) {
	none := func(err error) (any, error) { return struct{}{}, err }
	backfill := control.BackfillNamed{Index: "docs", Name: "old"}
	spec := core.Spec{Index: "docs", Corpus: "/c", Keep: 3, Budget: core.Budget{Calls: 5}}
	return map[string]func() (any, error){
		"index": func() (any, error) {
			return controller.BuildIndex(ctx, control.IndexRequest{Spec: spec, Generation: "g1", ReplaceCorpus: true})
		},
		"status": func() (any, error) { return controller.ReadStatus(ctx, "docs/g1") },
		"pause":  func() (any, error) { return controller.PauseRun(ctx, "docs/g1") },
		"resume": func() (any, error) { return none(controller.ResumeRun(ctx, "docs/g1", nil)) },
		"resume with a budget": func() (any, error) {
			return none(controller.ResumeRun(ctx, "docs/g1", &core.Budget{Money: 2.5}))
		},
		"cancel": func() (any, error) { return controller.CancelRun(ctx, "docs/g1") },
		"limit": func() (any, error) {
			return none(controller.LimitRun(ctx, control.LimitRequest{Run: "docs/g1", Budget: &core.Budget{Calls: 3}}))
		},
		"lost":        func() (any, error) { return none(controller.MarkLost(ctx, "docs/g1")) },
		"estimate":    func() (any, error) { return controller.EstimateBuild(ctx, control.IndexRequest{Spec: spec}) },
		"generations": func() (any, error) { return controller.ListGenerations(ctx, "docs") },
		"restore":     func() (any, error) { return controller.RestoreIndex(ctx, "docs") },
		"move": func() (any, error) {
			return controller.MoveGeneration(ctx, control.MoveRequest{
				Action: core.ActionRollback, Index: "docs", To: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), Force: true,
			})
		},
		"branch": func() (any, error) {
			return controller.ChangeBranch(ctx,
				control.BranchRequest{Index: "docs", Name: "exp", Set: map[string]string{"keep": "2"}, Generation: "g1"})
		},
		"delete": func() (any, error) {
			return controller.DeleteIndex(ctx, control.DeleteRequest{Index: "docs", Confirmed: true})
		},
		"branches": func() (any, error) { return controller.ListBranches(ctx, "docs") },
		"overlay":  func() (any, error) { return controller.ReadOverlay(ctx, "exp") },
		"diff": func() (any, error) {
			return controller.CompareGenerations(ctx, control.DifferenceRequest{Index: "docs", From: "g1", To: "g2"})
		},
		"aliases": func() (any, error) {
			return controller.ListAliases(ctx, control.AliasesRequest{Index: "docs", Suggest: true, File: []byte("prefer A"), Classes: 9})
		},
		"operations": func() (any, error) { return controller.ListOperations(ctx, "docs", 5) },
		"audit": func() (any, error) {
			return controller.AuditIndex(ctx, control.AuditRequest{Index: "docs", Sample: core.Sample{Part: 2, Of: 7}, Repair: true})
		},
		"doctor":       func() (any, error) { return controller.RunDoctor(ctx, spec) },
		"dead-letters": func() (any, error) { return controller.DeadLetters(ctx, "docs") },
		"dead-letter":  func() (any, error) { return controller.DeadLetter(ctx, "docs", "c1") },
		"discard": func() (any, error) {
			return none(controller.DiscardLetters(ctx, control.LettersRequest{Name: "docs", Chunks: []string{"c1"}, Why: "a table"}))
		},
		"schedule-apply": func() (any, error) {
			return controller.ApplySchedule(ctx, control.ScheduleRequest{Spec: spec, Schedule: config.Schedule{Cron: "@daily"}})
		},
		"schedules":        func() (any, error) { return controller.ListSchedules(ctx) },
		"schedule-pause":   func() (any, error) { return none(controller.PauseSchedule(ctx, "docs", "why")) },
		"schedule-resume":  func() (any, error) { return none(controller.ResumeSchedule(ctx, "docs", "why")) },
		"schedule-trigger": func() (any, error) { return controller.TriggerSchedule(ctx, "docs") },
		"schedule-delete":  func() (any, error) { return none(controller.DeleteSchedule(ctx, "docs")) },
		"backfill": func() (any, error) {
			return controller.StartBackfill(ctx, control.BackfillRequest{
				Index: "docs", Name: "old", Choice: core.BackfillChoice{Prefix: "2019/", Documents: []string{"a.md"}},
				Throttle: core.BackfillThrottle{CallsPerMinute: 9},
			})
		},
		"backfills":       func() (any, error) { return controller.ListBackfills(ctx, control.BackfillNamed{Index: "docs"}) },
		"backfill-pause":  func() (any, error) { return none(controller.PauseBackfill(ctx, backfill)) },
		"backfill-resume": func() (any, error) { return none(controller.ResumeBackfill(ctx, backfill)) },
		"backfill-cancel": func() (any, error) { return none(controller.CancelBackfill(ctx, backfill)) },
		"purge": func() (any, error) {
			return controller.PurgeDocuments(ctx, control.PurgeRequest{Index: "docs", Documents: []string{"a.md"}, Confirmed: true})
		},
		"purges": func() (any, error) {
			return controller.ListPurges(ctx, control.PurgesRequest{Index: "docs", Readmit: []string{"a.md"}})
		},
		"retry-failed": func() (any, error) {
			return controller.RetryFailed(ctx, control.LettersRequest{Name: "docs", Chunks: []string{"c1"}})
		},
	}
}

func serve(t *testing.T, controller control.Control) *httpapi.Client {
	t.Helper()
	server := httptest.NewServer(httpapi.Handler(controller, httpapi.Access{Token: "token"}))
	t.Cleanup(server.Close)
	return &httpapi.Client{Base: server.URL, Token: "token"}
}

func TestEveryMethodArrivesAndComesBackWhole(t *testing.T) {
	direct, remote := &recorder{}, &recorder{}
	near, far := methods(t.Context(), direct), methods(t.Context(), serve(t, remote))
	for name := range near {
		t.Run(name, func(t *testing.T) {
			want, err := near[name]()
			require.NoError(t, err)
			got, err := far[name]()
			require.NoError(t, err)
			assert.Equal(t, want, got, "answered")
			assert.Equal(t, direct.asked, remote.asked, "asked")
		})
	}
}

// Who asks says who they are and why; what they have shown is added where they show it.
// Promises: 40.
func TestWhoAsksArrivesWithWhatTheyHaveShown(t *testing.T) {
	remote := &recorder{}
	client := serve(t, remote)
	said := core.Operator{By: "Žofie <z@büro>", Reason: "bad answers\nsince 2%", Via: "key of nobody"}
	_, err := client.MoveGeneration(control.WithOperator(t.Context(), said), control.MoveRequest{Action: "tag", Index: "docs"})
	want := (core.Operator{By: said.By, Reason: said.Reason, Via: "token"})
	assert.True(t, err == nil && remote.operator == want, "%+v, want %+v; %v", remote.operator, want, err)
}

func TestEveryMethodsFaultComesBackWhole(t *testing.T) {
	for name, sent := range map[string]*fault.Error{
		"all parts": fault.LeaseHeld.At("index", "docs").Because("run docs/g1 builds it").Advise("wait for it"),
		"no cause":  fault.RunNotFound.At("find run of", "docs").Advise("build it"),
		"no hint":   fault.StoreDown.At("read", "redis").Because(fmt.Errorf("dial: %w", io.EOF)),
		"code only": fault.Internal.At("", ""),
	} {
		t.Run(name, func(t *testing.T) {
			for method, do := range methods(t.Context(), serve(t, &recorder{err: sent})) {
				_, err := do()
				got := fault.As(err)
				assert.True(t, got != nil && got.Code == sent.Code && got.Kind == sent.Kind && got.Op == sent.Op &&
					got.Object == sent.Object && got.Hint == sent.Hint && got.Error() == sent.Error(), "%s: got %#v, want %#v", method,
					got, sent)
			}
		})
	}
}

func TestAnErrorOfNoCodeIsInternal(t *testing.T) {
	_, err := serve(t, &recorder{err: errors.New("odd")}).ReadStatus(t.Context(), "docs")
	assert.True(t, fault.Is(err, fault.Internal) && strings.Contains(err.Error(), "odd"), "got %v", err)
}

func TestTheTokenIsNeeded(t *testing.T) {
	controller := &recorder{}
	client := serve(t, controller)
	for name, token := range map[string]string{
		"another":      "tokem",
		"a part":       "toke",
		"a longer one": "token2",
		"none":         "",
	} {
		t.Run(name, func(t *testing.T) {
			stranger := &httpapi.Client{Base: client.Base, Token: token}
			_, err := stranger.CancelRun(t.Context(), "docs/g1")
			assert.True(t, fault.Is(err, fault.EngineDown) && strings.Contains(err.Error(), "401") &&
				strings.Contains(err.Error(), "dev.json"), "got %v", err)
		})
	}
	assert.True(t, controller.asked == nil, "a stranger did %v", controller.asked)
}

// whose is a Control that remembers whether the owner of the installation asked.
type whose struct {
	recorder
	another []bool
}

func (w *whose) BuildIndex(ctx context.Context, request control.IndexRequest) (control.Run, error) {
	w.another = append(w.another, control.OfAnother(ctx))
	return w.recorder.BuildIndex(ctx, request)
}

func TestAKeyThatOnlyOperatesDoesNotAskAsTheOwner(t *testing.T) {
	for text, another := range map[string]bool{"token": false, "operates": true, "administers": false} {
		controller := &whose{}
		server := httptest.NewServer(httpapi.Handler(controller, httpapi.Access{
			Token: "token", Check: func(_ context.Context, text string) (*access.Key, error) {
				scope := map[string]access.Scope{"operates": access.Operate, "administers": access.Admin}[text]
				return &access.Key{Scope: scope, Index: "*"}, nil
			},
		}))
		client := &httpapi.Client{Base: server.URL, Token: text}
		_, err := client.BuildIndex(t.Context(), control.IndexRequest{Spec: core.Spec{Index: "docs"}})
		assert.NoError(t, err)
		want := []bool{another}
		assert.True(t, reflect.DeepEqual(controller.another, want), "%s: %v, want %v", text, controller.another, want)
		server.Close()
	}
}

func TestRequestsThatAreNotOurs(t *testing.T) {
	controller := &recorder{}
	client := serve(t, controller)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		says               string
	}{
		"not valid JSON": {"POST", "pause", "{", http.StatusConflict, `"usage"`},
		"an empty body":  {"POST", "pause", "", http.StatusConflict, `"usage"`},
		"a body without end": {
			"POST", "pause", `{"name":"` + strings.Repeat("a", 5<<20), http.StatusConflict, `"usage"`,
		},
		"a method of the next years": {"POST", "purge-all", "{}", http.StatusNotFound, ""},
		"a look":                     {"GET", "pause", "", http.StatusMethodNotAllowed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), c.method, client.Base+httpapi.Prefix+c.path,
				strings.NewReader(c.body))
			require.NoError(t, err)
			request.Header.Set("Authorization", "Bearer token")
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			defer func() { _ = response.Body.Close() }()
			body, _ := io.ReadAll(response.Body)
			assert.True(t, response.StatusCode == c.status && strings.Contains(string(body), c.says),
				"%d %s", response.StatusCode, body)
		})
	}
	assert.True(t, controller.asked == nil, "it did %v", controller.asked)
}

func TestAnAddressThatIsNoStack(t *testing.T) {
	answer := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	for name, c := range map[string]struct{ base, says string }{
		"nothing listens":       {"http://127.0.0.1:1", "to start it: unweaver dev"},
		"another program":       {answer(200, "<html>"), "read the answer of status"},
		"half a fault":          {answer(409, `{"code":`), "read the answer of status"},
		"a program that fails":  {answer(500, "boom\n"), "500 Internal Server Error: boom"},
		"another version of us": {answer(404, "404 page not found"), "with this version"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&httpapi.Client{Base: c.base, Token: "token"}).ReadStatus(t.Context(), "docs")
			assert.True(t, fault.Is(err, fault.EngineDown) && strings.Contains(err.Error(), c.says) &&
				strings.Contains(err.Error(), c.base), "got %v", err)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := (&httpapi.Client{Base: "http://127.0.0.1:1"}).PauseRun(ctx, "docs")
	assert.True(t, errors.Is(err, context.Canceled), "the caller's own end is %v", err)
}

func TestANameThatCouldBeAPathReachesNothing(t *testing.T) {
	asked := &recorder{}
	server := httptest.NewServer(httpapi.Handler(asked, httpapi.Access{Token: "token"}))
	defer server.Close()
	post := func(method, body string) (int, string) {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+httpapi.Prefix+method,
			strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer token")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		raw, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(raw)
	}
	for _, method := range []string{"status", "pause", "resume", "cancel", "lost", "generations", "restore"} {
		for _, name := range []string{
			"../../../../etc", "docs/../x", "/etc", "docs//g1", "", "a/b/c/d", "docs/g1#../x", "docs\\u0000", "_access",
		} {
			status, text := post(method, `{"name":"`+name+`"}`)
			assert.True(t, status == http.StatusConflict && strings.Contains(text, `"usage"`), "%s %s: %d %s", method, name,
				status, text)
		}
	}
	if status, text := post("audit", `{"index":"../x"}`); status != http.StatusConflict {
		t.Errorf("audit: %d %s", status, text)
	}
	if status, text := post("index", `{"spec":{"index":"../x"}}`); status != http.StatusConflict {
		t.Errorf("index: %d %s", status, text)
	}
	for _, body := range []string{
		`{"index":"../x"}`, `{"index":"docs","generation":"../../x"}`, `{"index":"docs","name":"a/b"}`,
	} {
		status, text := post("move", body)
		assert.True(t, status == http.StatusConflict, "move: %d %s", status, text)
	}
	assert.True(t, asked.asked == nil, "it came through: %v", asked.asked)
	for _, name := range []string{"docs", "docs/g1", "build/docs/g1", "docs/g1#3f0c-aa"} {
		status, text := post("status", `{"name":"`+name+`"}`)
		assert.True(t, status == http.StatusOK, "%s: %d %s", name, status, text)
	}
}

// A value of a wrong type is refused by the path of its field and what that takes, on every route, and no message has
// the name of a Go type.
func TestAValueOfAWrongTypeIsNamedByItsPath(t *testing.T) {
	handler := httpapi.Handler(&recorder{}, httpapi.Access{Token: "t"})
	goName := regexp.MustCompile(`\b(json|jsontext|struct|Go|control|core|access|httpapi|int\d*|bool|map|time\.Time)\b`)
	refused := func(route, body string) string {
		request := httptest.NewRequest(http.MethodPost, httpapi.Prefix+route, strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer t")
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		var problem struct{ Code, Cause string }
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &problem), "%s %s: %s", route, body, recorder.Body)
		assert.Equal(t, "usage", problem.Code, "%s %s", route, body)
		assert.NotRegexp(t, goName, problem.Cause)
		return problem.Cause
	}
	source, err := os.ReadFile("routes.go")
	require.NoError(t, err)
	routes := regexp.MustCompile(`\(mux, "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(routes), 35)
	for _, route := range routes {
		assert.Equal(t, "want an object, got a list", refused(route[1], "[]"), route[1])
	}
	for body, want := range map[string]string{
		``:                                  "it is empty",
		`{"spec":`:                          "it is not valid JSON: unexpected EOF",
		`{"spec":5}`:                        "spec: want an object, got a number",
		`{"spec":{"chat":{"model":{}}}}`:    "spec.chat.model: want a text, got an object",
		`{"spec":{"keep":"5"}}`:             "spec.keep: want a whole number, got a text",
		`{"spec":{"keep":1.5}}`:             "spec.keep: want a whole number that it can hold",
		`{"spec":{"include":"a"}}`:          "spec.include: want a list, got a text",
		`{"spec":{"include":["a",true]}}`:   "spec.include.1: want a text, got true",
		`{"spec":{"grace":5}}`:              "spec.grace: want a text, got a number",
		`{"rebuild":"yes"}`:                 "rebuild: want true or false, got a text",
		`{"spec":{"budget":{"money":"5"}}}`: "spec.budget.money: want a number, got a text",
	} {
		assert.Equal(t, want, refused("index", body), body)
	}
}
