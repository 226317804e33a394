package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/rerank"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/query-api/api"
)

type servedModels struct{}

func (servedModels) Chat(core.Spec, string) (model.Chat, error) { return builtin.Chat{}, nil }
func (servedModels) Embedder(core.Spec, string, int) (model.Embedder, error) {
	return &stagetest.Embedder{Dim: 8, Free: true}, nil
}
func (servedModels) Finder(core.Spec) (model.Chat, error)    { return nil, nil } //nolint:nilnil // none is configured
func (servedModels) Ranker(core.Spec) (rerank.Ranker, error) { return nil, nil }

// served is an index over the same documents, of so many splits and class runs, behind a server.
type served struct {
	splits, runs int
	url          string
}

// serveSplits builds documents in so many nights that merge nothing, each of which adds an equal share of them.
func serveSplits(b *testing.B, documents, splits int) served {
	b.Helper()
	h := &history{site: newSite(b, nil), random: rand.New(rand.NewPCG(1, 1)), files: map[string]string{}}
	steady(h.site) // vectors that do not depend on what the first night had
	h.spec.Chunking.MaxTokens, h.shard, h.batch = 200, 5000, 1000
	stopMerging(b)
	nights := make([]map[string]string, splits)
	for number := range documents {
		at := number % splits
		if nights[at] == nil {
			nights[at] = map[string]string{}
		}
		nights[at][fmt.Sprintf("%05d.md", number)] = h.document()
	}
	var last *core.Manifest
	for _, files := range nights {
		h.write(b, files)
		last = h.night(b).manifest
	}
	require.Equal(b, splits, len(last.Segments.Splits))
	server := api.New(api.Config{
		Artifacts: h.Artifacts, Records: h.Records, Readers: coordmemory.New(), Runs: coordmemory.New(), Vectors: h.Vectors,
		Models: servedModels{}, Cache: h.Cache, Log: slog.New(slog.DiscardHandler), Timeout: time.Minute,
	})
	listening := httptest.NewServer(server.Handler())
	b.Cleanup(func() {
		listening.Close()
		assert.NoError(b, server.Shutdown(context.Background()))
	})
	return served{splits, len(last.Segments.Runs), listening.URL}
}

// ask asks a question, and gives the chunks that answer.
func (s served) ask(b *testing.B, method, question string) (chunks []string) {
	b.Helper()
	body, err := json.Marshal(map[string]string{"query": question, "method": method})
	require.NoError(b, err)
	response, err := http.Post(s.url+"/v1/indexes/docs/query", "application/json", bytes.NewReader(body))
	require.NoError(b, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.True(b, err == nil && response.StatusCode == http.StatusOK,
		"%s: %d %.300s %v", method, response.StatusCode, raw, err)
	var answer struct {
		Chunks []struct{ ID string } `json:"chunks"`
	}
	require.NoError(b, json.Unmarshal(raw, &answer))
	for _, chunk := range answer.Chunks {
		chunks = append(chunks, chunk.ID)
	}
	return chunks
}

// processor returns the processor time that this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkSplitsOverHTTP asks the same questions of one corpus in 1, 8, 32 and 64 splits, of all of them in turn, so
// that ratios hold under other load. Every layout gives the same chunks. It prints p50, and the processor time of
// server and client, and both as multiples of those of one split.
func BenchmarkSplitsOverHTTP(b *testing.B) {
	const documents, rounds, questions = 640, 4, 25
	var layouts []served
	for _, splits := range []int{1, 8, 32, 64} {
		layouts = append(layouts, serveSplits(b, documents, splits))
	}
	for b.Loop() {
		for _, method := range methods.Registry().ListPlain() {
			took, used := make([][]time.Duration, len(layouts)), make([]time.Duration, len(layouts))
			for round := range rounds + 1 { // the first warms up
				for i, layout := range layouts {
					random := rand.New(rand.NewPCG(uint64(round), 3))
					before := processor(b)
					for range questions {
						question := questionOf(random)
						began := time.Now()
						got := layout.ask(b, method, question)
						if round > 0 {
							took[i] = append(took[i], time.Since(began))
							continue
						}
						if want := layouts[0].ask(b, method, question); len(got) == 0 || !slices.Equal(got, want) {
							b.Fatalf("%s, %d splits: %q, of one %q", method, layout.splits, got, want)
						}
					}
					if round > 0 {
						used[i] += processor(b) - before
					}
				}
			}
			for i, layout := range layouts {
				for _, times := range took {
					slices.Sort(times)
				}
				p50, one := took[i][len(took[i])/2], took[0][len(took[0])/2]
				cost := used[i] / (rounds * questions)
				b.Logf("%-10s %2d splits, %2d runs: p50 %.2f ms (%.2f of one), %.2f ms of processors a query (%.2f)", method,
					layout.splits, layout.runs, 1000*p50.Seconds(), float64(p50)/float64(one), 1000*cost.Seconds(),
					float64(used[i])/float64(used[0]))
			}
		}
	}
}
