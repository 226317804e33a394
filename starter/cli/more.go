package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops"
)

func (a *App) generationsCmd() *cobra.Command {
	var index string
	command := &cobra.Command{
		Use:   "generations",
		Short: "List the generations of an index",
		Args:  exactArgs(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withControl(c.Context(), func(ctx context.Context, ctl ops.Control, _ string) error {
				gens, err := ctl.Generations(ctx, index)
				if err != nil {
					return err
				}
				return a.print(map[string]any{"index": index, "generations": gens}, func(w io.Writer) {
					fmt.Fprintf(
						w,
						"%-22s %4s  %-9s %9s %9s %9s  %-20s %s\n",
						"generation",
						"seq",
						"state",
						"documents",
						"chunks",
						"classes",
						"built",
						"content hash",
					)
					for _, g := range gens {
						fmt.Fprintf(
							w,
							"%-22s %4d  %-9s %9d %9d %9d  %-20s %.16s\n",
							g.Generation,
							g.Seq,
							g.State,
							g.Documents,
							g.Chunks,
							g.Classes,
							g.Created.Format("2006-01-02 15:04:05"),
							g.ContentHash,
						)
					}
				})
			})
		},
	}
	command.Flags().StringVar(&index, "index", "", "name of the index")
	_ = command.MarkFlagRequired("index") // the flag exists
	return command
}

func (a *App) restoreCmd() *cobra.Command {
	var index string
	command := &cobra.Command{
		Use:   "restore",
		Short: "Load an index's stores again from its artifacts, with no model call",
		Args:  exactArgs(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withControl(c.Context(), func(ctx context.Context, ctl ops.Control, _ string) error {
				run, err := ctl.Restore(ctx, index)
				if err != nil {
					return err
				}
				return a.wait(ctx, ctl, run.Run)
			})
		},
	}
	command.Flags().StringVar(&index, "index", "", "name of the index")
	_ = command.MarkFlagRequired("index") // the flag exists
	return command
}

func (a *App) doctorCmd() *cobra.Command {
	var index string
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Probe every dependency and setting",
		Args:  exactArgs(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			spec, err := a.spec(index, "")
			if err != nil {
				return err
			}
			return a.withControl(c.Context(), func(ctx context.Context, ctl ops.Control, _ string) error {
				checks, err := ctl.Doctor(ctx, spec)
				if err != nil {
					return err
				}
				for _, x := range checks {
					if !x.OK {
						a.exit = ExitFailed
					}
				}
				return a.print(map[string]any{"checks": checks, "ok": a.exit == 0}, func(writer io.Writer) {
					for _, check := range checks {
						mark := "ok  "
						if !check.OK {
							mark = "FAIL"
						}
						fmt.Fprintf(writer, "%s  %-18s %s\n", mark, check.Name, check.Detail)
					}
				})
			})
		},
	}
	command.Flags().StringVar(&index, "index", "default", "index whose models and corpus are probed")
	return command
}

// hand hands over to the embedded stack's program with all arguments.
func hand(args []string) error {
	bin, err := devBinary()
	if err != nil {
		return err
	}
	err = syscall.Exec(bin, append([]string{bin}, args...), os.Environ())
	return fault.EngineDown.At("start", bin).Because(err).Advise("build it with: make build")
}

func (a *App) devCmd() *cobra.Command {
	var temporal, http int
	var corpusDir string
	command := &cobra.Command{
		Use:   "dev",
		Short: "Run the embedded stack, worker and query-api in one process, until Ctrl-C",
		Args:  exactArgs(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			args := append(
				[]string{"dev", "--temporal-port", fmt.Sprint(temporal), "--http-port", fmt.Sprint(http)},
				a.passOn()...)
			if corpusDir != "" {
				args = append(args, "--corpus", corpusDir)
			}
			return hand(args)
		},
	}
	command.Flags().IntVar(&temporal, "temporal-port", 7233, "port of Temporal on 127.0.0.1; 0 = any free")
	command.Flags().IntVar(&http, "http-port", 8080, "port of HTTP on 127.0.0.1; 0 = any free")
	command.Flags().StringVar(&corpusDir, "corpus", "", "index this folder as index docs once the stack is ready")
	return command
}

func (a *App) demoCmd() *cobra.Command {
	var keep bool
	command := &cobra.Command{
		Use:   "demo",
		Short: "Index the sample corpus on the embedded stack and answer a question",
		Args:  exactArgs(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			args := []string{"demo"}
			if keep {
				args = append(args, "--keep")
			}
			return hand(args)
		},
	}
	command.Flags().BoolVar(&keep, "keep", false, "keep the stack running until Ctrl-C, to look at its web page")
	return command
}
