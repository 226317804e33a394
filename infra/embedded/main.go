// Command unweaver-dev is the embedded stack: unweaver dev and unweaver demo hand over to it. It is large, as it holds
// Temporal's server; everything else of the product stays light.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/internal/telemetry/tracing"
	"github.com/unweaver/unweaver/starter/cli"
)

func main() {
	sandbox.Child()
	syscall.Umask(0o077) // what this program writes is its owner's alone
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if p := os.Getenv("UNWEAVER_TEST_CPUPROFILE"); p != "" { // for those who work on the data path
		if f, err := os.Create(p); err == nil && pprof.StartCPUProfile(f) == nil {
			defer pprof.StopCPUProfile()
		}
	}
	boundGarbage()
	root := &cobra.Command{Use: "unweaver-dev", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(devCmd(), demoCmd(), engineCmd())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "unweaver:", redact.Text(err.Error()))
		if fault.As(err) != nil && !fault.Refused(err) {
			os.Exit(cli.ExitFailed)
		}
		os.Exit(cli.ExitUsage)
	}
}

type flags struct {
	dataDir, config, corpus string
	set                     []string
	temporal, http          int
	verbose                 bool
}

func devCmd() *cobra.Command {
	var f flags
	command := &cobra.Command{
		Use:   "dev",
		Short: "Run the embedded stack until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return dev(c.Context(), f, c.Flags().Changed("http-port"))
		},
	}
	command.Flags().StringVar(&f.dataDir, "data-dir", "unweaver-data", "data directory")
	command.Flags().StringVar(&f.config, "config", os.Getenv("UNWEAVER_CONFIG"), "configuration file")
	command.Flags().StringVar(&f.corpus, "corpus", "", "index this folder as index docs once the stack is ready")
	command.Flags().StringArrayVar(&f.set, "set", nil, "override one setting: path=value")
	command.Flags().IntVar(&f.temporal, "temporal-port", 7233, "port of Temporal; 0 = any free")
	command.Flags().IntVar(&f.http, "http-port", 8080, "port of HTTP; 0 = any free")
	command.Flags().BoolVar(&f.verbose, "verbose", false, "log more")
	return command
}

func load(f flags) (*config.Config, error) {
	src := config.Source{Path: f.config, Env: os.Environ(), Set: f.set}
	if src.Path == "" {
		src.Path, src.Missing = "unweaver.yaml", true
	}
	return config.Load(src)
}

func dev(ctx context.Context, f flags, portGiven bool) error {
	cfg, err := load(f)
	if err != nil {
		return err
	}
	port, note, err := cli.DevPort(cfg, f.http, portGiven)
	if err != nil {
		return err
	}
	if note != "" {
		fmt.Println(note)
	}
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	untrace, err := tracing.Start(ctx, "unweaver-dev", cfg.Telemetry.OTLPEndpoint)
	if err != nil {
		return err
	}
	defer untrace()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: redact.Attr}))
	if err := scratch.Use(f.dataDir); err != nil {
		return err
	}
	s, err := stack.Start(
		ctx,
		stack.Options{
			DataDir: f.dataDir, Config: cfg, TemporalPort: f.temporal, HTTPPort: port, Log: log,
			Phase:    func(p string) { fmt.Println("starting", p) },
			Settings: cli.SettingsOfDev(f.config, f.set),
		},
	)
	if err != nil {
		return err
	}
	fmt.Printf("ready: web page and API %s, Temporal %s, data in %s\n", s.HTTP, s.Temporal, f.dataDir)
	if f.corpus != "" {
		if err := start(ctx, s, cfg, f.corpus); err != nil {
			return errors.Join(err, s.Stop(ctx))
		}
	}
	select {
	case <-ctx.Done():
		fmt.Println("stopping: work in flight is kept, what is left goes on at the next start")
	case err = <-s.Failed():
	}
	return errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
}

// start indexes a folder as index docs.
func start(ctx context.Context, s *stack.Stack, cfg *config.Config, dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	spec, err := cfg.Spec("docs", abs)
	if err != nil {
		return err
	}
	request := service.IndexRequest{Spec: spec}
	if err := request.ReadFiles(); err != nil {
		return err
	}
	run, err := s.Control.Index(ctx, request)
	if err != nil {
		return err
	}
	fmt.Printf("indexing %s as docs: unweaver status %s\n", abs, run.Run)
	return nil
}
