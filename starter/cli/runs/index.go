package runs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/workflows"
)

const indexLong = `Build and publish a generation of an index. The corpus is a directory or s3://bucket/prefix. Without
CORPUS, the configured corpus is used.

If a build of the index with the same corpus and configuration is running, the command attaches to it, unless
--generation is given. With --wait the build starts after a running retry-failed round or purge ends; with --wait and
--rebuild, after any running run ends.

Ctrl-C ends the waiting, and the run continues. If this command had to start the embedded stack, the stack stops with
it, and the run continues when a stack runs again.

With --plan the build starts only if parent, listing and configuration still match the plan; otherwise the command
lists what changed. With --wait and --json it prints the report to standard output and events to standard error, one
JSON object a line.

`

func (a app) indexCmd() *cobra.Command {
	var index, generation, planned, apply string
	var wait, dry, replace, rebuild bool
	command := &cobra.Command{
		Use:   "index [CORPUS]",
		Short: "Build and publish a generation of an index",
		Long:  indexLong + console.ExitCodes,
		Example: `  unweaver index ./docs --index docs --wait
  unweaver index ./docs --index docs --dry-run
  unweaver index s3://bucket/prefix --index docs --wait --json > report.json`,
		Args: console.RequireArgs(0, 1, "at most a CORPUS"),
		RunE: func(command *cobra.Command, args []string) error {
			if index == "" {
				return console.NoIndex(command)
			}
			uri := strings.Join(args, "")
			spec, err := a.ResolveSpec(index, uri)
			if err != nil {
				return err
			}
			a.NoteDev()
			cfg, err := a.LoadConfig()
			if err != nil {
				return err
			}
			return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				if spec, err = a.SpecOf(ctx, controller, index, uri); err != nil {
					return err
				}
				request := control.IndexRequest{
					Spec: chooseApply(spec, apply), Generation: generation, ReplaceCorpus: replace, Rebuild: rebuild,
					Priority: control.Priority(cfg.Priority(index)),
				}
				if err := request.ReadFiles(); err != nil {
					return err
				}
				if dry {
					return a.printEstimate(ctx, controller, request, "")
				}
				if request.Expected, err = a.asPlanned(ctx, controller, request, planned); err != nil {
					return err
				}
				waits := wait || a.Started // a stack of this command's own would end with it
				begin := func() (control.Run, error) { return controller.BuildIndex(ctx, request) }
				yields := leavesCorpus
				if rebuild { // a build that goes on may trust what is there
					yields = console.AnyRun
				}
				run, err := console.InTurn(ctx, a.App, controller, index, waits && generation == "", yields, begin)
				if err != nil {
					return err
				}
				if !waits {
					return a.reportStarted(run)
				}
				return a.waitJoined(ctx, controller, run)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&index, "index", "", "name of the index")
	flags.StringVar(&generation, "generation", "", "name of the generation (default: its start time)")
	flags.BoolVar(&wait, "wait", false, "wait for the end, with progress")
	flags.BoolVar(&rebuild, "rebuild", false, "rebuild everything from paid results; reuse no part of the parent")
	flags.BoolVar(&dry, "dry-run", false, "only estimate, with the options of this command")
	flags.StringVar(&planned, "plan", "", "build the plan in this file of estimate --out, or report what changed since")
	flags.BoolVar(&replace, "replace-corpus", false, "allow a corpus other than that of the published generation")
	addApplyFlag(flags, &apply)
	return command
}

// leavesCorpus reports whether a run does not look at the corpus, so that a build is another one and follows it.
func leavesCorpus(run string) bool { return workflows.ForRetry(run) || workflows.ForPurge(run) }

// waitJoined waits for a run, and says where it was joined.
func (a app) waitJoined(ctx context.Context, controller control.Control, run control.Run) error {
	if run.Attached && !a.JSON {
		fmt.Fprintf(a.Err, "%s is already running; waiting for it%s\n", run.Run, describeJoined(run))
	}
	return a.WaitForRun(ctx, controller, run)
}

// reportStarted reports a run that goes on without this command.
func (a app) reportStarted(run control.Run) error {
	return a.PrintOut(run, func(w io.Writer) {
		what := "started"
		if run.Attached {
			what = "is already running" + describeJoined(run)
		}
		fmt.Fprintf(w, "%s %s; to watch it: unweaver status %s --watch\n", run.Run, what, run.Run)
	})
}

// describeJoined says what of the corpus a run that was joined may not have.
func describeJoined(run control.Run) string {
	if run.Begun == nil {
		return ""
	}
	return " (it started at " + run.Begun.UTC().Format("15:04:05") + " UTC, so it may miss later changes of the corpus; " +
		"to index them, run this command again after it ends)"
}

func (a app) statusCmd() *cobra.Command {
	var watch bool
	command := &cobra.Command{
		Use:   "status [RUN]",
		Short: "Show a run: progress, rate, time left, tokens, cost, problems; without one, list the indexes",
		Long: `Show a run: progress, rate, time left, tokens, cost, problems. Without a RUN it lists the indexes, as ls
does.

With --watch it follows the run until the run ends or pauses. Ctrl-C ends the watching, not the run. The time left is
an estimate: the running stage is measured in this run, later stages in the previous run. It is ? while nothing
progresses.

Exit codes are those of index.

` + runForm,
		Example: "  unweaver status docs\n  unweaver status docs/20261122t020000z --watch\n  unweaver status docs --json",
		Args:    console.RequireArgs(0, 1, "at most a RUN"),
		RunE: func(command *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			if name == "" && watch {
				return fault.Usage.At("run unweaver", "status --watch").
					Because("no run is named").
					Advise("give RUN, or the name of an index for its newest run; to list the indexes: unweaver ls")
			}
			if name == "" {
				return a.listIndexes(command, nil)
			}
			return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				status, err := controller.ReadStatus(ctx, name) // an index stands for the run that is its newest now
				if err != nil {
					return err
				}
				if watch {
					run := control.Run{Run: status.Run, RunID: status.RunID, Attached: true}
					return a.StreamRun(ctx, controller, run)
				}
				return a.ReportRun(status)
			})
		},
	}
	command.Flags().BoolVar(&watch, "watch", false, "follow the run until it ends or pauses")
	return command
}
