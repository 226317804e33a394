package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/storm"
	"github.com/unweaver/unweaver/internal/testkit/storm/proxy"
	"github.com/unweaver/unweaver/workflows"
)

// distant is a store that is some way off.
var distant = proxy.Weather{Delay: 30 * time.Millisecond}

func (p *proc) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, signal))
}

// caught waits until a worker has an activity of this kind and freezes that worker. It gives the frozen one and what it
// had; nil where the run ended before.
func caught(t *testing.T, c *cluster, run, activity string, workers []*proc) (*proc, storm.Flight) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(time.Millisecond) {
		flights, open, err := storm.Flights(t.Context(), c.client, workflows.WorkflowID(run))
		if err == nil && !open {
			return nil, storm.Flight{}
		}
		for _, flight := range flights {
			if !flight.Running || flight.Type != activity {
				continue
			}
			for _, worker := range workers {
				if strings.HasPrefix(flight.Worker, fmt.Sprint(worker.cmd.Process.Pid, "@")) {
					worker.signal(t, syscall.SIGSTOP)
					return worker, flight
				}
			}
		}
	}
	t.Fatalf("%s was never in flight", activity)
	return nil, storm.Flight{}
}

// takenOver waits until another worker has the activity that a frozen one had, or it is done.
func takenOver(t *testing.T, c *cluster, run string, had storm.Flight) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(10 * time.Millisecond) {
		flights, open, err := storm.Flights(t.Context(), c.client, workflows.WorkflowID(run))
		if err != nil {
			continue
		}
		there := func(flight storm.Flight) bool {
			return flight.Workflow == had.Workflow && flight.ID == had.ID && flight.Attempt == had.Attempt
		}
		if !open || !slices.ContainsFunc(flights, there) {
			return
		}
	}
	t.Fatalf("no worker took %s over in a minute", had.Type)
}

// A worker is frozen for longer than a heartbeat in the middle of an activity, another finishes the build, and then the
// frozen one goes on where it was: the index is as if nothing had been.
// Promises: 1, 2.
func TestAWorkerThatWasFrozenAndGoesOnHarmsNothing(t *testing.T) {
	longtest.Nightly(t)
	want, folders := calmNights(t, storm.Documents{Count: 120, Seed: 5}, 2)
	frozenIn := []string{workflows.CollectGarbage} // the one that could delete what another has published
	if longtest.On() {
		frozenIn = append(frozenIn, workflows.ExtractChunks, workflows.LoadPart, workflows.WriteSegments,
			workflows.VerifyPart, workflows.PublishBuild)
	}
	for _, activity := range frozenIn {
		t.Run(activity, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "stores.milvus.load=insert")
			c.behindProxies(3)["S3"].Set(distant) // what takes a moment can be frozen in it
			server := slowModels(t)
			spec := stormSpec(t, "k", ".", server.URL)
			workers := []*proc{c.worker(), c.worker()}
			base := c.replica()
			c.upload(folders[0])
			before := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: spec})))
			same(t, before, want[0].status)
			time.Sleep(time.Second) // what is collected is past its grace
			c.upload(folders[1])
			run := c.begin(control.IndexRequest{Spec: spec})
			frozen, had := caught(t, c, run, activity, workers)
			require.True(t, frozen != nil, "the build ended before %s was seen", activity)
			takenOver(t, c, run, had)
			status := completed(t, wait(t, c.ctl, run))
			same(t, status, want[1].status)
			// Back to the state before, so that what the frozen one may have condemned is used again.
			c.upload(folders[0])
			back := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: spec})))
			frozen.signal(t, syscall.SIGCONT)
			time.Sleep(10 * time.Second) // it goes on, and learns that another worker has its activity
			same(t, back, want[0].status)
			intact(t, c, spec, server, base, want[0])
			paid := server.Stats()
			assert.True(t, paid.Duplicates <= 2*flight, "%d answers were paid twice", paid.Duplicates)
		})
	}
}

// intact checks that an index answers as it is to, from a replica with an empty cache too, that a restore finds all of
// it, and that an unchanged corpus has nothing to do.
func intact(t *testing.T, c *cluster, spec core.Spec, server *modeltest.Server, base string, want calmNight) {
	t.Helper()
	inner := *c
	inner.t = t
	for _, replica := range []string{base, inner.replica()} {
		got := settled(t, replica, "k", want.chunks)
		assert.True(t, slices.Equal(got, want.chunks), "chunks %v, want %v", got, want.chunks)
	}
	paid := server.Stats()
	again := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: spec})))
	if now := server.Stats(); !again.Unchanged || now.Chat != paid.Chat || now.Embed != paid.Embed {
		t.Errorf("an unchanged corpus: unchanged %v, %d calls", again.Unchanged, now.Chat+now.Embed-paid.Chat-paid.Embed)
	}
	restore := must(c.ctl.RestoreIndex(t.Context(), "k"))(t)
	completed(t, wait(t, c.ctl, restore.Run))
}
