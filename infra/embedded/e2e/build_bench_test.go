package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/storm"
)

// What `make bench` measures: make bench BENCH="-data DIR -scales 1,10,100 -serve".
var (
	benchData       = flag.String("data", sample, "folder of corpus, extractions_desc, questions (.jsonl)")
	benchScales     = flag.String("scales", "1,10", "copies of the corpus that are built")
	benchCapacities = flag.String("capacities", "200ms/64", "latency/calls in flight of builds that a model server bounds")
	benchChunks     = flag.Int("chunks", 10_000, "chunks of such a build, at least")
	benchServe      = flag.Bool("serve", false, "ask the largest build over HTTP, too")
)

// BenchmarkBuild builds copies of a corpus, each on a stack of its own in a process of its own. The model server is in
// this process. Figures are ratios within one run: time-per-size is the time against that of the first scale, by size.
func BenchmarkBuild(b *testing.B) {
	var first measured
	scales := strings.Split(*benchScales, ",")
	for i, scale := range scales {
		server := benchServer(b, modeltest.Options{Dimension: 512, Shuffle: true})
		at, spec := startBench(b, server, number(b, scale))
		b.Run("x"+scale, func(b *testing.B) {
			for b.Loop() {
				got := at.build(b, spec)
				got.report(b)
				again := at.build(b, spec)
				b.ReportMetric(100*again.seconds/got.seconds, "rerun-%")
				b.ReportMetric(float64(calls(again.Status)), "rerun-calls")
				if first.Chunks == 0 {
					first = got
				}
				size := float64(got.Chunks) / float64(first.Chunks)
				b.ReportMetric(got.seconds/first.seconds/size, "time-per-size")
				b.ReportMetric(got.most/first.most, "memory-ratio")
			}
		})
		if *benchServe && i == len(scales)-1 {
			at.askAll(b)
		}
		at.Kill()
	}
}

// BenchmarkCapacity reports the share of a model server's places that a build keeps busy, first to last dispatch.
func BenchmarkCapacity(b *testing.B) {
	for _, setting := range strings.FieldsFunc(*benchCapacities, func(r rune) bool { return r == ',' }) {
		b.Run(setting, func(b *testing.B) {
			latency, flight, _ := strings.Cut(setting, "/")
			wait := must(time.ParseDuration(latency))(b)
			places := number(b, flight)
			server := benchServer(b, modeltest.Options{Dimension: 512, Latency: wait, Capacity: places})
			copies := (*benchChunks + corpusLines(b) - 1) / corpusLines(b)
			at, spec := startBench(b, server, copies, "models.limits.concurrency="+flight)
			for b.Loop() {
				at.build(b, spec).report(b)
				st := server.Stats()
				busy := float64(st.Extract) * wait.Seconds() / float64(places)
				b.ReportMetric(busy/(st.Last.Sub(st.First)+wait).Seconds(), "of-the-capacity")
			}
		})
	}
}

func number(b *testing.B, text string) int {
	b.Helper()
	n := must(strconv.Atoi(text))(b)
	return n
}

// benchServer starts a model server that replays the corpus of the benchmark.
func benchServer(b *testing.B, options modeltest.Options) *modeltest.Server {
	b.Helper()
	server := modeltest.New(options)
	err := server.Replay(filepath.Join(*benchData, "corpus.jsonl"), filepath.Join(*benchData, "extractions_desc.jsonl"))
	if err == nil {
		err = server.Listen("127.0.0.1:0")
	}
	require.NoError(b, err)
	b.Cleanup(server.Close)
	return server
}

// benchStack is a stack in a process of its own.
type benchStack struct{ *storm.Stack }

// startBench starts a stack, writes copies of the corpus, and returns what builds an index of them.
func startBench(b *testing.B, server *modeltest.Server, copies int, set ...string) (benchStack, core.Spec) {
	b.Helper()
	dir := b.TempDir()
	at := benchStack{&storm.Stack{Child: storm.Child{
		Dir: filepath.Join(dir, "data"), Settings: []string{"models.endpoints=" + server.URL + "=E2E_KEY"},
	}}}
	require.NoError(b, at.Start(b.Context()))
	b.Cleanup(at.Kill)
	docs := b.TempDir()
	writeCopies(b, filepath.Join(docs, "corpus.jsonl"), copies)
	set = append(set, "models.embedding.dimension=512", "indexes.m.chunking.strategy=document")
	return at, spec(b, "m", docs, server, set...)
}

func readCorpus(b *testing.B) []byte {
	b.Helper()
	raw := must(os.ReadFile(filepath.Join(*benchData, "corpus.jsonl")))(b)
	return raw
}

func corpusLines(b *testing.B) int { return bytes.Count(readCorpus(b), []byte("\n")) }

var capital = regexp.MustCompile(`\b([A-Z][a-z]+)\b`)

// writeCopies writes copies of the corpus; names in later ones are altered, so that they are classes of their own.
func writeCopies(b *testing.B, path string, copies int) {
	b.Helper()
	out := must(os.Create(path))(b)
	writer := bufio.NewWriter(out)
	raw := readCorpus(b)
	for k := range copies {
		for line := range bytes.Lines(raw) {
			row := map[string]any{}
			require.NoError(b, json.Unmarshal(line, &row))
			if k > 0 {
				row["id"], row["title"] = fmt.Sprintf("%v~%d", row["id"], k), fmt.Sprintf("%v x%d", row["title"], k)
				row["text"] = capital.ReplaceAllString(row["text"].(string), "${1}x"+strconv.Itoa(k))
			}
			require.NoError(b, json.NewEncoder(writer).Encode(row))
		}
	}
	require.NoError(b, writer.Flush())
	require.NoError(b, out.Close())
}

