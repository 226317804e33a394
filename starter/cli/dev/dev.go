package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/internal/telemetry/tracing"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) devCmd() *cobra.Command {
	var temporal, http int
	var corpusDir string
	var attached bool
	command := &cobra.Command{
		Use:     "dev",
		Short:   "Run the embedded stack, worker and query-api in one process, until Ctrl-C",
		Example: "  unweaver dev\n  unweaver dev --corpus ./docs\n  unweaver dev --config own.yaml --http-port 0",
		Long: `Run the embedded stack, worker and query-api in one process, until Ctrl-C.

A terminal shows the addresses and the errors, so that you can run other commands beside it. If standard error is not
a terminal, as in a service or with 2> dev.log, it also shows the stages of each run and each request.`,
		Args: console.RequireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			for flag, port := range map[string]int{"temporal-port": temporal, "http-port": http} {
				if port > math.MaxUint16 {
					return fault.Usage.At("read", "--"+flag).Because(fmt.Sprintf("want 0 to %d, got %d", math.MaxUint16, port)).
						Advise("0 is any free port")
				}
			}
			if err := a.CheckDataDir(true); err != nil {
				return err
			}
			ctx := command.Context()
			if attached {
				var end context.CancelFunc
				ctx, end = context.WithCancel(ctx)
				defer end()
				go func() { _, _ = io.Copy(io.Discard, command.InOrStdin()); end() }()
			}
			return hostStack(func() error {
				return a.runDev(ctx, temporal, http, command.Flags().Changed("http-port"), corpusDir)
			})
		},
	}
	command.Flags().IntVar(&temporal, "temporal-port", 7233, "port of Temporal on 127.0.0.1; 0 = any free port")
	command.Flags().IntVar(&http, "http-port", 8080, "port of HTTP on 127.0.0.1; 0 = any free port")
	command.Flags().StringVar(&corpusDir, "corpus", "", "index this folder as index docs once the stack is ready")
	command.Flags().BoolVar(&attached, console.EndWithInput, false, "stop when standard input ends")
	_ = command.Flags().MarkHidden(console.EndWithInput) // the flag exists
	return command
}

// hostStack runs what keeps an embedded stack in this process: what it writes is its owner's alone, and its garbage is
// bounded. An error that says nothing of its kind is a fault of this program.
func hostStack(run func() error) error {
	syscall.Umask(0o077)
	boundGarbage()
	err := run()
	if err != nil && fault.As(err) == nil {
		err = fault.Internal.At("", "").Because(err)
	}
	return err
}

// runDev runs the embedded stack of the data directory until ctx is done.
func (a app) runDev(ctx context.Context, temporalPort, httpPort int, portGiven bool, corpusDir string) error {
	path, mayMiss := a.ConfigFile()
	cfg, err := config.Load(config.Source{Path: path, Env: a.Env, Set: a.Set, Missing: mayMiss})
	if err != nil {
		return err
	}
	port, note, err := ChoosePort(cfg, httpPort, portGiven)
	if err != nil {
		return err
	}
	if note != "" {
		fmt.Fprintln(a.Out, note)
	}
	untrace, err := tracing.Start(ctx, stack.Program, cfg.Telemetry.OTLPEndpoint)
	if err != nil {
		return err
	}
	defer untrace()
	if err := scratch.Use(a.DataDir); err != nil {
		return err
	}
	running, err := stack.Start(ctx, stack.Options{
		DataDir: a.DataDir, Config: cfg, TemporalPort: temporalPort, HTTPPort: port, Log: a.newLogger(Level(a.Err)),
		Phase: a.printPhase, Settings: console.SettingsOfDev(a.ConfigPath, a.Set),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "ready: web page and API %s, Temporal %s, data in %s\n", running.HTTP, running.Temporal, a.DataDir)
	if corpusDir != "" {
		if err := a.indexAtOnce(ctx, running, cfg, corpusDir); err != nil {
			return errors.Join(err, running.Stop(ctx))
		}
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.Out, "stopping: finished work is kept, and runs continue at the next start")
	case err = <-running.WatchFailure():
	}
	return errors.Join(err, running.Stop(context.WithoutCancel(ctx)))
}

// Level returns what dev logs to a writer: on a terminal not each stage and request, as other commands draw there.
func Level(to io.Writer) slog.Level {
	if show.FindTerminal(to) != nil {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// newLogger writes what a stack logs to standard error.
func (a app) newLogger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: level, ReplaceAttr: redact.Attr}))
}

func (a app) printPhase(line string) { fmt.Fprintln(a.Out, line) }

// indexAtOnce indexes a folder as index docs.
func (a app) indexAtOnce(ctx context.Context, running *stack.Stack, cfg *config.Config, folder string) error {
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	spec, err := cfg.Spec("docs", absolute)
	if err != nil {
		return err
	}
	request := control.IndexRequest{Spec: spec}
	if err := request.ReadFiles(); err != nil {
		return err
	}
	run, err := running.Control.BuildIndex(ctx, request)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "indexing %s as docs: unweaver status %s\n", absolute, run.Run)
	return nil
}
