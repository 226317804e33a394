package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

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
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/controltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// answering is a control that gives an answer which is not empty to each command.
func answering() *controltest.Recorder {
	status := control.Status{Report: core.Report{Run: "docs/g1", Reason: "dry_run"}, Stage: "extract", Overall: 0.5}
	status.Problems = []core.Problem{{Code: "no_worker", Object: "unweaver", Detail: "none polls"}}
	overlay := core.Overlay{Index: "exp", Base: "docs", Set: map[string]string{"keep": "2"}}
	return &controltest.Recorder{
		Aliases:  core.AliasList{Index: "docs", Searched: core.AliasSearch{Pairs: 3}},
		Attached: true, RunID: "r2", NoCorpus: "/gone is not there", Unchanged: true,
		Backfills:  []core.Backfill{{Index: "docs", Name: "old"}},
		Branches:   []core.Branch{{Name: "exp", Base: "docs", Own: true}},
		Cards:      []runlog.Card{{Index: "docs", Documents: 7}},
		Checks:     []control.Check{{Name: "worker", Detail: "none polls", Hint: "start one"}},
		Difference: core.Difference{Index: "docs", Chunks: core.ChunkDifference{Added: 3}},
		Kept:       []artifact.Generation{{Generation: "g1", Seq: 7, State: "current"}},
		Letters:    []core.Letter{{Chunk: "c1", Kind: core.LetterContent, Text: "words"}},
		Log:        runlog.Log{Letters: []core.Problem{{Code: "dead_letter"}}},
		Operations: []core.Operation{{ID: "o1", Action: core.ActionTag, Outcome: &core.OperationOutcome{Result: "done"}}},
		Overlays:   map[string]control.Overlaid{"exp": {Overlay: overlay, Corpus: "/c"}},
		Purges:     control.PurgesAnswer{Readmits: 1},
		Purging:    control.PurgeAnswer{Run: &control.Run{Run: "docs/purge-1"}},
		Retried:    control.Run{Run: "docs/retry-1"},
		Schedules:  []control.Scheduled{{Index: "docs", Paused: true}},
		Statuses:   []control.Status{status},
		Stopped:    control.Stopped{InFlight: new(int64(7))},
		Summaries:  []runlog.Summary{{Run: "docs/g1"}},
		Trends:     []runlog.Trends{{Index: "docs", Totals: runlog.Totals{Nights: 3}}},
		Triggered:  control.Triggered{Index: "docs", Running: "docs/g1"},
	}
}

func with[I, O any](ctx context.Context, method func(context.Context, I) (O, error), in I) func() (any, error) {
	return func() (any, error) { return method(ctx, in) }
}

func tell[I any](ctx context.Context, method func(context.Context, I) error, in I) func() (any, error) {
	return func() (any, error) { return struct{}{}, method(ctx, in) }
}

