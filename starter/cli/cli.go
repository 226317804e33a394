// Package cli is the unweaver command line (DESIGN §10). It parses, calls control, and shows; it holds no policy.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops"
)

// Exit codes (DESIGN §10).
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitErrors = 3
	ExitHeld   = 4
	ExitPaused = 5
)

// App is one invocation.
type App struct {
	Out, Err io.Writer
	Env      []string

	configPath string
	dataDir    string
	set        []string
	json       bool
	started    bool // this command started the embedded stack
	exit       int
}

// Run parses arguments, runs the command and gives the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // `unweaver … | head` must not die before it has stopped the stack that it started
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return a.exit
	}
	a.showError(err)
	if k := fault.As(err); k != nil && k.Code != fault.Usage && k.Code != fault.BadConfig {
		return ExitFailed
	}
	return ExitUsage
}

func (a *App) showError(err error) {
	if a.json {
		e := map[string]string{"error": err.Error(), "code": string(fault.CodeOf(err))}
		if f := fault.As(err); f != nil {
			e["hint"] = f.Hint
		}
		_ = json.NewEncoder(a.Err).Encode(e) // nothing is left to tell
		return
	}
	fmt.Fprintln(a.Err, "unweaver:", err)
}

func (a *App) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "unweaver",
		Short:         "Entity-centric retrieval: index corpora, publish generations, ask questions",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	data := os.Getenv("UNWEAVER_DATA_DIR")
	if data == "" {
		data = "unweaver-data"
	}
	cfg := os.Getenv("UNWEAVER_CONFIG")
	set := root.PersistentFlags()
	set.StringVar(&a.configPath, "config", cfg, "configuration file (default unweaver.yaml where it exists)")
	set.StringVar(&a.dataDir, "data-dir", data, "data directory of the embedded stack")
	set.StringArrayVar(&a.set, "set", nil, "override one setting: path=value")
	set.BoolVar(&a.json, "json", false, "print JSON")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fault.Usage.At("", "").Because(err).Advise("see: unweaver --help")
	})
	root.AddCommand(
		a.indexCmd(),
		a.statusCmd(),
		a.queryCmd(),
		a.generationsCmd(),
		a.restoreCmd(),
		a.evalCmd(),
		a.doctorCmd(),
		a.configCmd(),
		a.devCmd(),
		a.demoCmd(),
		a.steerCmd("pause", "Pause a run: what is in flight is kept, nothing new is paid for", ops.Control.Pause),
		a.steerCmd("resume", "Resume a paused run", func(control ops.Control, ctx context.Context, run string) error {
			return control.Resume(ctx, run, nil)
		}),
		a.steerCmd("cancel", "Cancel a run: what queries see does not change", ops.Control.Cancel),
	)
	return root
}

// exactArgs is cobra's check with an error that says what to do.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return fault.Usage.At("run unweaver", c.Name()).
				Because(fmt.Sprintf("want %s, got %d arguments", what, len(args))).
				Advise("see: unweaver " + c.Name() + " --help")
		}
		return nil
	}
}

// config loads the configuration.
func (a *App) config() (*config.Config, error) {
	src := config.Source{Path: a.configPath, Env: a.Env, Set: a.set}
	if src.Path == "" {
		src.Path, src.Missing = "unweaver.yaml", true
	}
	return config.Load(src)
}

// spec resolves an index's configuration with paths made absolute.
func (a *App) spec(index, corpusURI string) (corpus.Spec, error) {
	cfg, err := a.config()
	if err != nil {
		return corpus.Spec{}, err
	}
	spec, err := cfg.Spec(index, corpusURI)
	if err != nil {
		return spec, err
	}
	for _, p := range []*string{&spec.Corpus, &spec.Chat.File} {
		if *p != "" && !isURL(*p) {
			if *p, err = filepath.Abs(*p); err != nil {
				return spec, err
			}
		}
	}
	return spec, nil
}

// print shows a value: as JSON, or by f.
func (a *App) print(v any, f func(io.Writer)) error {
	if !a.json {
		f(a.Out)
		return nil
	}
	enc := json.NewEncoder(a.Out)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (a *App) steerCmd(name, short string, f func(ops.Control, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " RUN",
		Short: short,
		Long:  short + ".\n\nRUN is index/generation as index and status print it, or an index for its newest run.",
		Args:  exactArgs(1, "a RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withControl(c.Context(), func(ctx context.Context, ctl ops.Control, _ string) error {
				if err := f(ctl, ctx, args[0]); err != nil {
					return err
				}
				return a.print(
					map[string]string{"run": args[0], "done": name},
					func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", args[0], name) },
				)
			})
		},
	}
}

func (a *App) configCmd() *cobra.Command {
	command := &cobra.Command{Use: "config", Short: "Work with the configuration"}
	command.AddCommand(
		&cobra.Command{
			Use:   "validate",
			Short: "Check the configuration: every mistake at once, with line and column",
			Args:  exactArgs(0, "no argument"),
			RunE: func(*cobra.Command, []string) error {
				cfg, err := a.config()
				if err != nil {
					return err
				}
				return a.print(
					map[string]any{"valid": true, "indexes": len(cfg.Indexes)},
					func(w io.Writer) { fmt.Fprintf(w, "valid: %d indexes\n", len(cfg.Indexes)) },
				)
			},
		},
	)
	return command
}
