package pipeline

import (
	"testing"

	"github.com/unweaver/unweaver/internal/core"
)

// SetMade has this program claim other rules for one test; empty fields stay as they are.
func SetMade(t *testing.T, other core.Made) {
	t.Helper()
	was := madeBy
	t.Cleanup(func() { madeBy = was })
	for _, field := range []struct{ to, from *string }{
		{&madeBy.Parser, &other.Parser},
		{&madeBy.Chunker, &other.Chunker},
		{&madeBy.Names, &other.Names},
		{&madeBy.Analyser, &other.Analyser},
	} {
		if *field.from != "" {
			*field.to = *field.from
		}
	}
}

// SetSizes makes splits of so many chunks, class runs of so many rows, and partitions of so many mentions for one test.
func SetSizes(t *testing.T, chunks, rows, mentions int64) {
	t.Helper()
	was := [...]int64{leastChunks, leastRows, mentionsPerPartition}
	t.Cleanup(func() { leastChunks, leastRows, mentionsPerPartition = was[0], was[1], was[2] })
	leastChunks, leastRows, mentionsPerPartition = chunks, rows, mentions
}

// Unmerged has nights merge no tiers, so that a generation has a split and a run of each of them.
func Unmerged(t testing.TB) {
	t.Helper()
	was := tierWidth
	t.Cleanup(func() { tierWidth = was })
	tierWidth = 1 << 20
}

// Forget has units of work begin with what the store has, as those of another process do.
func (p *Ports) Forget() { p.near.Forget() }

// RowsOf tells by its key whether a vector row counts in a generation.
func RowsOf(t *testing.T, ports *Ports, manifest *core.Manifest) func(key string) bool {
	t.Helper()
	run := ports.Bare(Job{Index: manifest.Index}, core.StageSegment, "test")
	t.Cleanup(run.Close)
	table, err := run.table(t.Context(), manifest)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Release)
	return func(key string) bool { return rowCounts(table, key) }
}

// Another has the ports of another process on the same stores.
func (p *Ports) Another() *Ports {
	return &Ports{
		Artifacts: p.Artifacts, Corpora: p.Corpora, Records: p.Records, Coordination: p.Coordination, Vectors: p.Vectors,
		Models: p.Models, Ledger: p.Ledger, StoreID: p.StoreID, Cache: p.Cache, CPU: p.CPU, Log: p.Log,
	}
}

// RunsOf is how many class runs partitions of classes make.
func RunsOf(classes []core.Segment) int { return len(runCuts(classes)) }

// PlannedRuns is how many units of work a build of so many splits has for them.
func PlannedRuns(splits int, classes int64, partitions int) int {
	return piecesOf(make([]splitCut, splits), classes, partitions).Runs
}