func methods(ctx context.Context, c control.Control) map[string]func() (any, error) {
	none := func(err error) (any, error) { return struct{}{}, err }
	backfill, one := control.BackfillNamed{Index: "docs", Name: "old"}, []string{"a.md"}
	spec := core.Spec{Index: "docs", Corpus: "/c", Keep: 3, Budget: core.Budget{Calls: 5}}
	return map[string]func() (any, error){
		"index":    with(ctx, c.BuildIndex, control.IndexRequest{Spec: spec, Generation: "g1", ReplaceCorpus: true}),
		"status":   with(ctx, c.ReadStatus, "docs/g1"),
		"pause":    with(ctx, c.PauseRun, "docs/g1"),
		"resume":   func() (any, error) { return none(c.ResumeRun(ctx, "docs/g1", nil)) },
		"budget":   func() (any, error) { return none(c.ResumeRun(ctx, "docs/g1", &core.Budget{Money: 2.5})) },
		"cancel":   with(ctx, c.CancelRun, "docs/g1"),
		"limit":    tell(ctx, c.LimitRun, control.LimitRequest{Run: "docs/g1", Budget: &core.Budget{Calls: 3}}),
		"lost":     tell(ctx, c.MarkLost, "docs/g1"),
		"estimate": with(ctx, c.EstimateBuild, control.IndexRequest{Spec: spec}),

		"generations": with(ctx, c.ListGenerations, "docs"),
		"restore":     with(ctx, c.RestoreIndex, "docs"),
		"move": with(ctx, c.MoveGeneration, control.MoveRequest{
			Action: core.ActionRollback, Index: "docs", Force: true,
		}),
		"branch": with(ctx, c.ChangeBranch,
			control.BranchRequest{Index: "docs", Name: "exp", Set: map[string]string{"keep": "2"}, Generation: "g1"}),
		"delete":   with(ctx, c.DeleteIndex, control.DeleteRequest{Index: "docs", Confirmed: true}),
		"branches": with(ctx, c.ListBranches, "docs"),
		"overlay":  with(ctx, c.ReadOverlay, "exp"),
		"diff":     with(ctx, c.CompareGenerations, control.DifferenceRequest{Index: "docs", From: "g1", To: "g2"}),
		"aliases": with(ctx, c.ListAliases,
			control.AliasesRequest{Index: "docs", Suggest: true, File: []byte("prefer A"), Classes: 9}),
		"operations": func() (any, error) { return c.ListOperations(ctx, "docs", 5) },
		"audit": with(ctx, c.AuditIndex,
			control.AuditRequest{Index: "docs", Sample: core.Sample{Part: 2, Of: 7}, Repair: true}),
		"image":        with(ctx, c.MoveImage, core.ImageRequest{Index: "docs", Where: "w"}),
		"transfer":     with(ctx, c.ReadTransfer, core.ImageRequest{Index: "docs", Where: "w"}),
		"doctor":       with(ctx, c.RunDoctor, spec),
		"dead-letters": with(ctx, c.DeadLetters, "docs"),
		"dead-letter":  func() (any, error) { return c.DeadLetter(ctx, "docs", "c1") },
		"discard":      tell(ctx, c.DiscardLetters, control.LettersRequest{Name: "docs", Chunks: one, Why: "a table"}),
		"schedule-apply": with(ctx, c.ApplySchedule,
			control.ScheduleRequest{Spec: spec, Schedule: config.Schedule{Cron: "@daily"}}),
		"schedules":        func() (any, error) { return c.ListSchedules(ctx) },
		"schedule":         with(ctx, c.ReadSchedule, "docs"),
		"schedule-pause":   func() (any, error) { return none(c.PauseSchedule(ctx, "docs", "why")) },
		"schedule-resume":  func() (any, error) { return none(c.ResumeSchedule(ctx, "docs", "why")) },
		"schedule-trigger": with(ctx, c.TriggerSchedule, "docs"),
		"schedule-delete":  tell(ctx, c.DeleteSchedule, "docs"),
		"backfill": with(ctx, c.StartBackfill, control.BackfillRequest{
			Index: "docs", Name: "old", Choice: core.BackfillChoice{Prefix: "2019/", Documents: one},
			Throttle: core.BackfillThrottle{CallsPerMinute: 9},
		}),
		"backfills":       with(ctx, c.ListBackfills, control.BackfillNamed{Index: "docs"}),
		"backfill-pause":  tell(ctx, c.PauseBackfill, backfill),
		"backfill-resume": tell(ctx, c.ResumeBackfill, backfill),
		"backfill-cancel": tell(ctx, c.CancelBackfill, backfill),
		"purge":           with(ctx, c.PurgeDocuments, control.PurgeRequest{Index: "docs", Documents: one, Confirmed: true}),
		"purges":          with(ctx, c.ListPurges, control.PurgesRequest{Index: "docs", Readmit: one}),
		"retry-failed":    with(ctx, c.RetryFailed, control.LettersRequest{Name: "docs", Chunks: one}),
	}
}

func serve(t *testing.T, does *controltest.Recorder) *httpapi.Client {
	server := httptest.NewServer(httpapi.Handler(control.Of(does), httpapi.Access{Token: "token"}))
	t.Cleanup(server.Close)
	return httpapi.NewClient(server.URL, "token")
}

func TestEveryMethodArrivesAndComesBackWhole(t *testing.T) {
	for name := range methods(t.Context(), control.Of(answering())) {
		t.Run(name, func(t *testing.T) {
			direct, remote := answering(), answering()
			want := musttest.Get(methods(t.Context(), control.Of(direct))[name]())(t)
			assert.Equal(t, want, musttest.Get(methods(t.Context(), serve(t, remote).Control)[name]())(t), "answered")
			assert.Equal(t, direct.Asked, remote.Asked)
			assert.Equal(t, direct.Inputs, remote.Inputs)
		})
	}
}

