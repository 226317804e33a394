package pipeline_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func (s *site) estimating() upkeep.Estimating {
	return upkeep.Estimating{
		Artifacts: s.Artifacts, Corpora: s.Corpora, StoreID: s.StoreID, Settings: s.spec, Listed: true,
		Models: func(spec core.Spec) (model.Set, error) { return s.Models(spec, nil) },
		Folder: func(path string) (blob.Store, error) { return dir.Open(path) },
		Parser: s.Parser, Limits: s.Limits,
	}
}

func estimated(t *testing.T, in upkeep.Estimating) core.Estimated {
	return must(upkeep.EstimateBuild(t.Context(), in))(t)
}

// parsed counts the documents that are parsed.
type parsed struct {
	document.Parser
	count *atomic.Int64
}

func (p parsed) Parse(ctx context.Context, reader io.Reader, kind document.Kind, object string) (document.Doc, error) {
	p.count.Add(1)
	return p.Parser.Parse(ctx, reader, kind, object)
}

func shares(report core.Estimated) map[string]int64 {
	out := map[string]int64{}
	for _, share := range report.Shares {
		out[share.Reason] = share.Documents
	}
	return out
}

// Documents that did not change are neither parsed nor cut, and what would be made is reported by its reason.
func TestAnEstimateParsesWhatChangedAloneAndTellsWhy(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(30))
	first := estimated(t, s.estimating())
	if got := fmt.Sprint(shares(first)); got != "map[added:30]" || first.Shares[0].Chunks != first.Chunks {
		t.Errorf("a first build: %s of %d chunks, %+v", got, first.Chunks, first.Shares)
	}
	was := s.night(t)
	reported := core.Report{ // stages of a night in a test are not timed
		Status: core.StatusCompleted, Diff: core.Diff{Added: 30},
		Stages: []core.StageProgress{{Name: core.StageChunk, Seconds: 10}},
	}
	key := artifact.Index{Store: s.Artifacts, Name: "docs"}.GenerationKey(was.manifest.Generation, "report.json")
	must(blob.WriteJSON(t.Context(), s.Artifacts, key, reported, blob.Cond{}))(t)
	s.write(t, map[string]string{"new.md": "# New\n\nTolmin sells tin.\n",
		"place-003.md": "# Other\n\nBern sells salt.\n"})
	for _, change := range []error{
		os.Rename(filepath.Join(s.corpus, "place-004.md"), filepath.Join(s.corpus, "renamed.md")),
		os.Remove(filepath.Join(s.corpus, "place-005.md")),
	} {
		require.NoError(t, change)
	}
	in := s.estimating()
	var count atomic.Int64
	in.Parser, in.Why = parsed{in.Parser, &count}, "renamed.md"
	report := estimated(t, in)
	assert.Equal(t, "map[added:1 changed:1 moved:1 removed:1]", fmt.Sprint(shares(report)))
	assert.Equal(t, int64(3), count.Load())
	assert.True(t, report.Why != nil && report.Why.Reason == "moved" && report.Why.Chunks != 0 && report.Why.Version != "",
		"why: %+v", report.Why)
	assert.False(t, report.Estimate.Runs != 1 || report.Estimate.Seconds.High < 10,
		"not by the run before: %+v", report.Estimate)
	night := s.night(t)
	assert.True(t, report.Chunks == night.manifest.Counts.Chunks && report.Documents == night.manifest.Counts.Documents,
		"expected %d chunks of %d documents, came %+v", report.Chunks, report.Documents, night.manifest.Counts)
	assert.True(t, report.Plan.Manifest != "" && len(report.Plan.Documents) == 4 &&
		report.Plan.Parent == was.manifest.Generation, "plan: %+v", report.Plan)
}

func TestAnEstimateSaysWhichSettingHasAllMadeAgain(t *testing.T) {
	t.Parallel()
	s := builtSite(t, sample(5))
	s.spec.Chunking.MaxTokens = 700
	in := s.estimating()
	in.Why = "place-001.md"
	report := estimated(t, in)
	got := fmt.Sprint(shares(report))
	assert.True(t, got == "map[config: chunking:5]" && report.Why.Reason == "config: chunking", "%s, %+v", got, report.Why)
	in.Why = "nowhere.md"
	refused(upkeep.EstimateBuild(t.Context(), in))(t, fault.NotFound, "nowhere.md", "a document that is not there")
}

// A plan says what has moved since: listing, parent, configuration.
func TestAPlanTellsWhatHasMovedSince(t *testing.T) {
	t.Parallel()
	s := builtSite(t, sample(6))
	s.write(t, map[string]string{"new.md": "# New\n\nTolmin sells tin.\n"})
	plan := estimated(t, s.estimating()).Plan
	again := func() []string {
		in := s.estimating()
		in.Unpriced = true
		return plan.ListDifferences(*estimated(t, in).Plan)
	}
	require.Empty(t, again(), "nothing moved")
	s.write(t, map[string]string{"new.md": "# New\n\nTolmin sells iron.\n",
		"place-001.md": "# Other\n\nBern sells salt.\n"})
	want := []string{"new.md: other bytes", "place-001.md: changed, was as the parent has it"}
	assert.Equal(t, want, again(), "the listing")
	s.night(t)
	moved := again()
	assert.True(t, len(moved) == 2 && strings.HasPrefix(moved[0], "parent: generation ") &&
		moved[1] == "new.md: as the parent has it, was added", "the parent: %q", moved)
	s.spec.Chunking.MaxTokens = 700
	if moved := again(); !slices.Contains(moved, "indexes.docs.chunking.max_tokens: 700, was 1500") {
		t.Errorf("the configuration: %q", moved)
	}
}

