package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// gates let extractions of texts with a word wait until their night has done what it needs them for.
type gates struct {
	mu   sync.Mutex
	held map[string]*gate
}

type gate struct {
	arrived, open chan struct{}
	first, once   sync.Once
}

func (g *gates) hold(word string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = map[string]*gate{}
	}
	g.held[word] = &gate{arrived: make(chan struct{}), open: make(chan struct{})}
	return g.held[word]
}

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

func (g *gates) script(seen modeltest.Seen) modeltest.Injection {
	if seen.Task == "extract" {
		g.mu.Lock()
		var at *gate
		for word, one := range g.held {
			if strings.Contains(seen.Text, word) {
				at = one
			}
		}
		g.mu.Unlock()
		if at != nil {
			at.first.Do(func() { close(at.arrived) })
			<-at.open
		}
	}
	return modeltest.Injection{}
}

// opened releases everything, so that a test that fails ends, too.
func (g *gates) opened() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.held {
		one.release()
	}
}

// fiveNights is an index, where it is kept up to date: the embedded stack, or a cluster.
type fiveNights struct {
	t       *testing.T
	control *service.Service
	base    string        // of query-api
	upload  func()        // the corpus is what the folder holds
	begin   func() string // a night; its run
	kill    func()        // who works, and starts it again; nil: no process is killed
	server  *modeltest.Server
	gates   *gates
	spec    core.Spec
	lines   []string // of passages.jsonl
	folder  string
	kills   int64
}

const (
	fiveQuestion = "In which county is Johnnycake, West Virginia located?"
	fiveAnswer   = "passages.jsonl#mt00087"
	archived     = 24
)

func (n *fiveNights) write() {
	n.t.Helper()
	writeFile(n.t, filepath.Join(n.folder, "passages.jsonl"), strings.Join(n.lines, "\n")+"\n")
	n.upload()
}

func (n *fiveNights) row(id string) int {
	return slices.IndexFunc(n.lines, func(line string) bool { return strings.Contains(line, `"`+id+`"`) })
}

// revise puts a word into the text of a passage, which then is another.
func (n *fiveNights) revise(id, word string) {
	at := n.row(id)
	n.lines[at] = strings.Replace(n.lines[at], `"text": "`, `"text": "`+word+`. `, 1)
}

// night builds, and kills who works while texts with the word are extracted.
func (n *fiveNights) night(word string) control.Status {
	n.t.Helper()
	at := n.gates.hold(word)
	defer at.release()
	run := n.begin()
	n.killed(at)
	at.release()
	return wait(n.t, n.control, run)
}

func (n *fiveNights) killed(at *gate) {
	n.t.Helper()
	select {
	case <-at.arrived:
	case <-time.After(2 * time.Minute):
		n.t.Fatal("what was to be held was not asked for")
	}
	if n.kill != nil {
		n.kill()
		n.kills++
	}
}

func (n *fiveNights) serves(generation string) map[string]any {
	n.t.Helper()
	var last any
	for begin := time.Now(); time.Since(begin) < 2*time.Minute; time.Sleep(50 * time.Millisecond) {
		status, out := do(n.t, n.base, http.MethodPost, "/v1/indexes/"+n.spec.Index+"/query",
			map[string]any{"query": fiveQuestion})
		if last = out; status == http.StatusOK && out["generation"] == generation {
			return out
		}
	}
	n.t.Fatalf("%s is not served: %v", generation, last)
	return nil
}

func answered(out map[string]any) bool {
	return slices.ContainsFunc(chunksOf(out), func(chunk map[string]any) bool { return chunk["document"] == fiveAnswer })
}

func (n *fiveNights) diff(st control.Status, documents int64, want core.Diff) {
	got := core.Diff{Added: st.Diff.Added, Changed: st.Diff.Changed, Removed: st.Diff.Removed, Same: st.Diff.Same}
	assert.True(n.t, st.Documents == documents && got == want && st.DeadLetters == 0 && st.DocumentsFailed == 0,
		"%s: %d documents, want %d; %+v, want %+v; %d dead letters, %d failed", st.Run, st.Documents, documents, got, want,
		st.DeadLetters, st.DocumentsFailed)
}