// Who asks says who they are and why, in one line; what they have shown is added where they show it.
// Promises: 40.
func TestWhoAsksArrivesWithWhatTheyHaveShown(t *testing.T) {
	remote := &controltest.Recorder{}
	client := serve(t, remote)
	said := core.Operator{By: "Žofie <z@büro>", Reason: "bad answers\nsince 2%", Via: "key of nobody"}
	_, err := client.MoveGeneration(control.WithOperator(t.Context(), said), control.MoveRequest{Action: "tag", Index: "docs"})
	want := (core.Operator{By: said.By, Reason: "bad answers since 2%", Via: "token"})
	assert.True(t, err == nil && remote.By == want, "%+v, want %+v; %v", remote.By, want, err)
}

func TestEveryMethodsFaultComesBackWhole(t *testing.T) {
	for name, sent := range map[string]*fault.Error{
		"all parts": fault.LeaseHeld.At("index", "docs").Because("run docs/g1 builds it").Advise("wait for it"),
		"no cause":  fault.RunNotFound.At("find run of", "docs").Advise("build it"),
		"no hint":   fault.StoreDown.At("read", "redis").Because(fmt.Errorf("dial: %w", io.EOF)),
		"code only": fault.Internal.At("", ""),
	} {
		t.Run(name, func(t *testing.T) {
			for method, do := range methods(t.Context(), serve(t, &controltest.Recorder{Err: sent}).Control) {
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
	client := serve(t, &controltest.Recorder{Err: errors.New("odd")})
	musttest.Refuse(client.ReadStatus(t.Context(), "docs"))(t, fault.Internal, "odd")
}

func TestTheTokenIsNeeded(t *testing.T) {
	controller := &controltest.Recorder{}
	server := httptest.NewServer(httpapi.Handler(control.Of(controller), httpapi.Access{Token: "token"}))
	defer server.Close()
	for _, token := range []string{"tokem", "toke", "token2", ""} {
		stranger := httpapi.NewClient(server.URL, token)
		_, err := stranger.CancelRun(t.Context(), "docs/g1")
		require.True(t, fault.Is(err, fault.EngineDown), "%q: %v", token, err)
		assert.Regexp(t, "401.*dev.json", err.Error(), token)
	}
	assert.True(t, controller.Asked == nil, "a stranger did %v", controller.Asked)
}

func TestAKeyThatOnlyOperatesDoesNotAskAsTheOwner(t *testing.T) {
	for text, another := range map[string]bool{"token": false, "operates": true, "administers": false} {
		controller := &controltest.Recorder{}
		server := httptest.NewServer(httpapi.Handler(control.Of(controller), httpapi.Access{
			Token: "token", Check: func(_ context.Context, text string) (*access.Key, error) {
				scope := map[string]access.Scope{"operates": access.Operate, "administers": access.Admin}[text]
				return &access.Key{Scope: scope, Index: "*"}, nil
			},
		}))
		client := httpapi.NewClient(server.URL, text)
		assert.NoError(t, musttest.Err(client.BuildIndex(t.Context(), control.IndexRequest{Spec: core.Spec{Index: "docs"}})))
		assert.True(t, controller.Asked != nil && controller.Another == another, "%s: %v", text, controller.Another)
		outside := core.Spec{Index: "docs", Corpus: "/c", FollowLinks: true}
		build := control.IndexRequest{Spec: outside}
		for name, err := range map[string]error{
			"index":    musttest.Err(client.BuildIndex(t.Context(), build)),
			"estimate": musttest.Err(client.EstimateBuild(t.Context(), build)),
			"schedule": musttest.Err(client.ApplySchedule(t.Context(), control.ScheduleRequest{Spec: outside})),
		} {
			assert.True(t, (err == nil) != another && (err == nil || fault.Is(err, fault.Forbidden)),
				"%s has links followed by %s: %v", text, name, err)
		}
		server.Close()
	}
}

// Who may not read every document neither serves one without labels in place of one with, nor branches around them.
func TestWhoMayNotReadAllTurnsNoLabelsOff(t *testing.T) {
	keys := map[string][]string{"none": nil, "hr": {"hr"}, "all": {"*"}}
	controller := &controltest.Recorder{}
	server := httptest.NewServer(httpapi.Handler(control.Of(controller), httpapi.Access{
		Token: "token", Check: func(_ context.Context, text string) (*access.Key, error) {
			return &access.Key{Scope: access.Admin, Index: "*", Labels: keys[text]}, nil
		},
	}))
	defer server.Close()
	for text, all := range map[string]bool{"token": true, "all": true, "none": false, "hr": false} {
		client := httpapi.NewClient(server.URL, text)
		musttest.Get(client.MoveGeneration(t.Context(), control.MoveRequest{Action: core.ActionRollback, Index: "docs"}))(t)
		moved := controller.Inputs[len(controller.Inputs)-1].(control.MoveRequest)
		assert.Equal(t, !all, moved.KeepLabels, text)
		musttest.Get(client.WatchQuestions(t.Context(), control.WatchRequest{
			Index: "docs", Readers: core.Readers{All: true},
		}))(t)
		watched := controller.Inputs[len(controller.Inputs)-1].(control.WatchRequest)
		assert.True(t, watched.Readers.All == all && (all || slices.Equal(watched.Readers.Labels, keys[text])), text)
		for key, passes := range map[string]bool{"keep": true, "documents.labels.field": all, "documents.labels.rules": all, "corpus": all} {
			_, err := client.ChangeBranch(t.Context(), control.BranchRequest{
				Index: "docs", Name: "exp", Set: map[string]string{key: "2"},
			})
			assert.True(t, (err == nil) == passes && (passes || fault.Is(err, fault.Forbidden)), "%s: %s: %v", text, key, err)
		}
	}
}

// send sends a request with the token, and returns the status and the body of the answer.
func send(t *testing.T, does *controltest.Recorder, method, path, body string) (int, string) {
	request := httptest.NewRequestWithContext(t.Context(), method, httpapi.Prefix+path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer token")
	answer := httptest.NewRecorder()
	httpapi.Handler(control.Of(does), httpapi.Access{Token: "token"}).ServeHTTP(answer, request)
	return answer.Code, answer.Body.String()
}

func TestRequestsThatAreNotOurs(t *testing.T) {
	controller := &controltest.Recorder{}
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		says               string
	}{
		"not valid JSON":             {"POST", "pause", "{", 409, `"usage"`},
		"an empty body":              {"POST", "pause", "", 409, `"usage"`},
		"a body without end":         {"POST", "pause", `{"name":"` + strings.Repeat("a", 5<<20), 409, `"usage"`},
		"a method of the next years": {"POST", "purge-all", "{}", 404, ""},
		"a look":                     {"GET", "pause", "", 405, ""},
	} {
		status, body := send(t, controller, c.method, c.path, c.body)
		assert.True(t, status == c.status && strings.Contains(body, c.says), "%s: %d %s", name, status, body)
	}
	assert.True(t, controller.Asked == nil, "it did %v", controller.Asked)
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
			_, err := httpapi.NewClient(c.base, "token").ReadStatus(t.Context(), "docs")
			musttest.Fail(t, err, fault.EngineDown, c.says, c.base)
		})
	}
	ctx := musttest.EndedContext(t)
	_, err := httpapi.NewClient("http://127.0.0.1:1", "").PauseRun(ctx, "docs")
	assert.True(t, errors.Is(err, context.Canceled), "the caller's own end is %v", err)
}

// A value of a wrong type is refused by the path of its field, on every route, without the name of a Go type.
func TestAValueOfAWrongTypeIsNamedByItsPath(t *testing.T) {
	goName := regexp.MustCompile(`\b(json|jsontext|struct|Go|control|core|access|httpapi|int\d*|bool|map|time\.Time)\b`)
	refused := func(route, body string) string {
		_, text := send(t, &controltest.Recorder{}, "POST", route, body)
		var problem struct{ Code, Cause string }
		require.NoError(t, json.Unmarshal([]byte(text), &problem), "%s %s: %s", route, body, text)
		assert.Equal(t, "usage", problem.Code, "%s %s", route, body)
		assert.NotRegexp(t, goName, problem.Cause)
		return problem.Cause
	}
	routes := slices.Collect(reflect.TypeFor[control.Calls]().Fields())
	require.Greater(t, len(routes), 35)
	for _, method := range routes {
		route, _, _ := strings.Cut(method.Tag.Get("call"), " ")
		assert.Equal(t, "it has the wrong type", refused(route, "[]"), route)
	}
	for body, want := range map[string]string{
		``:                                  "it is empty",
		`{"spec":`:                          "it is not valid JSON: unexpected EOF",
		`{"spec":{"keep":"5"}}`:             "spec.keep: it has the wrong type",
		`{"spec":{"keep":1.5}}`:             "spec.keep: it has the wrong type",
		`{"spec":{"include":["a",true]}}`:   "spec.include.1: it has the wrong type",
		`{"spec":{"grace":5}}`:              "spec.grace: it has the wrong type",
		`{"spec":{"budget":{"money":"5"}}}`: "spec.budget.money: it has the wrong type",
	} {
		assert.Equal(t, want, refused("index", body), body)
	}
}

// Control is of all indexes, so it takes a key of all of them; keys are made by those who may make every key.
// Promises: 140.
func TestAKeyControlsByItsScopeAndOnlyWhereItIsOfAllIndexes(t *testing.T) {
	keys := map[string]*access.Key{
		"query": {Scope: access.Query, Index: "*"}, "operate": {Scope: access.Operate, Index: "*"},
		"admin": {Scope: access.Admin, Index: "*"}, "operate one": {Scope: access.Operate, Index: "docs"},
		"admin of some": {Scope: access.Admin, Index: "d*"},
	}
	server := httptest.NewServer(httpapi.Handler(control.Of(&controltest.Recorder{}), httpapi.Access{
		Token: "token", Keys: access.Book{Store: blobmemory.New()}.Keeper(),
		Check: func(_ context.Context, text string) (*access.Key, error) {
			if key := keys[text]; key != nil {
				return key, nil
			}
			return nil, errors.New("no such key")
		},
	}))
	defer server.Close()
	for text, want := range map[string]struct{ control, keys bool }{
		"token": {true, true}, "admin": {true, true}, "operate": {true, false}, "query": {}, "operate one": {},
		"admin of some": {}, "another": {}, "": {},
	} {
		client := httpapi.NewClient(server.URL, text)
		_, err := client.ListGenerations(t.Context(), "docs")
		assert.True(t, (err == nil) == want.control, "%q controls: %v", text, err)
		_, err = client.Keys.ListKeys(t.Context())
		assert.True(t, (err == nil) == want.keys, "%q sees keys: %v", text, err)
	}
}

func TestWhoHasTheTokenProvesIt(t *testing.T) {
	server := httptest.NewServer(httpapi.Handler(control.Of(&controltest.Recorder{}), httpapi.Access{Token: "right"}))
	defer server.Close()
	for token, want := range map[string]bool{"right": true, "wrong": false, "": false} {
		got, err := httpapi.HasToken(t.Context(), server.URL, token)
		assert.True(t, got == want && err == nil, "%q: %v, %v", token, got, err)
	}
	got, err := httpapi.HasToken(t.Context(), "http://127.0.0.1:1", "right")
	assert.True(t, !got && err == nil, "nothing listens: %v, %v", got, err)
	for _, challenge := range []string{"", "00", strings.Repeat("g", 64), strings.Repeat("0", 66)} {
		response := musttest.Get(http.Get(server.URL + httpapi.Prefix + "proof?challenge=" + challenge))(t)
		_ = response.Body.Close()
		assert.True(t, response.StatusCode == http.StatusNotFound, "%q is answered with %s", challenge, response.Status)
	}
}

// A program at the port of a dead stack may pass the question on to a living one with the same token, or ask that one
// itself: the answer is of another address, and a redirection is not followed.
// Promises: 105.
func TestAProofIsOfOneAddress(t *testing.T) {
	var asked atomic.Int32
	handler := httpapi.Handler(control.Of(&controltest.Recorder{}), httpapi.Access{Token: "right"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		asked.Add(1)
		handler.ServeHTTP(w, request)
	}))
	defer server.Close()
	for times, relay := range []http.HandlerFunc{
		func(w http.ResponseWriter, request *http.Request) {
			http.Redirect(w, request, server.URL+request.URL.String(), http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, request *http.Request) {
			answer, err := http.Get(server.URL + request.URL.String())
			if assert.NoError(t, err) {
				w.WriteHeader(answer.StatusCode)
				_, _ = io.Copy(w, answer.Body)
				_ = answer.Body.Close()
			}
		},
	} {
		passing := httptest.NewServer(relay)
		got, err := httpapi.HasToken(t.Context(), passing.URL, "right")
		assert.True(t, !got && err == nil && int(asked.Load()) == times, "%v, %v after %d questions", got, err, asked.Load())
		passing.Close()
	}
}

func TestAnAddressThatStaysSilentIsAnError(t *testing.T) {
	listener := musttest.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = listener.Close() }()
	httpapi.ProofDeadline(t)
	got, err := httpapi.HasToken(t.Context(), "http://"+listener.Addr().String(), "right")
	assert.True(t, !got && err != nil, "%v, %v", got, err)
}
