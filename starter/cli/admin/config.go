package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
)

func (a app) configCmd() *cobra.Command {
	command := &cobra.Command{Use: "config", Short: "Work with the configuration"}
	command.AddCommand(
		&cobra.Command{
			Use:   "init",
			Short: "Write a commented configuration file with the defaults (never overwrites a file)",
			Args:  console.RequireArgs(0, 0, "no argument"),
			RunE:  func(*cobra.Command, []string) error { return a.initConfig() },
		},
		&cobra.Command{
			Use:     "show",
			Short:   "Show every setting and its source: default, file, environment variable or --set",
			Example: "  unweaver config show\n  unweaver config show --json --set indexes.docs.keep=5",
			Args:    console.RequireArgs(0, 0, "no argument"),
			RunE:    func(*cobra.Command, []string) error { return a.showConfig() },
		},
		&cobra.Command{
			Use:     "validate",
			Short:   "Check the configuration, and report every mistake with line and column",
			Example: "  unweaver config validate --config nightly.yaml",
			Args:    console.RequireArgs(0, 0, "no argument"),
			RunE:    func(*cobra.Command, []string) error { return a.validateConfig() },
		},
		&cobra.Command{
			Use:     "schema",
			Short:   "Print the JSON Schema of the configuration file, by which editors check and complete its keys",
			Example: "  unweaver config schema > unweaver.schema.json",
			Args:    console.RequireArgs(0, 0, "no argument"),
			RunE: func(*cobra.Command, []string) error {
				_, err := io.WriteString(a.Out, config.Schema())
				return err
			},
		},
	)
	return command
}

// initConfig makes a file that did not exist, whole or not at all.
func (a app) initConfig() (err error) {
	path, _ := a.ConfigFile()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fault.Usage.At("write configuration", path).
			Because("the file already exists").
			Advise("name another file with --config, or delete this one")
	}
	if err != nil {
		return fault.StoreDenied.At("write configuration", path).
			Because(err).
			Advise("name another file with --config")
	}
	_, err = file.WriteString(config.RenderSample())
	if err = errors.Join(err, file.Close()); err != nil {
		return fault.StoreFull.At("write configuration", path).Because(errors.Join(err, os.Remove(path)))
	}
	return a.PrintOut(
		map[string]string{"written": path},
		func(w io.Writer) { fmt.Fprintf(w, "wrote %s; to check it: unweaver config validate\n", path) },
	)
}

func (a app) showConfig() error {
	cfg, err := a.LoadConfig()
	if err != nil {
		return err
	}
	settings := cfg.Settings()
	return a.PrintOut(map[string]any{"settings": settings}, func(w io.Writer) {
		for _, one := range settings { // not the table: one long value would widen every line
			fmt.Fprintf(w, "%-42s  %-24s  %s\n", one.Key, one.Text, cmp.Or(one.At, one.Origin))
		}
	})
}

func (a app) validateConfig() error {
	cfg, err := a.LoadConfig()
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(cfg.Indexes))
	var wrong []error
	for _, name := range names { // a file in a bucket is read by the worker alone
		_, err := config.ReadFiles(&core.Spec{
			Index: name, Aliases: cfg.Indexes[name].Aliases, Gate: core.Gate{Probes: cfg.Indexes[name].Gate.Probes},
		})
		wrong = append(wrong, err)
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	return a.PrintOut(
		map[string]any{"valid": true, "indexes": len(names)},
		func(w io.Writer) {
			fmt.Fprintf(w, "valid: %d indexes", len(names))
			if len(names) > 0 {
				fmt.Fprintf(w, " (%s)", strings.Join(names, ", "))
			}
			fmt.Fprintln(w)
		},
	)
}
