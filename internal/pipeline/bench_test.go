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
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/stage/collect"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// distantSite returns a site whose models are paid for and whose stores answer after a while.
func distantSite(t testing.TB, documents int, wait time.Duration) (*site, *distance.Requests) {
	s := newSite(t, sample(documents))
	requests := distance.New(wait)
	s.Artifacts = distance.Blob(s.Artifacts, requests)
	s.Coordination = distance.Coordination(s.Coordination, requests)
	s.Records = distance.Records(s.Records, requests)
	paying(s)
	s.shard, s.batch, s.width = min(5000, max(500, documents/10)), 64, 20 // 5,000 and 20 are what runs and workers have
	return s, requests
}

// next builds a night in a process that begins with it, and returns the requests and the time of that night.
func (s *site) next(t testing.TB, requests *distance.Requests) (distance.Counted, time.Duration) {
	s.Ledger = ledger.New(s.Artifacts, distance.Coordination(coordmemory.New(), requests))
	requests.Take()
	begin := time.Now()
	s.night(t)
	return requests.Take(), time.Since(begin)
}

// clock says how long each stage took, in the order in which they began.
type clock struct {
	mu     sync.Mutex
	stages []string
	begun  []time.Time
}

func (c *clock) before(stage string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.stages, stage) {
		c.stages, c.begun = append(c.stages, stage), append(c.begun, time.Now())
	}
}

func (c *clock) String() string {
	var out strings.Builder
	for i, stage := range c.stages {
		end := time.Now()
		if i+1 < len(c.begun) {
			end = c.begun[i+1]
		}
		fmt.Fprintf(&out, "%s %.2f s  ", stage, end.Sub(c.begun[i]).Seconds())
	}
	return out.String()
}

// edit changes every document whose number is a multiple of every.
func (s *site) edit(t testing.TB, documents, every int) {
	for i := 0; i < documents; i += every {
		path := filepath.Join(s.corpus, fmt.Sprintf("place-%03d.md", i))
		raw := must(os.ReadFile(path))(t)
		require.NoError(t, os.WriteFile(path, append(raw, "Tin came from Tolmin.\n"...), 0o644))
	}
}

// What a build asks its stores for is bounded by its chunks, and what an unchanged night asks for is a constant.
func TestRequestsOfABuildAreFewAndThoseOfAnUnchangedNightFewer(t *testing.T) {
	const documents = 600
	s, requests := distantSite(t, documents, 0)
	first, _ := s.next(t, requests)
	t.Logf("first build of %d chunks:\n%s", documents, first)
	unchanged, _ := s.next(t, requests)
	t.Logf("unchanged night:\n%s", unchanged)
	s.edit(t, documents, 100)
	night, _ := s.next(t, requests)
	t.Logf("a night of 1 %%:\n%s", night)
	s.write(t, map[string]string{"quay.md": "# A quay\n\nCopper from Barrow Keld is weighed on the Long Quay.\n"})
	added, _ := s.next(t, requests)
	t.Logf("a night of one document:\n%s", added)
	blobs := func(counted distance.Counted) int64 { return counted.Of("index/") + counted.Of("ledger/") }
	for _, bound := range []struct {
		what        string
		asked, most int64
	}{
		{"looks at single entries by the first build: one a miss, and those before the first shard", first.Of(
			"ledger/extract/loose", distance.Get), documents + 64 + 10},
		{"claims taken and given back by the first build: one a miss each, and a few", first.Of(
			"coordination", "claim", "release"), 2*documents + 200},
		{"claims of an unchanged night", unchanged.Of("coordination", "claim", "release"), 0},
		{"entries written by the first build", first.Of("ledger/extract/loose", distance.PutIf), documents},
		{"all that the first build asked the artifacts for", blobs(first), 9 * documents / 2},
		{"all that an unchanged night asked the artifacts for", blobs(unchanged), 70},
		{"looks at single entries by a night of 1 %", night.Of("ledger/extract/loose", distance.Get), 64},
		{"what a night of 1 % read of packs", night.Of("ledger/extract/packs", distance.Get), 120},
		{"all that a night of 1 % asked the artifacts for", blobs(night), 290},
		{"all that a night of one document asked the artifacts for; some ten tell of earlier ones", blobs(added), 270},
	} {
		assert.True(t, bound.asked <= bound.most, "%s: %d, at most %d", bound.what, bound.asked, bound.most)
	}
}

