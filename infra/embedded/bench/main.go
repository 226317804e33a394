// Command bench measures the data path on the embedded stack and prints a table; figures are ratios within one run.
// The model server and the stack are processes of their own, on loopback, and end with the run.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/model/modeltest"
	"github.com/unweaver/unweaver/internal/ops"
	"github.com/unweaver/unweaver/internal/ops/admin"
	"github.com/unweaver/unweaver/starter/cli"
)

var (
	bin     = flag.String("bin", "../../bin", "folder of the binaries")
	data    = flag.String("data", "../../testdata/musique", "folder with corpus.jsonl and extractions_desc.jsonl")
	scales  = flag.String("scales", "1,10", "copies of the corpus for the scaling rows")
	latency = flag.Duration("latency", 200*time.Millisecond, "of the model server in the capacity row")
	chunks  = flag.Int("chunks", 10000, "chunks of the capacity row; 0 leaves it out")
)

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// row is one measured build.
type row struct {
	name     string
	chunks   int64
	seconds  float64
	cpu      float64 // of the stack
	rss      float64 // MiB, the most so far
	calls    int64
	stages   []corpus.StageProgress
	capacity float64
}

func run(ctx context.Context) error {
	work, err := os.MkdirTemp("", "unweaver-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	fmt.Println(
		"| build | chunks | seconds | chunks/s | CPU s per 1,000 chunks | memory MiB | model calls | slowest stages |\n" +
			"|---|---|---|---|---|---|---|---|",
	)
	var first, last row
	for i, s := range strings.Split(*scales, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return err
		}
		r, again, err := build(ctx, work, fmt.Sprintf("x%d", n), n, modeltest.Options{Dimension: 512, Shuffle: true})
		if err != nil {
			return err
		}
		if i == 0 {
			first = r
			fmt.Printf(
				"\nunchanged re-run of %s: %.2f s, %.1f %% of the first, %d model calls\n\n",
				r.name,
				again.seconds,
				100*again.seconds/r.seconds,
				again.calls,
			)
		}
		last = r
	}
	if first.name != last.name {
		fmt.Printf(
			"\ntime ratio / size ratio from %s to %s: %.3f (aim <= 1.1)\n",
			first.name,
			last.name,
			(last.seconds/first.seconds)/(float64(last.chunks)/float64(first.chunks)),
		)
	}
	if *chunks > 0 {
		n := (*chunks + int(first.chunks) - 1) / int(first.chunks) * strconvMust(strings.Split(*scales, ",")[0])
		r, _, err := build(
			ctx,
			work,
			"capacity",
			n,
			modeltest.Options{Dimension: 512, Latency: *latency, Capacity: 64},
		)
		if err != nil {
			return err
		}
		fmt.Printf(
			"\nshare of the model server's capacity used at %s and 64 in flight, first to last dispatch: %.3f (aim >= 0.98)\n",
			*latency,
			r.capacity,
		)
	}
	return nil
}

func strconvMust(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

var capital = regexp.MustCompile(`\b([A-Z][a-z]+)\b`)

// copies writes n copies of the corpus; the names of later ones are altered, so that they are classes of their own.
func copies(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, "corpus.jsonl"))
	if err != nil {
		return err
	}
	writer := bufio.NewWriter(out)
	for k := range n {
		in, err := os.Open(filepath.Join(*data, "corpus.jsonl"))
		if err != nil {
			return err
		}
		sc := bufio.NewScanner(in)
		sc.Buffer(make([]byte, 1<<20), 1<<26)
		for sc.Scan() {
			var r map[string]any
			if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
				return err
			}
			if k > 0 {
				r["id"] = fmt.Sprintf("%v~%d", r["id"], k)
				r["title"] = fmt.Sprintf("%v x%d", r["title"], k)
				r["text"] = capital.ReplaceAllString(r["text"].(string), "${1}x"+strconv.Itoa(k))
			}
			raw, err := json.Marshal(r)
			if err != nil {
				return err
			}
			_, _ = writer.Write(append(raw, '\n')) // Flush tells of errors
		}
		_ = in.Close()
	}
	if err := writer.Flush(); err != nil {
		return err
	}
	return out.Close()
}

