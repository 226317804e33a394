// Package console has what commands share: flags, configuration, connection, output and exit codes.
package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/starter/cli/show"
)

// Exit codes (docs/reference/cli.md).
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitErrors = 3 // a run completed, and something failed or stands failed since an earlier run
	ExitHeld   = 4 // a gate kept a run from being published
	ExitPaused = 5
)

// ExitCodes is what help says of them.
const ExitCodes = "Exit codes: 0 done, 1 failed, 2 usage (a wrong flag, setting or name, or a command that a run " +
	"refuses in its state),\n3 completed with errors, 4 held by a gate, 5 paused."

// App is one invocation.
type App struct {
	In       io.Reader // nil: os.Stdin
	Out, Err io.Writer
	Env      []string  // NAME=value
	Connect  Connector // nil: Temporal and the stores where these are servers, else the embedded stack
	Self     string    // program that a command starts for an embedded stack; empty: this one

	ConfigPath string
	DataDir    string
	Set        []string       // --set: path=value
	Overlays   []core.Overlay // what the store says of indexes
	JSON       bool
	Reason     string // why, for the audit trail
	Started    bool   // this command started the embedded stack
	Exit       int

	keyEnv  string // variable with the API key of queries
	command string // that runs, without the program's name: "keys create"
	by      string // who asks, for the audit trail
	joined  string // URL of the embedded stack of another process, which this command is a client of
}

// AddFlags gives the root the flags of every command.
func (a *App) AddFlags(root *cobra.Command) {
	data := a.LookupEnv("UNWEAVER_DATA_DIR")
	if data == "" {
		data = defaultData
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.ConfigPath, "config", a.LookupEnv("UNWEAVER_CONFIG"),
		"configuration file (default unweaver.yaml where it exists)")
	flags.StringVar(&a.DataDir, "data-dir", data, "data directory of the embedded stack")
	flags.StringArrayVar(&a.Set, "set", nil, "override one setting: path=value")
	flags.StringVar(&a.keyEnv, "api-key-env", "UNWEAVER_API_KEY", "environment variable with the API key of query-api")
	flags.BoolVar(&a.JSON, "json", false, "print JSON")
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) && isOfGo(wrong.Unwrap()) {
			err = badFlag(wrong.GetFlag(), wrong.GetValue(), "")
		}
		return fault.Usage.At("", "").Because(err).Advise("see: " + command.CommandPath() + " --help")
	})
}

// Run parses arguments, runs the command and gives the exit code.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	ctx, stop := signal.NotifyContext(ctx, listEndSignals()...)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // `unweaver … | head` must not die before it has stopped the stack that it started
	a.Out, a.Err = show.NewCleaned(a.Out), show.NewCleaned(a.Err)
	root.PersistentPreRunE = func(command *cobra.Command, _ []string) error {
		a.command = strings.TrimPrefix(command.CommandPath(), root.Name()+" ")
		return checkNumbers(command)
	}
	root.SetArgs(args)
	root.SetIn(a.In) // nil is cobra's default
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return a.Exit
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = fault.Interrupted.At("", "").Because("interrupted").Advise("run the command again")
	}
	if fault.As(err) == nil { // the parser's own: an unknown command, a flag that is missing
		err = fault.Usage.At("", "").Because(err).Advise("see: " + command.CommandPath() + " --help")
	}
	a.JSON = a.JSON || slices.Contains(args, "--json") // the parser may not have come to it
	a.ShowError(err)
	return ExitOfError(err)
}

// listEndSignals returns the signals that end a command in good order: the end of its terminal, too, unless nohup
// ignores it.
func listEndSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// ExitOfError returns 2 where the caller asked for what cannot be: a flag, a setting, a name, or a command that the run
// refuses as it stands.
func ExitOfError(err error) int {
	if fault.IsRefusal(err) {
		return ExitUsage
	}
	return ExitFailed
}

// ShowError prints an error: with --json as an object.
func (a *App) ShowError(err error) {
	if a.JSON {
		shown := map[string]string{"error": redact.Text(err.Error()), "code": string(fault.CodeOf(err))}
		if f := fault.As(err); f != nil {
			shown["hint"] = f.Hint
		}
		_ = json.NewEncoder(a.Err).Encode(shown) // nothing is left to tell
		return
	}
	fmt.Fprintln(a.Err, "unweaver:", redact.Text(err.Error()))
}

// LookupEnv returns the value of a variable in the environment, or empty.
func (a *App) LookupEnv(name string) string {
	for _, entry := range a.Env {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value
		}
	}
	return ""
}

// RequireArgs returns cobra's check of their number, with an error that says what to do.
func RequireArgs(least, most int, what string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fault.Usage.At("run", command.CommandPath()).
				Because(fmt.Sprintf("want %s, got %d arguments", what, len(args))).
				Advise("see: " + command.CommandPath() + " --help")
		}
		return nil
	}
}

// ConfigFile returns the file to read, and whether it may be missing.
func (a *App) ConfigFile() (path string, mayMiss bool) {
	if a.ConfigPath == "" {
		return "unweaver.yaml", true
	}
	return a.ConfigPath, false
}

// LoadConfig loads the configuration: the command's own, else that of the running embedded stack.
func (a *App) LoadConfig() (*config.Config, error) {
	path, mayMiss := a.ConfigFile()
	cfg, err := config.Load(config.Source{
		Path: path, Env: a.Env, Set: a.Set, Missing: mayMiss, Overlays: a.Overlays,
	})
	if err != nil {
		return nil, err
	}
	return a.devConfig(cfg)
}

// ResolveSpec resolves an index's configuration with paths made absolute.
func (a *App) ResolveSpec(index, corpusURI string) (core.Spec, error) {
	cfg, err := a.LoadConfig()
	if err != nil {
		return core.Spec{}, err
	}
	spec, err := cfg.Spec(index, corpusURI)
	if err != nil {
		return spec, err
	}
	err = desk.MakeAbsolute(&spec)
	return spec, err
}

// PrintOut shows a value: as JSON, or by show.
func (a *App) PrintOut(value any, show func(io.Writer)) error {
	if !a.JSON {
		show(a.Out)
		return nil
	}
	encoder := json.NewEncoder(a.Out)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
