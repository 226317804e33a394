// Command bench measures the data path on the embedded stack and prints tables; figures are ratios within one run.
// The model server, the stack and what asks it are processes of their own, on loopback, and end with the run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

var (
	bin        = flag.String("bin", "../../bin", "folder of the binaries")
	data       = flag.String("data", "../../testdata/musique", "folder of corpus, extractions_desc, questions (.jsonl)")
	scales     = flag.String("scales", "1,10", "copies of the corpus for the scaling rows")
	capacities = flag.String("capacities", "200ms/64", "latency/calls in flight of the capacity rows, if any")
	chunks     = flag.Int("chunks", 10000, "chunks of a capacity row, at least")
	serve      = flag.Bool("serve", false, "ask the largest build over HTTP: latency, queries a second, memory, opening")
	dimension  = flag.Int("dimension", 512, "of the embeddings")
)

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	work, err := os.MkdirTemp("", "unweaver-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	sizes, err := numbers(*scales)
	if err != nil {
		return err
	}
	fmt.Printf("%d processors, load %s at the beginning\n\n", runtime.NumCPU(), load())
	fmt.Println("| build | chunks | seconds | chunks/s | CPU s per 1,000 chunks | anonymous memory MiB, end; most |" +
		" model calls | slowest stages |\n|---|---|---|---|---|---|---|---|")
	rows, err := scaling(ctx, work, sizes)
	if err != nil {
		return err
	}
	first, last := rows[0], rows[len(rows)-1]
	if len(rows) > 1 {
		fmt.Printf("\ntime ratio / size ratio from %s to %s: %.3f (aim <= 1.1); memory ratio %.2f\n", first.name, last.name,
			(last.seconds/first.seconds)/(float64(last.chunks)/float64(first.chunks)), last.most/first.most)
	}
	for _, one := range strings.FieldsFunc(*capacities, func(r rune) bool { return r == ',' }) {
		if err := capacity(ctx, work, one, (*chunks*sizes[0]+int(first.chunks)-1)/int(first.chunks)); err != nil {
			return err
		}
	}
	fmt.Printf("\nload %s at the end\n", load())
	return nil
}

// scaling builds copies of the corpus, each on a stack of its own.
func scaling(ctx context.Context, work string, sizes []int) ([]row, error) {
	var rows []row
	for i, n := range sizes {
		b, err := begin(work, fmt.Sprintf("x%d", n), n, 0, modeltest.Options{Dimension: *dimension, Shuffle: true})
		if err != nil {
			return nil, err
		}
		r, again, err := b.measure(ctx)
		if err == nil && i == 0 {
			fmt.Printf("\nunchanged re-run of %s: %.2f s, %.1f %% of the first, %d model calls\n\n",
				r.name, again.seconds, 100*again.seconds/r.seconds, again.calls)
		}
		if err == nil && *serve && i == len(sizes)-1 {
			err = b.ask()
		}
		b.end()
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// capacity measures what share of a model server's places a build keeps busy: "200ms/64".
func capacity(ctx context.Context, work, what string, copies int) error {
	latency, flight, _ := strings.Cut(what, "/")
	wait, err := time.ParseDuration(latency)
	if err != nil {
		return err
	}
	places, err := strconv.Atoi(flight)
	if err != nil {
		return err
	}
	b, err := begin(work, what, copies, places, modeltest.Options{Dimension: *dimension, Latency: wait, Capacity: places})
	if err != nil {
		return err
	}
	defer b.end()
	if _, err = b.index(ctx); err != nil {
		return err
	}
	st, err := stats(b.server)
	if err != nil {
		return err
	}
	ideal := float64(st.Extract) * wait.Seconds() / float64(places)
	fmt.Printf("\nshare of the model server's capacity used at %s and %d in flight, %d calls, first to last dispatch: "+
		"%.3f (aim >= 0.98)\n", wait, places, st.Extract, ideal/(st.Last.Sub(st.First).Seconds()+wait.Seconds()))
	return nil
}

func numbers(list string) ([]int, error) {
	var all []int
	for _, one := range strings.Split(list, ",") {
		n, err := strconv.Atoi(one)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// load is the machine's average of the last minute (proc(5)).
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(raw))[0]
}

func executable(name string) string { return filepath.Join(*bin, name) }
