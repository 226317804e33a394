package runs

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
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
	var asked build
	var planned string
	var wait, dry bool
	command := &cobra.Command{
		Use:   "index [CORPUS]",
		Short: "Build and publish a generation of an index",
		Long:  indexLong + console.ExitCodes,
		Example: `  unweaver index ./docs --index docs --wait
  unweaver index ./docs --index docs --dry-run
  unweaver index s3://bucket/prefix --index docs --wait --json > report.json`,
		Args: console.RequireArgs(0, 1, "at most a CORPUS"),
		RunE: func(command *cobra.Command, args []string) error {
			return a.withBuild(command, args, asked, func(ctx context.Context, c control.Control, r control.IndexRequest) error {
				if dry {
					return a.printEstimate(ctx, c, r, "")
				}
				var err error
				if r.Expected, err = a.asPlanned(ctx, c, r, planned); err != nil {
					return err
				}
				waits := wait || a.Started // a stack of this command's own would end with it
				yields := leavesCorpus
				if r.Rebuild { // a build that goes on may trust what is there
					yields = console.AnyRun
				}
				begin := func() (control.Run, error) { return c.BuildIndex(ctx, r) }
				run, err := console.InTurn(ctx, a.App, c, asked.index, waits && r.Generation == "", yields, begin)
				if err != nil {
					return err
				}
				return a.AwaitRun(ctx, c, run, waits)
			})
		},
	}
	asked.addFlags(command, "rebuild everything from paid results; reuse no part of the parent",
		"allow a corpus other than that of the published generation")
	flags := command.Flags()
	flags.StringVar(&asked.Generation, "generation", "", "name of the generation (default: its start time)")
	flags.BoolVar(&wait, "wait", false, "wait for the end, with progress")
	flags.BoolVar(&dry, "dry-run", false, "only estimate, with the options of this command")
	flags.StringVar(&planned, "plan", "", "build the plan in this file of estimate --out, or report what changed since")
	return command
}

// build is what index and estimate are asked for.
type build struct {
	control.IndexRequest
	index, apply string
}

// addFlags gives a command the flags that index and estimate share.
func (b *build) addFlags(command *cobra.Command, rebuild, replace string) {
	flags := command.Flags()
	flags.StringVar(&b.index, "index", "", "name of the index")
	flags.BoolVar(&b.Rebuild, "rebuild", false, rebuild)
	flags.BoolVar(&b.ReplaceCorpus, "replace-corpus", false, replace)
	flags.StringVar(&b.apply, show.ApplyFlag, "",
		"apply changed types, guidance or examples to passages: all, new or mentions (default: extraction.apply)")
}

// withBuild adds to a request what the configuration says, and runs do.
func (a app) withBuild(
	command *cobra.Command, args []string, asked build,
	do func(ctx context.Context, controller control.Control, request control.IndexRequest) error,
) error {
	if asked.index == "" {
		return console.NoIndex(command)
	}
	uri := strings.Join(args, "")
	if _, err := a.ResolveSpec(asked.index, uri); err != nil {
		return err
	}
	a.NoteDev()
	return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) (err error) {
		if asked.Spec, err = a.SpecOf(ctx, controller, asked.index, uri); err != nil {
			return err
		}
		cfg, err := a.LoadConfig()
		if err != nil {
			return err
		}
		asked.Priority = control.Priority(cfg.Priority(asked.index))
		if asked.apply != "" { // in place of the configured choice; who builds checks it
			asked.Spec = asked.Spec.WithApply(asked.apply)
		}
		if err := asked.ReadFiles(); err != nil {
			return err
		}
		return do(ctx, controller, asked.IndexRequest)
	})
}

// leavesCorpus reports whether a run does not look at the corpus, so that a build is another one and follows it.
func leavesCorpus(run string) bool { return workflows.ForRetry(run) || workflows.ForPurge(run) }

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
