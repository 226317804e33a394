package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/workflows"
)

// What docs/guides/nights.md has a reader begin with goes through, and leaves nothing behind.
func TestTheScriptOfFiveNights(t *testing.T) {
	longtest.Nightly(t)
	t.Parallel() // it has a stack or servers of its own
	programs := os.Getenv("UNWEAVER_TEST_BIN")
	if programs == "" {
		t.Skip("UNWEAVER_TEST_BIN is not set")
	}
	temporary, command := t.TempDir(), exec.CommandContext(t.Context(), "../../nights.sh")
	command.Env = append(os.Environ(), "UNWEAVER="+filepath.Join(programs, "unweaver"), "TMPDIR="+temporary)
	out, err := command.CombinedOutput()
	require.True(t, err == nil, "%v: %s", err, out)
	for _, want := range []string{
		"## Estimate against actual", "held (recall)", "left out: 60 left to running backfills", "rebased", "5 published, 1 unchanged, 1 held",
	} {
		assert.Contains(t, string(out), want, "it does not say")
	}
	assert.Empty(t, musttest.Get(os.ReadDir(temporary))(t))
}

// schedules waits until the nights of docs are as they should be, and returns how its schedule stands.
func schedules(
	t *testing.T, controller *service.Service, wanted func(control.Scheduled) bool,
) (found control.Scheduled) {
	t.Helper()
	musttest.Reach(t, "nights of docs as they should be", func() bool {
		all := musttest.Get(controller.ListSchedules(t.Context()))(t)
		at := slices.IndexFunc(all, func(one control.Scheduled) bool { return one.Index == "docs" && wanted(one) })
		if at >= 0 {
			found = all[at]
		}
		return at >= 0
	})
	return found
}

func ended(nights int) func(control.Scheduled) bool {
	return func(one control.Scheduled) bool {
		return len(one.Nights) == nights && one.Nights[0].Status != core.StatusRunning
	}
}

