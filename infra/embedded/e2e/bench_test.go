package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
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

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
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
		at, spec := startBench(b, benchServer(b, modeltest.Options{Dimension: 512, Shuffle: true}), number(b, scale))
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
			wait, places := musttest.Get(time.ParseDuration(latency))(b), number(b, flight)
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

func number(b *testing.B, text string) int { return musttest.Get(strconv.Atoi(text))(b) }

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

type benchStack struct{ *storm.Stack }

// startBench starts a stack, writes copies of the corpus, and returns what builds an index of them.
func startBench(b *testing.B, server *modeltest.Server, copies int, set ...string) (benchStack, core.Spec) {
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
	return musttest.Get(os.ReadFile(filepath.Join(*benchData, "corpus.jsonl")))(b)
}

func corpusLines(b *testing.B) int { return bytes.Count(readCorpus(b), []byte("\n")) }

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
	run := musttest.Get(at.Control.BuildIndex(b.Context(), control.IndexRequest{Spec: spec}))(b)
	for !core.IsTerminal(got.Status.Status) {
		time.Sleep(50 * time.Millisecond)
		got.Status = musttest.Get(at.Control.ReadStatus(b.Context(), run.Run))(b)
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
	raw := musttest.Get(os.ReadFile(filepath.Join(*benchData, "questions.jsonl")))(b)
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

// These benchmarks need make servers; `make bench` runs each once.

const benchDim = 256

// benchRows returns clustered unit vectors: 500 centres, noise 0.6, seed given.
func benchRows(n int, seed uint64) []vectors.Row {
	r, centres := rand.New(rand.NewPCG(seed, 1)), make([][]float32, 500)
	for i := range centres {
		centres[i] = make([]float32, benchDim)
		for j := range centres[i] {
			centres[i][j] = float32(r.NormFloat64())
		}
	}
	rs := make([]vectors.Row, n)
	for i := range rs {
		vector := make([]float32, benchDim)
		for j, x := range centres[r.IntN(len(centres))] {
			vector[j] = x + 0.6*float32(r.NormFloat64())
		}
		vectors.Normalise(vector)
		rs[i] = vectors.Row{Key: fmt.Sprintf("%016x%016x-%016x", r.Uint64(), r.Uint64(), i), Vector: vector}
	}
	return rs
}

// latency gives p50 and p99 of 300 warm searches for 100 rows, in milliseconds.
func latency(b *testing.B, store vectors.Store, name string, qs []vectors.Row) (p50, p99 float64) {
	var ms []float64
	for i := range 350 {
		begin := time.Now()
		musttest.Get(store.Search(b.Context(), name, qs[i%len(qs)].Vector, 100))(b)
		if i >= 50 {
			ms = append(ms, float64(time.Since(begin).Microseconds())/1000)
		}
	}
	slices.Sort(ms)
	return ms[len(ms)/2], ms[len(ms)*99/100]
}

// BenchmarkMilvus: rows a second by Upsert and by import, and the latency of searches beside the files of the
// embedded stack.
func BenchmarkMilvus(b *testing.B) {
	c := newCluster(b)
	store, embedded := c.ctl.Stores.Vectors, musttest.Get(files.Open(b.TempDir()))(b)
	ok := func(err error) { require.NoError(b, err) }
	defer func() { ok(embedded.Close()) }()
	for b.Loop() {
		for _, n := range []int{10_000, 100_000} {
			rs := benchRows(n, uint64(n))
			up, im := fmt.Sprintf("uw_bench_up_%d", n), fmt.Sprintf("uw_bench_im_%d", n)
			for _, name := range []string{up, im} {
				ok(store.Drop(b.Context(), name))
				ok(store.Create(b.Context(), name, benchDim))
				defer func() { _ = store.Drop(b.Context(), name) }()
			}
			begin := time.Now()
			for part := range slices.Chunk(rs, 10_000) {
				ok(store.Upsert(b.Context(), up, part))
			}
			b.ReportMetric(float64(n)/time.Since(begin).Seconds(), fmt.Sprintf("upsert-rows/s@%d", n))
			b.ReportMetric(float64(n)/importing(b, c, im, rs).Seconds(), fmt.Sprintf("import-rows/s@%d", n))
			ok(store.Load(b.Context(), im))
			ok(embedded.Create(b.Context(), im, benchDim))
			for part := range slices.Chunk(rs, 10_000) {
				ok(embedded.Upsert(b.Context(), im, part))
			}
			ok(embedded.Load(b.Context(), im))
			for name, s := range map[string]vectors.Store{"milvus": store, "files": embedded} {
				p50, p99 := latency(b, s, im, rs)
				b.ReportMetric(p50, fmt.Sprintf("%s-p50-ms@%d", name, n))
				b.ReportMetric(p99, fmt.Sprintf("%s-p99-ms@%d", name, n))
			}
		}
	}
}

// importing imports rows through the bucket and gives the time from the upload to the end of the job.
func importing(b *testing.B, c *cluster, name string, rs []vectors.Row) time.Duration {
	var buf bytes.Buffer
	writer := parquet.NewGenericWriter[stage.VectorRow](&buf, parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}))
	for _, r := range rs {
		musttest.Get(writer.Write([]stage.VectorRow{stage.VectorRow(r)}))(b)
	}
	require.NoError(b, writer.Close())
	begin, path := time.Now(), c.id+"/"+name+".parquet"
	musttest.Get(blob.Write(b.Context(), c.ctl.Stores.Staging, path, buf.Bytes(), blob.Cond{}))(b)
	im := c.ctl.Stores.Vectors.(vectors.Importer)
	job := musttest.Get(im.Import(b.Context(), name, path))(b)
	for {
		st, err := im.ImportState(b.Context(), job)
		require.True(b, err == nil && st.Failed == "", "%v %v", st, err)
		if st.Done {
			return time.Since(begin)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// BenchmarkRedisRecords: class records a second, and what a class costs in memory. The records are those of the sample.
func BenchmarkRedisRecords(b *testing.B) {
	c := newCluster(b)
	const n = 100_000
	for b.Loop() {
		var rs []records.Record
		size := 0
		for i := range n {
			v := []byte(fmt.Sprintf("%d %s", i, strings.Repeat("a class's name and text, ", 10)))
			size += len(v)
			rs = append(rs, records.Record{Key: fmt.Sprintf("%s:c:k:%032x:%064x", c.ctl.Stores.StoreID[:8], i, i), Value: v})
		}
		before, begin := redisMemory(b, c), time.Now()
		require.NoError(b, c.ctl.Stores.Records.PutRecords(b.Context(), rs))
		b.ReportMetric(n/time.Since(begin).Seconds(), "records/s")
		b.ReportMetric(float64(size)/n, "value-bytes/class")
		b.ReportMetric(float64(redisMemory(b, c)-before)/n, "redis-bytes/class")
	}
}

// BenchmarkWorkers measures extraction by one and by three workers against a model server, and the embedded stack
// beside. Calls of 200 ms fill two cores before they fill the places of three workers; with 600 ms the places are the
// limit.
func BenchmarkWorkers(b *testing.B) {
	many, fewer := manyDocuments(b, 30), manyDocuments(b, 20)
	for _, of := range []struct {
		flights int // of each worker
		latency time.Duration
		docs    string
	}{{16, 600 * time.Millisecond, fewer}, {16, 200 * time.Millisecond, many}, {64, 200 * time.Millisecond, many}} {
		setting, one := fmt.Sprintf("in-flight=%d-each/call=%s", of.flights, of.latency), 0.0
		for _, n := range []int{1, 3} {
			b.Run(fmt.Sprintf("workers=%d/%s", n, setting), func(b *testing.B) {
				for b.Loop() {
					c, server := newCluster(b), serve(b, modeltest.Options{Latency: of.latency})
					sp := clusterSpec(b, server)
					sp.Limits.Concurrency = n * of.flights // of all workers together
					c.upload(of.docs)
					for range n {
						c.worker()
					}
					st := completed(b, wait(b, c.ctl, c.begin(control.IndexRequest{Spec: sp})))
					rate := extraction(server)
					b.ReportMetric(rate, "extractions/s")
					b.ReportMetric(rate*of.latency.Seconds()/float64(n*of.flights), "of-the-places")
					b.ReportMetric(st.Seconds, "build-s")
					if n == 1 {
						one = rate
					} else if one > 0 {
						b.ReportMetric(rate/one, "x-one-worker")
					}
				}
			})
		}
		b.Run("embedded/"+setting, func(b *testing.B) {
			for b.Loop() {
				s := serve(b, modeltest.Options{Latency: of.latency})
				sp := clusterSpec(b, s)
				sp.Limits.Concurrency, sp.Corpus = of.flights, of.docs
				name := fmt.Sprintf("bench-%d-%d", of.flights, of.latency.Milliseconds())
				sp.Index, sp.Chat.Model = name, "embedded-"+name // nothing from the ledger
				st := completed(b, index(b, shared.Control, sp))
				b.ReportMetric(extraction(s), "extractions/s")
				b.ReportMetric(st.Seconds, "build-s")
			}
		})
	}
}

func extraction(s *modeltest.Server) float64 {
	st := s.Stats()
	return float64(st.Extract-1) / st.Last.Sub(st.First).Seconds()
}

func manyDocuments(b *testing.B, n int) string {
	src := musttest.Get(os.ReadFile(filepath.Join(copySample(b), "corpus.jsonl")))(b)
	dir := b.TempDir()
	for i := range n {
		writeFile(
			b,
			fmt.Sprintf("%s/copy%02d.jsonl", dir, i),
			strings.ReplaceAll(string(src), `"text": "`, fmt.Sprintf(`"text": "Copy %d. `, i)),
		)
	}
	return dir
}
