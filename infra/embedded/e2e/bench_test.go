package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// What `make bench` measures: make bench BENCH="-data DIR -scales 1,10,100".
var (
	benchData   = flag.String("data", sample, "folder of corpus, extractions_desc, questions (.jsonl)")
	benchScales = flag.String("scales", "1,10", "copies of the corpus that are built")
)

// BenchmarkBuild builds copies of a corpus, each on a stack of its own in a process of its own. The model server is in
// this process. Figures are ratios within one run: time-per-size is the time against that of the first scale, by size.
func BenchmarkBuild(b *testing.B) {
	var first measured
	for _, scale := range strings.Split(*benchScales, ",") {
		server := benchServer(b, modeltest.Options{Dimension: 512, Shuffle: true})
		at, spec := startBench(b, server, musttest.Get(strconv.Atoi(scale))(b))
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
		at.kill()
	}
}

// benchServer starts a model server that replays the corpus of the benchmark.
func benchServer(b *testing.B, options modeltest.Options) *modeltest.Server {
	server := modeltest.New(options)
	err := server.Replay(filepath.Join(*benchData, "corpus.jsonl"), filepath.Join(*benchData, "extractions_desc.jsonl"))
	if err == nil {
		err = server.Listen("127.0.0.1:0")
	}
	require.NoError(b, err)
	b.Cleanup(server.Close)
	return server
}

type benchStack struct{ *child }

// startBench starts a stack, writes copies of the corpus, and returns what builds an index of them.
func startBench(b *testing.B, server *modeltest.Server, copies int, set ...string) (benchStack, core.Spec) {
	dir := b.TempDir()
	at := benchStack{&child{
		Dir: filepath.Join(dir, "data"), Settings: []string{"models.endpoints=" + server.URL + "=E2E_KEY"},
	}}
	at.start(b)
	b.Cleanup(at.kill)
	docs := b.TempDir()
	writeCopies(b, filepath.Join(docs, "corpus.jsonl"), copies)
	set = append(set, "models.embedding.dimension=512", "indexes.m.chunking.strategy=document")
	return at, spec(b, "m", docs, server, set...)
}

func readCorpus(b *testing.B) []byte {
	return musttest.Get(os.ReadFile(filepath.Join(*benchData, "corpus.jsonl")))(b)
}

var capital = regexp.MustCompile(`\b([A-Z][a-z]+)\b`)

// writeCopies writes copies of the corpus; names in later ones are altered, so that they are classes of their own.
func writeCopies(b *testing.B, path string, copies int) {
	out := musttest.Get(os.Create(path))(b)
	writer, raw := bufio.NewWriter(out), readCorpus(b)
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

type measured struct {
	control.Status
	seconds, cpu float64
	most         float64            // anonymous memory of the stack, MiB
	during       map[string]float64 // most of it in each stage
}

func (at benchStack) build(b *testing.B, spec core.Spec) measured {
	got, began, used := measured{during: map[string]float64{}}, time.Now(), at.usage()
	run := musttest.Get(at.control.BuildIndex(b.Context(), control.IndexRequest{Spec: spec}))(b)
	for !core.IsTerminal(got.Status.Status) {
		time.Sleep(50 * time.Millisecond)
		got.Status = musttest.Get(at.control.ReadStatus(b.Context(), run.Run))(b)
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

// usage is what the stack and the processes below it have used (proc(5)).
type usage struct{ cpu, anonymous float64 } // seconds, MiB

func (at benchStack) usage() (sum usage) {
	below := map[string]bool{strconv.Itoa(at.process.Process.Pid): true}
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