// A schedule is applied once, and again where something changed; it builds, skips a night beside a build and says so,
// stays paused over a restart, and says that its configuration is gone.
func TestASchedulesLife(t *testing.T) {
	t.Parallel() // it has a stack or servers of its own
	dir := t.TempDir()
	begin := func() *stack.Stack { return musttest.Get(start(dir))(t) }
	running := begin()
	stop := func() { require.NoError(t, running.Stop(t.Context())) }
	defer func() { stop() }()
	server, docs := serve(t, modeltest.Options{}), copySample(t)
	request := control.ScheduleRequest{
		Spec: spec(t, "docs", docs, server, "indexes.docs.chunking.strategy=document", "models.embedding.dimension=256"),
		Schedule: config.Schedule{
			Cron: "0 3 1 1,7 *", Timezone: "Europe/Berlin", Overlap: "skip", Catchup: core.Duration(time.Hour),
		},
	}
	musttest.Refuse(running.Control.TriggerSchedule(t.Context(), "docs"))(t, fault.NotFound)
	apply := func(want string) control.Applied {
		applied := musttest.Get(running.Control.ApplySchedule(t.Context(), request))(t)
		assert.Equal(t, want, applied.Change, "applied: %+v", applied)
		return applied
	}
	applied := apply(control.ScheduleCreated)
	for _, next := range applied.Next { // three o'clock in Berlin is one or two in UTC
		want := map[time.Month]int{time.January: 2, time.July: 1}[next.UTC().Month()]
		assert.True(t, next.UTC().Hour() == want, "next at %s", next.UTC())
	}
	assert.Len(t, applied.Next, 3, "%+v", applied)
	apply(control.ScheduleUnchanged)
	probes := filepath.Join(t.TempDir(), "probes.jsonl")
	for _, change := range []string{"", "\n"} { // a file of this machine is there for the nights, as it is now
		writeFile(t, probes, fmt.Sprintf("{\"question\": %q, \"documents\": [%q]}%s", "Who?", "corpus.jsonl#mt00000", change))
		request.Spec.Gate.Probes = probes
		request.Files = musttest.Get(config.ReadFiles(&request.Spec))(t)
		apply(control.ScheduleChanged)
		apply(control.ScheduleUnchanged)
	}
	request.Schedule.Timezone = "America/New_York"
	apply(control.ScheduleChanged)
	apply(control.ScheduleUnchanged)
	musttest.Get(running.Control.TriggerSchedule(t.Context(), "docs"))(t)
	first := schedules(t, running.Control, ended(1))
	night := first.Nights[0]
	require.True(t, night.Status == core.StatusCompleted && strings.HasPrefix(night.Run, "docs/20"), "%+v", night)
	if status, err := running.Control.ReadStatus(t.Context(), "docs"); err != nil || status.Run != first.Nights[0].Run ||
		!status.Published || status.Probes == nil || status.Probes.Asked != 1 {
		t.Errorf("%+v, %v", status, err)
	}

	// A build that is paused holds its index: a second trigger is refused, and a night that is due is skipped.
	writeFile(t, filepath.Join(docs, "more.txt"), "Another document\n\nIt came in the night.")
	request.Spec.Budget.Calls = 1
	held := musttest.Get(running.Control.BuildIndex(t.Context(), control.IndexRequest{Spec: request.Spec, Generation: "held"}))(t)
	require.Equal(t, core.StatusPaused, wait(t, running.Control, held.Run).Status)
	triggered := musttest.Get(running.Control.TriggerSchedule(t.Context(), "docs"))(t)
	assert.Equal(t, "docs/held", triggered.Running, "%+v", triggered)
	due := func() {
		handle := running.Control.Client.ScheduleClient().GetHandle(t.Context(), workflows.ScheduleID("docs"))
		require.NoError(t, handle.Trigger(t.Context(), client.ScheduleTriggerOptions{}))
	}
	due()
	skipped := schedules(t, running.Control, ended(2))
	night = skipped.Nights[0]
	assert.True(t, night.Status == "skipped" && night.By == "docs/held" && night.Run == "", "%+v", night)
	musttest.Get(running.Control.CancelRun(t.Context(), held.Run))(t)
	wait(t, running.Control, held.Run)
	require.NoError(t, running.Control.PauseSchedule(t.Context(), "docs", "holidays"))
	request.Schedule.Timezone = "UTC"
	assert.True(t, apply(control.ScheduleChanged).Paused, "applying resumed it")
	stop()
	running = begin()
	after := schedules(t, running.Control, func(control.Scheduled) bool { return true })
	assert.True(t, after.Paused && after.Note == "holidays" && len(after.Next) == 0 && len(after.Nights) == 2 &&
		after.Timezone == "UTC", "after a restart: %+v", after)
	answer := ask(t, running.HTTP, "docs", "Who came in the night?", nil)
	stop()
	paid := server.Stats().Chat
	restoredElsewhere(t, filepath.Join(dir, "artifacts"), answer, after)
	assert.Equal(t, paid, server.Stats().Chat, "a restore asked models")
	running = begin()
	require.NoError(t, running.Control.ResumeSchedule(t.Context(), "docs", ""))
	again := schedules(t, running.Control, func(control.Scheduled) bool { return true })
	assert.True(t, !again.Paused && len(again.Next) == 3 && again.Note == "", "resumed: %+v", again)
	require.NoError(t, running.Control.PauseSchedule(t.Context(), "docs", ""))
	again = schedules(t, running.Control, func(control.Scheduled) bool { return true })
	assert.Equal(t, "no reason was given", again.Note)
	require.NoError(t, running.Control.ResumeSchedule(t.Context(), "docs", ""))
	require.NoError(t, os.Remove(filepath.Join(dir, "artifacts", "docs", "schedule.json")))
	due()
	gone := schedules(t, running.Control, ended(3))
	if night := gone.Nights[0]; night.Status != core.StatusFailed || night.Reason != string(fault.BadConfig) {
		t.Errorf("its configuration is gone: %+v", night)
	}
	require.NoError(t, running.Control.DeleteSchedule(t.Context(), "docs"))
	musttest.Code(t, running.Control.DeleteSchedule(t.Context(), "docs"), fault.NotFound, "deleted twice")
	all, err := running.Control.ListSchedules(t.Context())
	assert.True(t, err == nil && len(all) == 0, "%+v, %v", all, err)
	apply(control.ScheduleCreated) // an index that is deleted leaves no schedule, and no answer
	deleted := musttest.Get(running.Control.DeleteIndex(t.Context(), control.DeleteRequest{Index: "docs", Confirmed: true}))(t)
	assert.True(t, deleted.Generations > 0 && deleted.Records > 0 && len(deleted.Collections) > 0, "%+v", deleted)
	status, _ := do(t, running.HTTP, http.MethodPost, "/v1/indexes/docs/query", map[string]any{"query": "night"})
	assert.Equal(t, http.StatusNotFound, status)
	all, err = running.Control.ListSchedules(t.Context())
	assert.True(t, err == nil && len(all) == 0, "%+v, %v", all, err)
	_, err = running.Control.DeleteIndex(t.Context(), control.DeleteRequest{Index: "docs", Confirmed: true})
	assert.True(t, fault.Is(err, fault.UnknownIndex), "deleted twice: %v", err)
	request.Spec.Budget.Calls, request.Spec.Gate.Probes = 0, ""
	calls := server.Stats().Chat
	completed(t, index(t, running.Control, request.Spec))
	assert.Equal(t, calls, server.Stats().Chat, "what was paid for before is not paid for again")
}

// restoredElsewhere restores a copy of the artifacts alone in a new data directory: it answers and is scheduled as
// before.
func restoredElsewhere(t *testing.T, artifacts string, answer map[string]any, was control.Scheduled) {
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(folder, "artifacts"), os.DirFS(artifacts)))
	elsewhere := musttest.Get(start(folder))(t)
	defer func() { require.NoError(t, elsewhere.Stop(t.Context())) }()
	assert.Empty(t, musttest.Get(elsewhere.Control.ListSchedules(t.Context()))(t))
	for _, want := range []string{"restored, and paused as before", ""} { // the second time it is there
		restored := musttest.Get(elsewhere.Control.RestoreIndex(t.Context(), "docs"))(t)
		assert.Equal(t, want, restored.Schedule)
		completed(t, wait(t, elsewhere.Control, restored.Run))
	}
	all := musttest.Get(elsewhere.Control.ListSchedules(t.Context()))(t)
	was.Nights, was.Missed, was.Overlapped = []control.NightRun{}, 0, 0 // those are the engine's, and gone with it
	assert.Equal(t, []control.Scheduled{was}, all)
	now := ask(t, elsewhere.HTTP, "docs", "Who came in the night?", nil)
	assert.Equal(t, answer["generation"], now["generation"])
	assert.Equal(t, answer["answer"], now["answer"])
	assert.Equal(t, ids(chunksOf(answer)), ids(chunksOf(now)))
}
