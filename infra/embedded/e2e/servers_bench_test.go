package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// These benchmarks need make servers; `make bench` runs each once.

const benchDim = 256

// benchRows returns clustered unit vectors: 500 centres, noise 0.6, seed given.
func benchRows(n int, seed uint64) []vectors.Row {
	r := rand.New(rand.NewPCG(seed, 1))
	centres := make([][]float32, 500)
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
	b.Helper()
	var ms []float64
	for i := range 350 {
		begin := time.Now()
		_, err := store.Search(b.Context(), name, qs[i%len(qs)].Vector, 100)
		require.NoError(b, err)
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
	store := c.ctl.Stores.Vectors
	embedded := must(files.Open(b.TempDir()))(b)
	ok := func(err error) {
		require.NoError(b, err)
	}
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
	b.Helper()
	var buf bytes.Buffer
	writer := parquet.NewGenericWriter[load.VectorRow](&buf, parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}))
	for _, r := range rs {
		_, err := writer.Write([]load.VectorRow{load.VectorRow(r)})
		require.NoError(b, err)
	}
	require.NoError(b, writer.Close())
	begin := time.Now()
	path := c.id + "/" + name + ".parquet"
	_, err := blob.Write(b.Context(), c.ctl.Stores.Staging, path, buf.Bytes(), blob.Cond{})
	require.NoError(b, err)
	im := c.ctl.Stores.Vectors.(vectors.Importer)
	job := must(im.Import(b.Context(), name, path))(b)
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
		before := redisMemory(b, c)
		begin := time.Now()
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
		setting := fmt.Sprintf("in-flight=%d-each/call=%s", of.flights, of.latency)
		one := 0.0
		for _, n := range []int{1, 3} {
			b.Run(fmt.Sprintf("workers=%d/%s", n, setting), func(b *testing.B) {
				for b.Loop() {
					c := newCluster(b)
					server := serve(b, modeltest.Options{Latency: of.latency})
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

// manyDocuments writes the sample n times, each copy with other texts.
func manyDocuments(b *testing.B, n int) string {
	b.Helper()
	src := must(os.ReadFile(filepath.Join(copySample(b), "corpus.jsonl")))(b)
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
