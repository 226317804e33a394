package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/storm"
	"github.com/unweaver/unweaver/workflows"
)

// parts of a cluster that a storm kills, in turn.
var parts = []string{"worker", "temporal", "redis", "s3", "milvus", "query-api"}

// strikeOn is one kill of a part of a cluster.
type strikeOn struct {
	Part     string
	Hit      string // the activity that was in flight
	Back     float64
	Progress float64 // from when the part is started again until work goes on
}

// clusterStorm kills parts of a cluster while builds run.
type clusterStorm struct {
	t       *testing.T
	c       *cluster
	server  *modeltest.Server
	worker  *proc
	replica *proc
	base    string
	random  *rand.Rand
	kills   int
	hits    map[string]int // of the build, by activity
	done    []strikeOn
}

// Every part of a cluster is killed in turn while work is in flight: the same index as an undisturbed one, and nothing
// paid twice beyond what was in flight (docs/invariants.md, 1 and 2).
// Promises: 1, 2.
func TestEveryPartOfAClusterIsKilledInTurn(t *testing.T) {
	longtest.Nightly(t)
	s := &clusterStorm{t: t, c: newCluster(t), server: slowModels(t), random: rand.New(rand.NewPCG(60, 1))}
	s.kills = len(parts)
	if kills, err := strconv.Atoi(stormKills); err == nil {
		s.kills = max(s.kills, kills*3/10) // 60 of 200
	}
	s.c.behindProxies(1)["S3"].Set(distant) // so that every activity lasts a while
	s.worker = s.c.worker()
	s.base = s.c.replica()
	s.replica = s.c.replicas[len(s.c.replicas)-1]
	pauses := 0
	var want []calmNight
	var folders []string
	for build := 0; build < 2 || len(s.done) < s.kills && build < 20; build++ {
		pair := build / 2
		if build%2 == 0 { // an index of other documents, so that nothing of it was paid
			want, folders = calmNights(t, storm.Documents{Count: 250, Seed: uint64(9 + pair)}, 2)
		}
		s.c.upload(folders[build%2])
		spec := stormSpec(t, fmt.Sprintf("k%d", pair), ".", s.server.URL)
		run := s.c.begin(control.IndexRequest{Spec: spec, Generation: fmt.Sprintf("n%d", build)})
		s.storm(run)
		status, paused := resumed(t, s.c, run)
		same(t, status, want[build%2].status)
		pauses += paused
		if got := settled(t, s.base, spec.Index, want[build%2].chunks); !sameChunks(got, want[build%2].chunks) {
			t.Errorf("build %d: chunks %v, undisturbed %v", build, got, want[build%2].chunks)
		}
	}
	paid := s.server.Stats()
	s.report(paid, pauses)
	limit := int64(len(s.done)) * unsaved
	assert.True(t, paid.Duplicates <= limit, "%d answers were paid twice, %d may have been lost", paid.Duplicates, limit)
	assert.True(t, len(s.done) >= s.kills, "%d kills, want %d", len(s.done), s.kills)
}

// storm kills parts while a run goes on, at most twice in one kind of activity.
func (s *clusterStorm) storm(run string) {
	s.hits = map[string]int{}
	since := time.Now()
	perBuild := max(len(parts)/2, (s.kills+3)/4)
	for n := 0; n < perBuild && len(s.done) < s.kills; n++ {
		flight, found := s.inFlight(run, since)
		if !found {
			return
		}
		s.hits[flight.Type]++
		kill := strikeOn{Part: parts[len(s.done)%len(parts)], Hit: flight.Type}
		begun := time.Now()
		s.restart(kill.Part)
		kill.Back = time.Since(begun).Seconds()
		kill.Progress = s.progress(run, begun)
		s.done = append(s.done, kill)
		s.t.Logf("%+v", kill)
		since = begun
	}
}

// inFlight waits for an activity that began since, of a kind that was not hit twice in this build, and then for a
// random instant of it. found is false once the run has ended.
func (s *clusterStorm) inFlight(run string, since time.Time) (aim storm.Flight, found bool) {
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(2 * time.Millisecond) {
		flights, open, err := storm.Flights(s.t.Context(), s.c.client, workflows.WorkflowID(run))
		if err == nil && !open {
			return aim, false
		}
		for _, flight := range flights {
			if flight.Running && flight.Started.After(since) && s.hits[flight.Type] < 2 {
				time.Sleep(time.Duration(s.random.IntN(300)) * time.Millisecond)
				return flight, true
			}
		}
		if status, err := s.c.ctl.ReadStatus(s.t.Context(), run); err == nil && status.Status == core.StatusPaused {
			return aim, false
		}
	}
	return aim, false
}

// restart kills a part and starts it again, and returns when it can be reached.
func (s *clusterStorm) restart(part string) {
	away := func() { time.Sleep(time.Duration(200+s.random.IntN(1500)) * time.Millisecond) }
	switch part {
	case "worker":
		s.worker.restart()
	case "query-api":
		s.replica.restart()
		for status := 0; status != http.StatusOK; time.Sleep(20 * time.Millisecond) {
			if response, err := http.Get(s.base + "/livez"); err == nil {
				status = response.StatusCode
				_ = response.Body.Close()
			}
		}
	case "temporal", "redis":
		server := map[string]*proc{"temporal": s.c.temporal, "redis": s.c.redis}[part]
		server.kill()
		away()
		server.start()
	default:
		servers(s.t, "kill", part)
		away()
		servers(s.t, "start", part)
	}
}

// progress waits until work goes on after a kill: an attempt begins, an activity ends, a model is called, or the run
// has ended. It gives the seconds since the kill.
func (s *clusterStorm) progress(run string, since time.Time) float64 {
	before, _, _ := storm.Flights(s.t.Context(), s.c.client, workflows.WorkflowID(run))
	back := time.Now()
	for time.Since(since) < 5*time.Minute {
		if s.server.StartedSince(back) > 0 {
			break
		}
		flights, open, err := storm.Flights(s.t.Context(), s.c.client, workflows.WorkflowID(run))
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		begun := func(flight storm.Flight) bool { return flight.Running && flight.Started.After(back) }
		gone := func(old storm.Flight) bool {
			return !slices.ContainsFunc(flights, func(now storm.Flight) bool {
				return now.Workflow == old.Workflow && now.ID == old.ID
			})
		}
		if !open || slices.ContainsFunc(flights, begun) || slices.ContainsFunc(before, gone) {
			break
		}
		status, err := s.c.ctl.ReadStatus(s.t.Context(), run)
		if err == nil && status.Status == core.StatusPaused {
			break // resumed when the storm is over
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(since).Seconds()
}

// report prints the kills of each part, and writes them where UNWEAVER_STORM_OUT says.
func (s *clusterStorm) report(paid modeltest.Stats, pauses int) {
	s.t.Helper()
	var table strings.Builder
	fmt.Fprint(&table, "| part | in flight | back (s) | work goes on (s) |\n|---|---|---:|---:|\n")
	for _, kill := range s.done {
		fmt.Fprintf(&table, "| %s | %s | %.1f | %.1f |\n", kill.Part, kill.Hit, kill.Back, kill.Progress)
	}
	fmt.Fprintf(&table, "\npaid twice: %d answers, %d texts; %d pauses resumed by hand\n", paid.Duplicates, paid.EmbedTwice, pauses)
	s.t.Logf("\n%s", table.String())
	if stormOut != "" {
		require.NoError(s.t, os.MkdirAll(stormOut, 0o755))
		writeFile(s.t, filepath.Join(stormOut, "storm-cluster.md"), table.String())
	}
}
