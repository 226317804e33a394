package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// row is one measured build.
type row struct {
	name    string
	chunks  int64
	seconds float64
	cpu     float64 // of the stack
	memory  float64 // anonymous, MiB, at the end
	most    float64 // of it, MiB, seen while it ran
	calls   int64
	stages  []core.StageProgress
	during  map[string]float64 // most anonymous memory of each stage, MiB
}

func (r row) print() {
	slow := ""
	for _, s := range r.stages {
		if s.Seconds > 0.05*r.seconds {
			slow += fmt.Sprintf("%s %.1f (%.0f MiB) ", s.Name, s.Seconds, r.during[s.Name])
		}
	}
	fmt.Printf("| %s | %d | %.1f | %.0f | %.2f | %.0f; %.0f | %d | %s|\n", r.name, r.chunks, r.seconds,
		float64(r.chunks)/r.seconds, 1000*r.cpu/float64(r.chunks), r.memory, r.most, r.calls, slow)
}

// bench is a corpus, a model server and a stack.
type bench struct {
	name, dir, server string
	spec              core.Spec
	dev               stack.Dev
	pid               int
	stops             []func()
}

// begin starts the processes of a build over n copies of the corpus; flight is the configured concurrency of the
// models, 0 for the default.
func begin(work, name string, n, flight int, options modeltest.Options) (*bench, error) {
	b := &bench{name: name, dir: filepath.Join(work, filepath.Base(name))}
	b.stops = append(b.stops, func() { _ = os.RemoveAll(b.dir) })
	if err := b.start(n, flight, options); err != nil {
		b.end()
		return nil, err
	}
	return b, nil
}

func (b *bench) start(n, flight int, options modeltest.Options) error {
	err := copies(filepath.Join(b.dir, "corpus"), n)
	if err != nil {
		return err
	}
	var stop func()
	if b.server, stop, err = modelServer(options); err != nil {
		return err
	}
	b.stops = append(b.stops, stop)
	if err := os.Setenv("UNWEAVER_MODELS_ENDPOINTS", b.server+"=BENCH_KEY"); err != nil { // of the stacks: they name it
		return err
	}
	set := []string{
		"models.chat.provider=openai",
		"models.chat.base_url=" + b.server,
		"models.chat.model=bench",
		"models.chat.api_key_env=BENCH_KEY",
		"models.embedding.provider=openai",
		"models.embedding.base_url=" + b.server,
		"models.embedding.model=bench",
		fmt.Sprintf("models.embedding.dimension=%d", options.Dimension),
		"models.embedding.api_key_env=BENCH_KEY",
		"indexes.m.chunking.strategy=document",
	}
	if flight > 0 {
		set = append(set, fmt.Sprintf("models.limits.concurrency=%d", flight))
	}
	cfg, err := config.Load(config.Source{Set: set})
	if err != nil {
		return err
	}
	if b.spec, err = cfg.Spec("m", filepath.Join(b.dir, "corpus")); err != nil {
		return err
	}
	return b.open()
}

// open starts the stack over what is there.
func (b *bench) open() error {
	dev, pid, end, err := startStack(filepath.Join(b.dir, "data"))
	if err != nil {
		return err
	}
	b.dev, b.pid = dev, pid
	b.stops = append(b.stops, end)
	return nil
}

// reopen ends the stack and starts another over its data.
func (b *bench) reopen() error {
	last := len(b.stops) - 1
	b.stops[last]()
	b.stops = b.stops[:last]
	return b.open()
}

// end stops what was started, the last first.
func (b *bench) end() {
	for i := len(b.stops) - 1; i >= 0; i-- {
		b.stops[i]()
	}
	b.stops = nil
}

// measure runs a build and, for comparison, a second one over the same corpus.
func (b *bench) measure(ctx context.Context) (first, again row, err error) {
	if first, err = b.index(ctx); err != nil {
		return first, again, err
	}
	first.print()
	again, err = b.index(ctx)
	return first, again, err
}

func (b *bench) index(ctx context.Context) (row, error) {
	client := &httpapi.Client{Base: b.dev.HTTP, Token: b.dev.Token}
	cpu := cpuSeconds(b.pid)
	begin := time.Now()
	run, err := client.Index(ctx, service.IndexRequest{Spec: b.spec})
	if err != nil {
		return row{}, err
	}
	most, during := 0.0, map[string]float64{}
	for {
		st, err := client.Status(ctx, run.Run)
		if err != nil {
			return row{}, err
		}
		now := anonymous(b.pid)
		most, during[st.Stage] = max(most, now), max(during[st.Stage], now)
		if !core.Terminal(st.Status) {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if st.Status != core.StatusCompleted {
			return row{}, fmt.Errorf("%s ended %s: %s %s", run.Run, st.Status, st.Reason, st.Detail)
		}
		return row{
			name:    b.name,
			chunks:  st.Chunks,
			seconds: time.Since(begin).Seconds(),
			cpu:     cpuSeconds(b.pid) - cpu,
			memory:  anonymous(b.pid),
			most:    most,
			calls:   st.Calls.Extract + st.Calls.Shorten + st.Calls.Embed,
			stages:  st.Stages,
			during:  during,
		}, nil
	}
}