// What a plan expects of a build stands in its report.
func TestAReportTellsWhatWasExpected(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(4))
	job, holder := s.leased(t)
	expected := core.Estimate{Extract: core.Range{Low: 3, High: 7}}
	require.NoError(t, upkeep.WriteExpected(t.Context(), s.index(), job.Generation, expected))
	out := must(s.stages(t.Context(), job, holder))(t)
	require.NoError(t, s.finish(t.Context(), job, holder, run.Ending{Status: out.published.Status}))
	assert.Equal(t, &expected, s.report(t).Planned)
}

// Extraction in batches costs at least their share of the price, and at most what it costs online, where late requests
// go.
func TestAnEstimateOfBatchesTellsTheirPrice(t *testing.T) {
	s := newSite(t, sample(6))
	s.Models = (&shop{sold: map[string]int{}}).models
	s.spec.Chat = core.ChatModel{
		Provider: "openai", BaseURL: "http://127.0.0.1:1/v1", Model: "small",
		Price: core.Price{Prompt: 1000, Completion: 4000},
	}
	online := estimated(t, s.estimating()).Estimate
	s.spec.Chat.Batch = core.BatchMode{Deadline: core.Duration(time.Hour), PricedAt: 0.25}
	batched := estimated(t, s.estimating()).Estimate
	require.False(t, online.Extract.Low == 0 || online.Shorten.Low > 0 || online.Cost.Low == 0, "%+v", online)
	assert.False(t, math.Abs(batched.Cost.Low-online.Cost.Low/4) > 1e-9 || batched.Cost.High != online.Cost.High,
		"%+v, online %+v", batched.Cost, online.Cost)
	assert.True(t, batched.Tokens == online.Tokens && batched.Extract == online.Extract,
		"%+v, online %+v", batched, online)
}

// counting is an embedder that counts what it is asked.
type counting struct {
	model.Embedder
	identity string
	calls    *atomic.Int64
}

func (c counting) Info() model.Info {
	return model.Info{Provider: "openai", Model: c.identity, Paid: true}
}

func (c counting) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	c.calls.Add(1)
	return c.Embedder.Embed(ctx, texts)
}

// What is embedded again for another embedder, for other texts of entities, or for another identity of the same model
// is counted, and what was paid for once is not.
func TestAnEstimateCountsWhatIsEmbeddedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(40))
	var calls atomic.Int64
	sold, weights := &shop{sold: map[string]int{}}, ""
	s.Models = func(spec core.Spec, _ model.Meter) (model.Set, error) {
		embedder := counting{&stagetest.Embedder{Dim: spec.Embedding.Dimension}, spec.Embedding.Model + weights, &calls}
		return model.Set{Chat: shopChat{sold, spec.Chat.Model}, Classes: embedder, Chunks: embedder}, nil
	}
	s.spec.Chat.Provider, s.spec.Chat.Model = "openai", "c1"
	s.spec.Embedding = core.EmbedModel{Provider: "openai", Model: "a", Dimension: 8}
	for _, change := range []struct {
		name string
		do   func()
		paid bool // surely
	}{
		{"a first build", func() {}, true},
		{"nothing", func() {}, false},
		{"another model", func() { s.spec.Embedding.Model = "b" }, true},
		{"another dimension", func() { s.spec.Embedding.Dimension = 16 }, true},
		{"a shorter input", func() { s.spec.Embedding.MaxInputTokens = 8 }, true},
		{"other weights", func() { weights = " weights/2" }, true},
		{"what was paid for before", func() {
			s.spec.Embedding, weights = core.EmbedModel{Provider: "openai", Model: "a", Dimension: 8}, ""
		}, false},
		{"another chat model", func() { s.spec.Chat.Model = "c2" }, false},
		{"other short texts", func() { s.spec.Shortening.Threshold = 30 }, false},
	} {
		change.do()
		expected := estimated(t, s.estimating()).Estimate.Embed
		calls.Store(0)
		s.night(t)
		came := float64(calls.Load())
		assert.True(t, expected.Low <= came && came <= expected.High && (expected.Low > 0) == change.paid,
			"%s: expected %+v, came %v", change.name, expected, came)
	}
}

// What cannot be read is reported by an estimate as the build reports it.
func TestAnEstimateNamesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(2))
	s.write(t, map[string]string{"blank.txt": " \n", "cut.json": `{"text": "Bern`, "cut.pdf": "%PDF-1.7\n"})
	in := s.estimating()
	in.Why = "cut.json"
	report := estimated(t, in)
	assert.True(t, report.DocumentsFailed == 2 && report.DocumentsEmpty == 1 && report.ProblemsTotal == 3 &&
		report.Documents == 2 && len(report.Problems) == 3, "%+v", report.Report)
	assert.Contains(t, report.Why.Detail, "unreadable_document: ")
	s.night(t)
	came := s.report(t)
	for _, problem := range report.Problems {
		assert.Contains(t, came.Problems, problem)
	}
	assert.True(t, came.DocumentsFailed == 2 && came.DocumentsEmpty == 1 && came.ProblemsTotal == 3, "%+v", came)
	again := estimated(t, s.estimating())
	assert.True(t, again.DocumentsFailed == 2 && again.DocumentsEmpty == 1 && again.Unchanged, "%+v", again.Report)
}
