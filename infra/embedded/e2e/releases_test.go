package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// witness counts the generations that answered queries, and wakes who waits for one.
type witness struct {
	mu      sync.Mutex
	seen    map[string]int
	changed chan struct{}
	stopped bool
	failed  []string
}

func (a *witness) note(generation string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[generation]++
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *witness) fail(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = append(a.failed, text)
}

func (a *witness) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
}

func (a *witness) over() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped
}

// next waits until a generation has answered once more.
func (a *witness) next(t *testing.T, generation string) {
	t.Helper()
	deadline := time.After(time.Minute)
	a.mu.Lock()
	was := a.seen[generation]
	for a.seen[generation] == was && len(a.failed) == 0 {
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("generation %s was published a minute ago and answers nothing", generation)
		}
		a.mu.Lock()
	}
	a.mu.Unlock()
}

// Fifty times what is served changes, by builds, approvals and rollbacks through the stack's admin API, while queries
// go on: none fails, and none mixes two generations (docs/invariants.md, 3).
// Promises: 3, 34.
func TestQueriesDuringFiftyPublishesAndRollbacksSeeOneGeneration(t *testing.T) {
	dir := t.TempDir()
	state := func(n int) {
		for i := range 6 {
			writeFile(t, fmt.Sprintf("%s/d%d.txt", dir, i),
				fmt.Sprintf("Lighthouse %d stands on Cape Merrow. It was painted in colour number %d.", i, n))
		}
	}
	sp := spec(t, "moves", dir, nil, "indexes.moves.keep=9")
	client := &httpapi.Client{Base: shared.HTTP, Token: shared.Token}
	var mu sync.Mutex
	colours := map[string]int{}
	built := func(n int) string {
		state(n)
		generation := completed(t, index(t, shared.Control, sp)).Generation
		mu.Lock()
		defer mu.Unlock()
		colours[generation] = n
		return generation
	}
	kept := []string{built(0)}
	type answer struct{ generation, text string }
	var got []answer
	load := witness{seen: map[string]int{}, changed: make(chan struct{})}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !load.over() {
				status, out := do(t, shared.HTTP, http.MethodPost, "/v1/indexes/moves/query",
					map[string]any{"query": "Lighthouse Cape Merrow colour", "top_chunks": 6})
				if status != http.StatusOK {
					load.fail(fmt.Sprint(status, out))
					return
				}
				generation := out["generation"].(string)
				mu.Lock()
				for _, chunk := range chunksOf(out) {
					got = append(got, answer{generation, chunk["text"].(string)})
				}
				mu.Unlock()
				load.note(generation)
			}
		})
	}
	moves := 0
	for n := 1; n <= 3; n++ {
		kept = append(kept, built(n))
		load.next(t, kept[n])
		moves++
	}
	ctx := control.WithOperator(t.Context(), core.Operator{By: "ada@desk", Reason: "drill"})
	for ; moves < 50; moves++ {
		target := kept[moves%len(kept)]
		move, err := client.MoveGeneration(ctx, control.MoveRequest{Action: core.ActionRollback, Index: "moves", Generation: target})
		require.NoError(t, err)
		if !move.Unchanged {
			load.next(t, target)
		}
	}
	load.stop()
	wg.Wait()
	assert.Empty(t, load.failed)
	for _, a := range got {
		if n, known := colours[a.generation]; !known || !strings.Contains(a.text, fmt.Sprintf("colour number %d.", n)) {
			t.Fatalf("generation %s answered %q", a.generation, a.text)
		}
	}
	assert.Len(t, load.seen, len(kept), "answers came from")
	operations, err := client.ListOperations(t.Context(), "moves", 0)
	require.True(t, err == nil && len(operations) >= 40, "%d operations, %v", len(operations), err)
	for _, op := range operations {
		assert.True(t, op.Outcome != nil && op.Outcome.Result == core.OperationDone && op.By == "ada@desk" &&
			op.Via == "token" && op.Reason == "drill", "%+v", op)
	}
	t.Logf("%d moves, %d answers, none failed", moves, len(got))
	if _, err := client.MoveGeneration(ctx, control.MoveRequest{
		Action: core.ActionRollback, Index: "moves", Generation: "none",
	}); !fault.Is(err, fault.UnknownGen) {
		t.Errorf("back to one that never was: %v", err)
	}
}