// play has the nights of docs/guides/nights.md, and gives the last one.
func (n *fiveNights) play() control.Status {
	t, index := n.t, n.spec.Index
	n.revise("mt00090", "Evening one")
	n.write()
	first := completed(t, n.night("Evening one"))
	n.diff(first, 120, core.Diff{Added: 120})
	assert.True(t, first.Probes != nil && first.Probes.Recall == 1 && first.Probes.Before == nil,
		"the first build's probes: %+v", first.Probes)

	// A night of one change and two deletions, as planned.
	n.revise("mt00002", "Evening two")
	for _, gone := range []string{"mt00003", "mt00004"} {
		n.lines = slices.Delete(n.lines, n.row(gone), n.row(gone)+1)
	}
	n.write()
	before, second := n.server.Stats().Extract, completed(t, n.night("Evening two"))
	n.diff(second, 118, core.Diff{Changed: 1, Removed: 2, Same: 117})
	asked := n.server.Stats().Extract - before
	assert.True(t, asked >= 1 && asked <= 1+n.kills*flight, "one changed passage took %d extractions", asked)

	// A bad one: the answer to a probe question is overwritten.
	good := n.lines[n.row("mt00087")]
	n.lines[n.row("mt00087")] = `{"id": "mt00087", "title": "Error", "text": "503 Evening three, unavailable."}`
	n.write()
	third := n.night("Evening three")
	require.True(t, third.Status == core.StatusHeld && third.Reason == "recall" && !third.Published &&
		third.Probes != nil && slices.Contains(third.Probes.Worse, fiveQuestion) && *third.Probes.Before == 1,
		"the bad night is %s (%s) %+v", third.Status, third.Reason, third.Probes)
	n.diff(third, 118, core.Diff{Changed: 1, Same: 117})
	assert.True(t, answered(n.serves(second.Generation)), "what is served while a night is held lacks the answer")

	// Approved and taken back, both without a call; then a good night.
	paid := n.server.Stats()
	operator := control.WithOperator(t.Context(), core.Operator{By: "ada@desk", Reason: "drill"})
	for _, move := range []control.MoveRequest{
		{Action: core.ActionPublish, Index: index, Generation: third.Generation},
		{Action: core.ActionRollback, Index: index, Generation: second.Generation},
	} {
		musttest.Get(n.control.MoveGeneration(operator, move))(t)
		out := n.serves(move.Generation)
		assert.True(t, answered(out) == (move.Generation == second.Generation), "after %s: %v", move.Action, chunksOf(out))
	}
	if now := n.server.Stats(); now.Extract != paid.Extract || now.Tasks["shorten"] != paid.Tasks["shorten"] {
		t.Errorf("approval and rollback asked models: %+v, before %+v", now, paid)
	}
	n.lines[n.row("mt00087")] = good
	n.revise("mt00007", "Evening four")
	n.write()
	fourth := completed(t, n.night("Evening four"))
	n.diff(fourth, 118, core.Diff{Changed: 1, Same: 117})
	assert.True(t, answered(n.serves(fourth.Generation)), "the fourth night lacks the answer")
	n.backfill(fourth)
	trends := musttest.Get(n.control.ReadTrends(t.Context(), index, 30))(t)
	var ended []string
	for _, night := range trends[0].Nights {
		ended = append(ended, night.Status)
	}
	done := core.StatusCompleted
	want := []string{done, done, core.StatusHeld, done, done, done}
	assert.True(t, slices.Equal(ended, want), "trends tell %q, want %q", ended, want)
	last := completed(t, wait(t, n.control, n.begin()))
	assert.True(t, last.Unchanged && last.Documents == 118+archived,
		"the night after it: unchanged %v, %d documents", last.Unchanged, last.Documents)
	return last
}

// backfill runs the fifth night: a backfill whose worker is killed amid its payments, and a night beside it.
func (n *fiveNights) backfill(fourth control.Status) {
	t, letters := n.t, make([]string, archived)
	for i := range letters {
		letters[i] = fmt.Sprintf(`{"id": "a%02d", "text": "Letter number %d. Port A%d was built by Carla Ruiz."}`, i, i, i)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(n.folder, "archive"), 0o755))
	writeFile(t, filepath.Join(n.folder, "archive", "2019.jsonl"), strings.Join(letters, "\n")+"\n")
	n.revise("mt00008", "Evening five")
	n.write()
	letter := n.gates.hold("Letter number 9")
	defer letter.release()
	named := control.BackfillNamed{Index: n.spec.Index, Name: "archive"}
	before := n.server.Stats().Extract
	musttest.Get(n.control.StartBackfill(t.Context(), control.BackfillRequest{
		Index: named.Index, Name: named.Name, Choice: core.BackfillChoice{Prefix: "archive/"},
		Throttle: core.BackfillThrottle{Concurrency: 2},
	}))(t)
	n.killed(letter)
	fifth := completed(t, n.night("Evening five"))
	n.diff(fifth, 118, core.Diff{Changed: 1, Same: 117})
	assert.Equal(t, int64(archived), fifth.LeftOut.Backfills, "the night left out %+v", fifth.LeftOut)
	letter.release()
	end := backfilled(t, func() *service.Service { return n.control }, named, func(one core.Backfill) bool {
		return core.IsTerminal(one.Status)
	})
	assert.True(t, end.Status == core.StatusCompleted && end.Rebased && end.Base == fourth.Generation &&
		end.Parent == fifth.Generation && end.Documents == archived && end.ChunksDone == archived, "%+v", end)
	asked := n.server.Stats().Extract - before - archived - 1 // beyond the letters and the night's passage
	inflight := int64(0)
	if n.kill != nil { // the backfill may have had two in flight when either kill came, and the night one more
		inflight = 2*2 + flight
	}
	assert.True(t, asked >= 0 && asked <= inflight,
		"%d extractions beyond those of %d letters and a passage, %d may have been in flight", asked, archived, inflight)
}