// BenchmarkDistance prints what `make bench` says of requests: a first build, an unchanged night, and one in which
// 1 % of the documents changed, by how long a request takes, and how many there are of a store and kind.
// UNWEAVER_BENCH_CHUNKS is how many documents of one chunk.
func BenchmarkDistance(b *testing.B) {
	documents := 1000
	if asked := os.Getenv("UNWEAVER_BENCH_CHUNKS"); asked != "" {
		documents = must(strconv.Atoi(asked))(b)
	}
	for _, wait := range []time.Duration{0, 15 * time.Millisecond, 60 * time.Millisecond} {
		b.Run(wait.String(), func(b *testing.B) {
			for b.Loop() {
				s, requests := distantSite(b, documents, wait)
				for _, night := range []string{"first", "unchanged", "1%"} {
					if night == "1%" {
						s.edit(b, documents, 100)
					}
					var took clock
					s.before = took.before
					counted, passed := s.next(b, requests)
					b.ReportMetric(float64(counted.Of(""))/float64(documents), night+"-requests/chunk")
					b.ReportMetric(float64(counted.Of("coordination"))/float64(documents), night+"-coordination/chunk")
					b.ReportMetric(float64(counted.Of("records"))/float64(documents), night+"-records/chunk")
					b.ReportMetric(float64(counted.Chain), night+"-chain")
					b.Logf("%s, %s:\n%s\n%s", night, wait, &took, counted)
					b.ReportMetric(passed.Seconds(), night+"-s")
				}
			}
		})
	}
}

// A merge reads what it merges once, and not each document by itself: many small ones lie in one frame.
func TestRequestsOfAMergeDoNotGrowWithItsDocuments(t *testing.T) {
	const documents = 600
	s, requests := distantSite(t, documents, 0)
	s.next(t, requests)
	s.edit(t, documents, 4)
	night, _ := s.next(t, requests)
	t.Logf("a night that writes a split again of which a quarter died:\n%s", night)
	segments := s.current(t).Segments
	require.True(t, len(segments.Splits) == 2 && len(segments.Tombs) == 0 && segments.Splits[0].Documents == documents/4,
		"no split was merged: %+v, %d tombs", segments.Splits, len(segments.Tombs))
	if asked := night.Of("index/segments", distance.Get); asked > documents/2 {
		t.Errorf("%d segments and parts of them were read, as if each document were read by itself", asked)
	}
}

// BenchmarkListed says how long the keys take that the upkeep of the ledger must keep, which are read from the
// segments of all generations once a day. UNWEAVER_BENCH_CHUNKS is how many documents of one chunk there are.
func BenchmarkListed(b *testing.B) {
	documents := 1000
	if asked := os.Getenv("UNWEAVER_BENCH_CHUNKS"); asked != "" {
		var err error
		documents, err = strconv.Atoi(asked)
		require.NoError(b, err)
	}
	s := newSite(b, sample(documents))
	paying(s)
	s.shard, s.batch, s.width = 5000, 64, 8
	s.night(b)
	indexes := []artifact.Index{{Store: s.Artifacts, Name: s.spec.Index}}
	for b.Loop() {
		for _, task := range ledger.Tasks() {
			begin, keys := time.Now(), map[core.Digest]bool{}
			for key, err := range collect.ListKeys(b.Context(), indexes, task) {
				require.NoError(b, err)
				keys[key] = true
			}
			b.ReportMetric(time.Since(begin).Seconds()*1e6/float64(documents), task+"-µs/chunk")
			b.ReportMetric(float64(len(keys))/float64(documents), task+"-keys/chunk")
		}
	}
}

type servedModels struct{}

func (servedModels) Chat(core.Spec) (model.Chat, error) { return builtin.Chat{}, nil }
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