// build measures one build and, for comparison, a second run over the same corpus.
func build(ctx context.Context, work, name string, n int, options modeltest.Options) (r, again row, err error) {
	dir := filepath.Join(work, name)
	if err := copies(filepath.Join(dir, "corpus"), n); err != nil {
		return r, again, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, stop, err := modelServer(options)
	if err != nil {
		return r, again, err
	}
	defer stop()
	if err := os.Setenv("UNWEAVER_MODELS_ENDPOINTS", server+"=BENCH_KEY"); err != nil { // of the stacks: they name it
		return r, again, err
	}
	cfg, err := config.Load(
		config.Source{
			Set: []string{
				"models.chat.provider=openai",
				"models.chat.base_url=" + server,
				"models.chat.model=bench",
				"models.chat.api_key_env=BENCH_KEY",
				"models.embedding.provider=openai",
				"models.embedding.base_url=" + server,
				"models.embedding.model=bench",
				"models.embedding.dimension=512",
				"models.embedding.api_key_env=BENCH_KEY",
				"indexes.m.chunking.strategy=document",
			},
		},
	)
	if err != nil {
		return r, again, err
	}
	dev, pid, end, err := stack(filepath.Join(dir, "data"))
	if err != nil {
		return r, again, err
	}
	defer end()
	spec, err := cfg.Spec("m", filepath.Join(dir, "corpus"))
	if err != nil {
		return r, again, err
	}
	if r, err = index(ctx, dev, pid, spec, name); err != nil {
		return r, again, err
	}
	if st, err := stats(server); err == nil && options.Latency > 0 {
		ideal := float64(st.Extract) * options.Latency.Seconds() / 64
		r.capacity = ideal / (st.Last.Sub(st.First).Seconds() + options.Latency.Seconds())
	}
	slow := ""
	for _, s := range r.stages {
		if s.Seconds > 0.05*r.seconds {
			slow += fmt.Sprintf("%s %.1f ", s.Name, s.Seconds)
		}
	}
	fmt.Printf(
		"| %s | %d | %.1f | %.0f | %.2f | %.0f | %d | %s|\n",
		name,
		r.chunks,
		r.seconds,
		float64(r.chunks)/r.seconds,
		1000*r.cpu/float64(r.chunks),
		r.rss,
		r.calls,
		slow,
	)
	again, err = index(ctx, dev, pid, spec, name)
	return r, again, err
}

func stats(base string) (modeltest.Stats, error) {
	var s modeltest.Stats
	out, err := exec.Command("curl", "-s", strings.TrimSuffix(base, "/v1")+"/stats").Output()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}

// modelServer starts the test server as a process of its own.
func modelServer(o modeltest.Options) (url string, stop func(), err error) {
	exe := filepath.Join(*bin, "modelserver")
	cmd := exec.Command(
		exe,
		"-addr",
		"127.0.0.1:0",
		"-dim",
		strconv.Itoa(o.Dimension),
		"-latency",
		o.Latency.String(),
		"-capacity",
		strconv.Itoa(o.Capacity),
		"-corpus",
		filepath.Join(*data, "corpus.jsonl"),
		"-extractions",
		filepath.Join(*data, "extractions_desc.jsonl"),
		"-for",
		"2h",
	)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, err
	}
	return strings.TrimSpace(
		strings.TrimPrefix(line, "listening on "),
	), func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, nil
}

// stack starts the embedded stack as a process of its own.
func stack(dir string) (cli.Dev, int, func(), error) {
	cmd := exec.Command(
		filepath.Join(*bin, "unweaver-dev"),
		"dev",
		"--data-dir",
		dir,
		"--temporal-port",
		"0",
		"--http-port",
		"0",
	)
	cmd.Env = append(os.Environ(), "BENCH_KEY=bench")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return cli.Dev{}, 0, nil, err
	}
	end := func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }
	for range 600 {
		if d, ok := cli.ReadDev(dir); ok {
			return d, cmd.Process.Pid, end, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	end()
	return cli.Dev{}, 0, nil, fmt.Errorf("the stack was not ready in a minute")
}

func index(ctx context.Context, dev cli.Dev, pid int, spec corpus.Spec, name string) (row, error) {
	client := &admin.Client{Base: dev.HTTP, Token: dev.Token}
	cpu := cpuSeconds(pid)
	begin := time.Now()
	run, err := client.Index(ctx, ops.IndexRequest{Spec: spec})
	if err != nil {
		return row{}, err
	}
	for {
		st, err := client.Status(ctx, run.Run)
		if err != nil {
			return row{}, err
		}
		if corpus.Terminal(st.Status) {
			if st.Status != corpus.StatusCompleted {
				return row{}, fmt.Errorf("%s ended %s: %s %s", run.Run, st.Status, st.Reason, st.Detail)
			}
			return row{
				name:    name,
				chunks:  st.Chunks,
				seconds: time.Since(begin).Seconds(),
				cpu:     cpuSeconds(pid) - cpu,
				rss:     peak(pid),
				calls:   st.Calls.Extract + st.Calls.Shorten + st.Calls.Embed,
				stages:  st.Stages,
			}, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// cpuSeconds is user and system time of a process (proc(5)).
func cpuSeconds(pid int) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+2:]))
	u, _ := strconv.ParseFloat(f[11], 64)
	s, _ := strconv.ParseFloat(f[12], 64)
	return (u + s) / 100
}

// peak is the most anonymous memory that a process held, in MiB: mapped files are the kernel's to drop.
func peak(pid int) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for _, l := range strings.Split(string(raw), "\n") {
		if v, ok := strings.CutPrefix(l, "RssAnon:"); ok {
			k, _ := strconv.ParseFloat(strings.Fields(v)[0], 64)
			return k / 1024
		}
	}
	return 0
}