func (n *fiveNights) prepare(sp core.Spec) {
	raw := musttest.Get(os.ReadFile(filepath.Join(sample, "corpus.jsonl")))(n.t)
	n.lines = strings.Split(strings.TrimSpace(string(raw)), "\n")
	n.spec = sp
}

func probed(t *testing.T, index string) []string {
	file := filepath.Join(t.TempDir(), "probes.jsonl")
	writeFile(t, file, fmt.Sprintf("{\"question\": %q, \"documents\": [%q]}\n", fiveQuestion, fiveAnswer))
	return []string{
		"indexes." + index + ".gate.probes=" + file, "indexes." + index + ".gate.max_recall_drop=0.1",
		"indexes." + index + ".chunking.strategy=document", "indexes." + index + ".shortening.threshold=400",
		"models.limits.concurrency=" + fmt.Sprint(flight), "models.chat.model=nights", "models.embedding.model=nights",
		"models.embedding.dimension=256",
	}
}

// fromNothing builds a folder on the embedded stack at once: what nights must have come to.
func fromNothing(t *testing.T, folder string) control.Status {
	name := "nothing-" + core.Sum(t.Name()).Short(8)
	sp := spec(t, name, folder, serve(t, modeltest.Options{}), probed(t, name)[2:]...) // nothing was there before
	return completed(t, index(t, shared.Control, sp))
}

// Five nights end in what a build from nothing makes, with nothing paid twice.
func TestFiveNightsOnTheEmbeddedStack(t *testing.T) {
	held := &gates{}
	server := serve(t, modeltest.Options{Script: held.script})
	t.Cleanup(held.opened)
	n := &fiveNights{t: t, control: shared.Control, base: shared.HTTP, server: server, gates: held, folder: t.TempDir()}
	n.prepare(spec(t, "five", n.folder, server, probed(t, "five")...))
	files := musttest.Get(config.ReadFiles(&n.spec))(t)
	n.upload = func() {}
	n.begin = func() string {
		begun := musttest.Get(n.control.BuildIndex(t.Context(),
			control.IndexRequest{Spec: n.spec, Files: files, Generation: fmt.Sprintf("g%d", time.Now().UnixNano())}))(t)
		return begun.Run
	}
	same(t, n.play(), fromNothing(t, n.folder))
	assert.Zero(t, server.Stats().Duplicates)
}

// Five nights on real servers, with a worker killed in each and another amid the backfill, end in what a build from
// nothing makes; what is paid for twice was in flight.
func TestFiveNightsOnRealServersWithAWorkerKilledInEach(t *testing.T) {
	longtest.Nightly(t)
	t.Parallel() // it has a stack or servers of its own
	c, held := newCluster(t), &gates{}
	server := serve(t, modeltest.Options{Script: held.script})
	t.Cleanup(held.opened)
	worker := c.worker()
	n := &fiveNights{t: t, control: c.ctl, server: server, gates: held, folder: t.TempDir()}
	n.prepare(spec(t, "k", ".", server, probed(t, "k")...))
	files := musttest.Get(config.ReadFiles(&n.spec))(t)
	n.base = c.replica()
	n.upload = func() { c.upload(n.folder) }
	n.begin = func() string { return c.begin(control.IndexRequest{Spec: n.spec, Files: files}) }
	n.kill = worker.restart
	begun := time.Now()
	same(t, n.play(), fromNothing(t, n.folder))
	paid := server.Stats()
	t.Logf("%.0f s, %d kills; paid twice: %d chat answers, %d embedded texts", time.Since(begun).Seconds(), n.kills,
		paid.Duplicates, paid.EmbedTwice)
	assert.True(t, n.kills == 6 && paid.Duplicates <= n.kills*flight,
		"%d answers were paid for twice in %d kills", paid.Duplicates, n.kills)
	assert.True(t, server.Stats().Duplicates != 0, "nothing was in flight when workers were killed")
}

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

// backfilled waits until a backfill stands as it should, and returns how it stands.
func backfilled(
	t *testing.T, serving func() *service.Service, named control.BackfillNamed, wanted func(core.Backfill) bool,
) core.Backfill {
	t.Helper()
	var last []core.Backfill
	for begin := time.Now(); time.Since(begin) < 3*time.Minute; time.Sleep(50 * time.Millisecond) {
		var err error
		if last, err = serving().ListBackfills(t.Context(), named); err == nil && wanted(last[0]) {
			return last[0]
		}
		if err == nil && core.IsTerminal(last[0].Status) {
			break
		}
	}
	t.Fatalf("it did not come to that: %+v", last)
	return core.Backfill{}
}

// schedules waits until the nights of docs are as they should be, and returns how its schedule stands.
func schedules(t *testing.T, controller *service.Service, wanted func(control.Scheduled) bool) control.Scheduled {
	t.Helper()
	var all []control.Scheduled
	for begin := time.Now(); time.Since(begin) < 3*time.Minute; time.Sleep(100 * time.Millisecond) {
		all = musttest.Get(controller.ListSchedules(t.Context()))(t)
		for _, one := range all {
			if one.Index == "docs" && wanted(one) {
				return one
			}
		}
	}
	t.Fatalf("it did not come to that: %+v", all)
	return control.Scheduled{}
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
