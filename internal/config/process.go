package config

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/internal/core/version"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
)

// DefaultFile is read where no --config is given and it is there.
const DefaultFile = "unweaver.yaml"

// Process is how a server process was started. Its flags are those of the command line.
type Process struct {
	Source Source
	Probe  bool // ask the running process whether it works, and exit
	JSON   bool // errors are printed as JSON

	Verbose bool // more is logged

	name string
	done bool
}

// ParseProcess reads the flags of a process: about says in one sentence what it does, probe what --probe asks. The
// configuration is that of --config, else of UNWEAVER_CONFIG, else DefaultFile where it exists. After --help and
// --version, which are answered on out, Done says that there is nothing left to do.
func ParseProcess(name, about, probe string, args, env []string, out io.Writer) (*Process, error) {
	process := &Process{name: name, Source: Source{Env: env}}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var tell bool
	flags.StringVar(&process.Source.Path, "config", FindVariable(env, "UNWEAVER_CONFIG"), "")
	flags.Func("set", "", func(setting string) error {
		process.Source.Set = append(process.Source.Set, setting)
		return nil
	})
	flags.BoolVar(&process.JSON, "json", false, "")
	flags.BoolVar(&process.Verbose, "verbose", false, "")
	flags.BoolVar(&process.Probe, "probe", false, "")
	flags.BoolVar(&tell, "version", false, "")
	err := flags.Parse(args)
	switch {
	case err == flag.ErrHelp: //nolint:errorlint // the package gives it as it is
		process.done = true
		fmt.Fprintf(out, processHelp, about, name, DefaultFile, probe, name, name, name)
		return process, nil
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		return process, fault.Usage.At("run", name).Because(err).Advise("see: " + name + " --help")
	}
	if tell {
		process.done = true
		fmt.Fprintf(out, "%s %s (%s, %s/%s)\n", name, version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	}
	if process.Source.Path == "" {
		process.Source.Path, process.Source.Missing = DefaultFile, true
	}
	return process, nil
}

// RunServer runs a server process until SIGTERM, or with --probe asks the running one, and exits with a code that says
// how it went. What it writes is its owner's alone.
func RunServer(
	name, about, probe string, run func(context.Context, *Config, *slog.Logger) error,
	ask func(context.Context, *Config) error,
) {
	syscall.Umask(0o077)
	process, err := ParseProcess(name, about, probe, os.Args[1:], os.Environ(), os.Stdout)
	if err == nil && !process.IsDone() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		var cfg *Config
		if cfg, err = Load(process.Source); err == nil && process.Probe {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			err = ask(ctx, cfg)
		} else if err == nil {
			err = run(ctx, cfg, process.Logger(os.Stderr))
		}
	}
	if err != nil {
		os.Exit(process.Exit(err, os.Stderr)) //nolint:gocritic // the process ends: nothing is left to be deferred
	}
}

const processHelp = `%s

Usage:
  %s [flags]

Flags:
      --config string     configuration file (default: UNWEAVER_CONFIG, else %s where it exists)
      --set stringArray   override one setting: path=value
      --json              print errors as JSON
      --probe             %s
      --verbose           log more
      --version           tell which version this is
      --help              show this

Examples:
  %s
  %s --config /etc/unweaver/unweaver.yaml
  %s --set worker.slots=16

Exit codes: 0 done, 1 failed, 2 usage, or a mistake in the configuration. Logs go to standard error, as JSON lines.
`

// Logger writes structured lines, each with the program and its version. What would tell a secret is taken out.
func (p *Process) Logger(to io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if p.Verbose {
		level = slog.LevelDebug
	}
	options := slog.HandlerOptions{Level: level, ReplaceAttr: redact.Attr}
	return slog.New(slog.NewJSONHandler(to, &options)).With("program", p.name, "version", version.String())
}

// IsDone says that the flags asked for something that is answered already.
func (p *Process) IsDone() bool { return p.done }

// FindVariable returns the value of a variable in an environment of NAME=value entries, or empty. The first one counts.
func FindVariable(env []string, name string) string {
	for _, entry := range env {
		if len(entry) > len(name) && entry[len(name)] == '=' && entry[:len(name)] == name {
			return entry[len(name)+1:]
		}
	}
	return ""
}

// Exit prints an error and gives the exit code: 2 where what was asked for is refused, else 1; nil is 0.
func (p *Process) Exit(err error, to io.Writer) int {
	if err == nil {
		return 0
	}
	if p.JSON {
		shown := map[string]string{"error": redact.Text(err.Error()), "code": string(fault.CodeOf(err))}
		if known := fault.As(err); known != nil {
			shown["hint"] = known.Hint
		}
		_ = json.NewEncoder(to).Encode(shown) // nothing is left to tell
	} else {
		fmt.Fprintf(to, "%s: %s\n", p.name, redact.Text(err.Error()))
	}
	if fault.IsRefusal(err) {
		return 2
	}
	return 1
}
