package runs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) backfillCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "backfill",
		Short: "Add selected documents of the corpus outside the scheduled runs",
		Long: `Add selected documents of the corpus to the published generation, in parallel to the scheduled runs. A
backfill first pays for extraction, without the lease of the index, and gives way to builds of the index. Then it
publishes the selected documents on top of the generation served at that time. Until then, scheduled runs skip the
new documents that a backfill selected.`,
	}
	command.AddCommand(
		a.backfillStartCmd(),
		a.backfillListCmd(),
		a.backfillStatusCmd(),
		a.backfillSteerCmd("pause", "paused",
			"Pause a backfill: it sends no more requests, and keeps the answers of those in flight"),
		a.backfillSteerCmd("resume", "goes on",
			"Resume a backfill that paused, or ended before it published; no request is sent twice"),
		a.backfillSteerCmd("cancel", "cancelled",
			"Cancel a backfill: paid results are kept, and the next run adds its documents"),
	)
	return command
}

// backfillSteerCmd returns a command that does one thing to a backfill.
func (a app) backfillSteerCmd(use, done, short string) *cobra.Command {
	var named control.BackfillNamed
	given := func() *core.Budget { return nil }
	command := &cobra.Command{
		Use: use + " NAME", Short: short,
		Example: "  unweaver backfill " + use + " docs archive --reason \"the model server is slow\"",
		Args:    console.RequireArgs(1, 1, "a NAME"),
		RunE: a.NewControlRun(func(ctx context.Context, controller control.Control, args []string) error {
			named.Name, named.Budget = args[0], given()
			steer := map[string]func(context.Context, control.BackfillNamed) error{
				"pause": controller.PauseBackfill, "resume": controller.ResumeBackfill, "cancel": controller.CancelBackfill,
			}
			if err := steer[use](ctx, named); err != nil {
				return err
			}
			return a.PrintOut(map[string]string{"index": named.Index, "name": named.Name, "done": done}, func(w io.Writer) {
				fmt.Fprintf(w, "backfill %s of %s: %s\n", named.Name, named.Index, done)
			})
		}),
	}
	if use == "resume" {
		given = addBudgetFlags(command)
	}
	return a.AddAuditFlags(console.TakeIndex(command, &named.Index))
}

// backfillOptions are the flags of backfill start: which documents, how fast, and whether to wait.
type backfillOptions struct {
	control.BackfillRequest
	from, to, list string
	wait           bool
}

