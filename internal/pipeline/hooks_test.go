package pipeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/stage/verify"
)

// setMade has this program claim other rules for one test; empty fields stay as they are.
func setMade(t *testing.T, other core.Made) {
	t.Helper()
	was := run.Rules
	t.Cleanup(func() { run.Rules = was })
	for _, field := range []struct{ to, from *string }{
		{&run.Rules.Parser, &other.Parser},
		{&run.Rules.Chunker, &other.Chunker},
		{&run.Rules.Names, &other.Names},
		{&run.Rules.Analyser, &other.Analyser},
	} {
		if *field.from != "" {
			*field.to = *field.from
		}
	}
}

// setSizes makes splits of so many chunks, class runs of so many rows, and partitions of so many mentions for one test.
func setSizes(t *testing.T, chunks, rows, mentions int64) {
	t.Helper()
	was := [...]int64{unit.LeastChunks, unit.LeastRows, unit.MentionsPerPartition}
	t.Cleanup(func() { unit.LeastChunks, unit.LeastRows, unit.MentionsPerPartition = was[0], was[1], was[2] })
	unit.LeastChunks, unit.LeastRows, unit.MentionsPerPartition = chunks, rows, mentions
}

// stopMerging has nights merge no tiers, so that a generation has a split and a run of each of them.
func stopMerging(t testing.TB) {
	t.Helper()
	was := unit.TierWidth
	t.Cleanup(func() { unit.TierWidth = was })
	unit.TierWidth = 1 << 20
}

// rowsOf returns what reports whether a vector row counts in a generation, by its key.
func rowsOf(t *testing.T, ports *run.Ports, manifest *core.Manifest) func(key string) bool {
	t.Helper()
	begun := upkeep.OpenBare(ports, run.Job{Index: manifest.Index}, core.StageSegment, "test")
	t.Cleanup(begun.Close)
	table, err := begun.OpenTable(t.Context(), manifest)
	require.NoError(t, err)
	t.Cleanup(table.Release)
	return func(key string) bool { return verify.RowCounts(table, key) }
}

// portsOfAnother returns the ports of another process on the same stores.
func portsOfAnother(p *run.Ports) *run.Ports {
	return &run.Ports{
		Artifacts: p.Artifacts, Corpora: p.Corpora, Records: p.Records, Coordination: p.Coordination, Vectors: p.Vectors,
		Models: p.Models, Ledger: p.Ledger, StoreID: p.StoreID, Cache: p.Cache, CPU: p.CPU, Log: p.Log,
	}
}

// runsOf returns how many class runs partitions of classes make.
func runsOf(classes []core.Segment) int { return len(unit.RunCuts(classes)) }

// plannedRuns returns how many units of work a build of so many splits has for them.
func plannedRuns(splits int, classes int64, partitions int) int {
	return unit.PiecesOf(make([]unit.SplitCut, splits), classes, partitions).Runs
}

// Open begins a unit of work with all that a run can do.
func (s *site) Open(ctx context.Context, job run.Job, stage string) (*upkeep.Run, error) {
	begun := s.Bare(job, stage, "")
	return begun, begun.Configure(ctx)
}

// Bare begins a unit of work without its configuration.
func (s *site) Bare(job run.Job, stage, scratch string) *upkeep.Run {
	return upkeep.OpenBare(s.Ports, job, stage, scratch)
}