// measured is a build and what it took.
type measured struct {
	control.Status
	seconds, cpu float64
	most         float64            // anonymous memory of the stack, MiB
	during       map[string]float64 // most of it in each stage
}

// build runs a build to its end.
func (at benchStack) build(b *testing.B, spec core.Spec) measured {
	b.Helper()
	got := measured{during: map[string]float64{}}
	began, used := time.Now(), at.usage()
	run := must(at.Control.BuildIndex(b.Context(), control.IndexRequest{Spec: spec}))(b)
	for !core.IsTerminal(got.Status.Status) {
		time.Sleep(50 * time.Millisecond)
		got.Status = must(at.Control.ReadStatus(b.Context(), run.Run))(b)
		now := at.usage().anonymous
		got.most, got.during[got.Stage] = max(got.most, now), max(got.during[got.Stage], now)
	}
	completed(b, got.Status)
	got.seconds, got.cpu = time.Since(began).Seconds(), at.usage().cpu-used.cpu
	return got
}

func calls(st control.Status) int64 { return st.Calls.Extract + st.Calls.Shorten + st.Calls.Embed }

func (m measured) report(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(m.Chunks), "chunks")
	b.ReportMetric(float64(m.Chunks)/m.seconds, "chunks/s")
	b.ReportMetric(1000*m.cpu/float64(m.Chunks), "CPU-s/1000-chunks")
	b.ReportMetric(m.most, "MiB-most")
	b.ReportMetric(float64(calls(m.Status)), "model-calls")
	for _, stage := range m.Stages {
		if stage.Seconds > 0.05*m.seconds {
			b.Logf("%s: %.1f s, at most %.0f MiB", stage.Name, stage.Seconds, m.during[stage.Name])
		}
	}
}

// askAll puts the questions of the corpus to the stack, which has nothing else to do, one at once and eight at once.
func (at benchStack) askAll(b *testing.B) {
	var questions []string
	raw := must(os.ReadFile(filepath.Join(*benchData, "questions.jsonl")))(b)
	for line := range bytes.Lines(raw) {
		var one struct{ Question string }
		require.NoError(b, json.Unmarshal(line, &one))
		questions = append(questions, one.Question)
	}
	for _, method := range []string{"hybrid", "unweaver", "bm25"} {
		for _, flight := range []int{1, 8} {
			b.Run(fmt.Sprintf("questions/%s/%d-at-once", method, flight), func(b *testing.B) {
				at.askMany(b, questions, method, flight, 500) // nothing is open before
				for b.Loop() {
					began, used := time.Now(), at.usage()
					took := at.askMany(b, questions, method, flight, 2000)
					n, seconds := float64(len(took)), time.Since(began).Seconds()
					after := at.usage()
					slices.Sort(took)
					b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
					b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
					b.ReportMetric(n/seconds, "queries/s")
					b.ReportMetric(1000*(after.cpu-used.cpu)/n, "CPU-ms/query")
					b.ReportMetric(after.anonymous, "MiB-anonymous")
				}
			})
		}
	}
}

// askMany asks n questions, flight of them at once, and returns how long each took.
func (at benchStack) askMany(b *testing.B, questions []string, method string, flight, n int) []time.Duration {
	b.Helper()
	took, next := make([]time.Duration, n), make(chan int)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: flight}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	var asking sync.WaitGroup
	for range flight {
		asking.Go(func() {
			for i := range next {
				began := time.Now()
				body, _ := json.Marshal(map[string]any{"query": questions[i%len(questions)], "method": method, "top_chunks": 10})
				answer, err := client.Post(at.HTTP+"/v1/indexes/m/query", "application/json", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					continue
				}
				_, err = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				assert.True(b, err == nil && answer.StatusCode == http.StatusOK, "%v %v", answer.Status, err)
				took[i] = time.Since(began)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	asking.Wait()
	return took
}

// usage is what the stack and the processes below it have used (proc(5)).
type usage struct{ cpu, anonymous float64 } // seconds, MiB

func (at benchStack) usage() (sum usage) {
	below := map[string]bool{strconv.Itoa(at.PID()): true}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	slices.SortFunc(files, func(one, other string) int { return len(one) - len(other) }) // parents mostly come first
	for _, path := range files {
		raw, err := os.ReadFile(path)
		pid := filepath.Base(filepath.Dir(path))
		_, rest, _ := strings.Cut(string(raw), ") ")
		fields := strings.Fields(rest)
		if err != nil || len(fields) < 15 || !below[pid] && !below[fields[1]] {
			continue
		}
		below[pid] = true
		for _, ticks := range fields[11:15] { // of the process, and of its children that ended
			n, _ := strconv.ParseFloat(ticks, 64)
			sum.cpu += n / 100
		}
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		_, held, _ := strings.Cut(string(status), "RssAnon:")
		var kilobytes float64
		_, _ = fmt.Sscan(held, &kilobytes)
		sum.anonymous += kilobytes / 1024
	}
	return sum
}