func (a app) backfillStartCmd() *cobra.Command {
	var options backfillOptions
	command := &cobra.Command{
		Use:   "start NAME",
		Short: "Start a backfill of the documents that match all given conditions",
		Long: `Start a backfill of the documents of the corpus that match all given conditions, with the configuration of
the published generation. If a backfill of this name is running, the command reports that and changes nothing.
Started again later without conditions, it keeps its earlier selection and throttle. The throttle applies to model
calls for passages; the build that publishes the documents obeys models.limits only.`,
		Example: `  unweaver backfill start docs archive --prefix 2019/
  unweaver backfill start docs spring --from 2026-03-01 --to 2026-06-01 --calls-per-minute 30
  unweaver backfill start docs some --documents keys.txt --concurrency 4 --wait`,
		Args: console.RequireArgs(1, 1, "a NAME"),
		RunE: func(command *cobra.Command, args []string) error {
			options.Name = args[0]
			return a.startBackfill(command.Context(), options)
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Choice.Prefix, "prefix", "", "documents whose keys start with this prefix")
	flags.StringVar(&options.from, "from", "", "objects modified at this time or later: 2006-01-02, or RFC 3339")
	flags.StringVar(&options.to, "to", "", "objects modified before this time")
	flags.StringVar(&options.list, "documents", "", "a file with a document's key a line; - is the standard input")
	flags.IntVar(&options.Throttle.Concurrency, "concurrency", 0,
		fmt.Sprintf("calls in flight at most (default %d)", core.DefaultBackfillConcurrency))
	flags.IntVar(&options.Throttle.CallsPerMinute, "calls-per-minute", 0,
		"calls a minute on average (default: models.limits)")
	flags.BoolVar(&options.wait, "wait", false, "wait until it ends")
	return a.AddAuditFlags(console.TakeIndex(command, &options.Index))
}

func (a app) startBackfill(ctx context.Context, options backfillOptions) (err error) {
	request := options.BackfillRequest
	if request.Choice.From, err = console.ParseTime("from", options.from); err != nil {
		return err
	}
	if request.Choice.To, err = console.ParseTime("to", options.to); err != nil {
		return err
	}
	if options.list != "" {
		if request.Choice.Documents, err = a.readKeys(options.list); err != nil {
			return err
		}
	}
	return a.WithControl(ctx, func(ctx context.Context, controller control.Control, _ string) error {
		started, err := controller.StartBackfill(ctx, request)
		if err != nil {
			return err
		}
		if options.wait || a.Started { // a stack of this command's own would end with it
			if started.Attached && !a.JSON {
				fmt.Fprintf(a.Err, "backfill %s is already running; waiting for it\n", request.Name)
			}
			return a.waitBackfill(ctx, controller, control.BackfillNamed{Index: request.Index, Name: request.Name})
		}
		return a.PrintOut(started, func(w io.Writer) {
			what := "started"
			if started.Attached {
				what = "is already running; nothing changed"
			} else if started.Again {
				what = "goes on"
			}
			fmt.Fprintf(w, "backfill %s %s; to watch it: unweaver backfill status %s %s\n", request.Name, what,
				request.Index, request.Name)
		})
	})
}

// readKeys reads the keys of documents, one a line.
func (a app) readKeys(path string) ([]string, error) {
	var in io.Reader = os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fault.Usage.At("read --documents", path).Because(err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	var out []string
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if key := strings.TrimRight(lines.Text(), "\r"); key != "" {
			out = append(out, key)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fault.Usage.At("read --documents", path).Because(err)
	}
	if len(out) == 0 {
		return nil, fault.Usage.At("read --documents", path).
			Because("the file names no document").
			Advise("write one document key on each line, as shown in listings and citations")
	}
	return out, nil
}

func (a app) backfillListCmd() *cobra.Command {
	var named control.BackfillNamed
	type list struct {
		Index     string          `json:"index"`
		Backfills []core.Backfill `json:"backfills"`
	}
	return console.TakeIndex(&cobra.Command{
		Use:     "list",
		Short:   "List the backfills of an index, newest first",
		Example: "  unweaver backfill list docs",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE: console.NewReport(a.App, func(ctx context.Context, c control.Control, _ []string) (list, error) {
			backfills, err := c.ListBackfills(ctx, named)
			return list{named.Index, backfills}, err
		}, func(w io.Writer, found list) {
			for _, one := range found.Backfills {
				fmt.Fprintf(w, "%-20s %-12s %3.0f %%  %s\n", one.Name, one.Status, 100*one.Progress, chosenBy(one.Choice))
			}
			fmt.Fprintln(w, show.Count(len(found.Backfills), "backfill"))
		}),
	}, &named.Index)
}

func (a app) backfillStatusCmd() *cobra.Command {
	var named control.BackfillNamed
	var wait bool
	command := console.TakeIndex(&cobra.Command{
		Use:   "status NAME",
		Short: "Show a backfill: progress, rate, time left, calls, cost, and its published generation",
		Example: "  unweaver backfill status docs archive\n" +
			"  unweaver backfill status docs archive --wait --json",
		Args: console.RequireArgs(1, 1, "a NAME"),
		RunE: a.NewControlRun(func(ctx context.Context, controller control.Control, args []string) error {
			named.Name = args[0]
			if wait {
				return a.waitBackfill(ctx, controller, named)
			}
			one, err := backfillOf(ctx, controller, named)
			if err != nil {
				return err
			}
			return a.PrintOut(one, func(w io.Writer) { showBackfill(w, one) })
		}),
	}, &named.Index)
	command.Flags().BoolVar(&wait, "wait", false, "wait until it ends or pauses")
	return command
}

func backfillOf(ctx context.Context, controller control.Control, named control.BackfillNamed) (core.Backfill, error) {
	all, err := controller.ListBackfills(ctx, named)
	if err == nil && len(all) != 1 {
		err = fault.NotFound.At("find backfill", named.Name).Because("it was not answered")
	}
	if err != nil {
		return core.Backfill{}, err
	}
	return all[0], nil
}

// backfillLooks is how often a backfill is looked at by who waits for it.
const backfillLooks = time.Second

// waitBackfill waits for the end of a backfill, or for a pause, and ends as index does.
func (a app) waitBackfill(ctx context.Context, controller control.Control, named control.BackfillNamed) error {
	for {
		one, err := backfillOf(ctx, controller, named)
		if err != nil {
			return err
		}
		if core.IsTerminal(one.Status) || one.Status == core.StatusPaused {
			a.Exit = console.ExitOf(core.Report{Status: one.Status})
			return a.PrintOut(one, func(w io.Writer) { showBackfill(w, one) })
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(backfillLooks):
		}
	}
}

// chosenBy says what a backfill is for.
func chosenBy(choice core.BackfillChoice) string {
	var parts []string
	if choice.Prefix != "" {
		parts = append(parts, "prefix "+show.OneLine(choice.Prefix))
	}
	if !choice.From.IsZero() {
		parts = append(parts, "from "+choice.From.Format(time.RFC3339))
	}
	if !choice.To.IsZero() {
		parts = append(parts, "before "+choice.To.Format(time.RFC3339))
	}
	if n := len(choice.Documents); n > 0 {
		parts = append(parts, show.Count(int64(n), "listed document"))
	}
	return strings.Join(parts, ", ")
}

func showBackfill(w io.Writer, one core.Backfill) {
	fmt.Fprintf(w, "backfill %s of %s: %s", one.Name, one.Index, strings.ReplaceAll(one.Status, "_", " "))
	if one.Code != "" {
		fmt.Fprintf(w, " (%s)", one.Code)
	}
	fmt.Fprintf(w, "\n  chosen:    %s\n", chosenBy(one.Choice))
	if one.Detail != "" {
		fmt.Fprintf(w, "  why:       %s\n", one.Detail)
	}
	fmt.Fprintf(w, "  paid:      %s in %s, %.0f %% (%s", show.Count(one.Documents, "document"),
		show.Count(int64(one.Units), "unit"), 100*one.Progress, show.Count(one.ChunksDone, "passage"))
	if one.ChunksASecond > 0 {
		fmt.Fprintf(w, ", %.1f/s", one.ChunksASecond)
	}
	if one.Status == core.BackfillPaying && one.SecondsLeft >= 0 {
		fmt.Fprintf(w, ", %s left", (time.Duration(one.SecondsLeft) * time.Second).String())
	}
	fmt.Fprintf(w, ")\n  calls:     extract %d, embed %d; tokens %d; cost %.4f; %d in the ledger already\n",
		one.Calls.Extract, one.Calls.Embed, one.Tokens.Prompt+one.Tokens.Completion+one.Tokens.Embedding, one.Cost,
		one.LedgerHits.Extract)
	if one.YieldsTo != "" && !core.IsTerminal(one.Status) {
		fmt.Fprintf(w, "  waits for: %s, which runs first\n", one.YieldsTo)
	}
	for _, build := range one.Builds {
		fmt.Fprintf(w, "  build:     %s on %s", build.Run, build.Parent)
		if build.Why != "" {
			fmt.Fprintf(w, "; failed: %s", build.Why)
		}
		fmt.Fprintln(w)
	}
	if one.Generation != "" {
		fmt.Fprintf(w, "  published: %s, on %s", one.Generation, one.Parent)
		if one.Rebased {
			fmt.Fprintf(w, " (rebased: it began on %s)", one.Base)
		}
		fmt.Fprintln(w)
	}
}
