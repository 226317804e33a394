package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops"
)

func (a *App) indexCmd() *cobra.Command {
	var index, gen string
	var wait, dry, replace bool
	command := &cobra.Command{
		Use: "index [CORPUS]", Short: "Build and publish a generation of an index",
		Long: `Build and publish a generation of an index from a corpus: a directory or s3://bucket/prefix, else the configured one.

Without --generation it attaches to a running build of the index with the same corpus and configuration.
Exit codes: 0 done, 1 failed, 2 usage, 3 completed with errors, 4 not published by a gate, 5 paused.`,
		Args: cobra.MaximumNArgs(1), RunE: func(c *cobra.Command, args []string) error {
			if index == "" {
				return fault.Usage.At("run unweaver", "index").Because("no index is named").Advise("add --index NAME")
			}
			uri := ""
			if len(args) > 0 {
				uri = args[0]
			}
			spec, err := a.spec(index, uri)
			if err != nil {
				return err
			}
			return a.withControl(c.Context(), func(ctx context.Context, ctl ops.Control, _ string) error {
				run, err := ctl.Index(
					ctx,
					ops.IndexRequest{Spec: spec, Generation: gen, DryRun: dry, ReplaceCorpus: replace},
				)
				if err != nil {
					return err
				}
				if !wait && !dry && !a.started { // a stack of this command's own would end with it
					return a.print(run, func(w io.Writer) {
						fmt.Fprintf(w, "%s started; watch it with: unweaver status %s\n", run.Run, run.Run)
					})
				}
				return a.wait(ctx, ctl, run.Run)
			})
		},
	}
	command.Flags().StringVar(&index, "index", "", "name of the index")
	command.Flags().StringVar(&gen, "generation", "", "name of the generation (default: the start time)")
	command.Flags().BoolVar(&wait, "wait", false, "wait for the end, with progress")
	command.Flags().BoolVar(&dry, "dry-run", false, "count documents, chunks, calls and tokens, and pay nothing")
	command.Flags().
		BoolVar(&replace, "replace-corpus", false, "allow another corpus than that of the published generation")
	return command
}

func (a *App) statusCmd() *cobra.Command {
	var index string
	command := &cobra.Command{
		Use:   "status [RUN]",
		Short: "Show a run: progress, rate, time left, tokens",
		Long:  "Show a run: progress, rate, time left, tokens.\n\nRUN is index/generation, or an index for its newest run.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := index
			if len(args) > 0 {
				name = args[0]
			}
			if name == "" {
				return fault.Usage.At("run unweaver", "status").
					Because("no run is named").
					Advise("give RUN, or --index NAME for its newest")
			}
			return a.withControl(c.Context(), func(ctx context.Context, ctl ops.Control, _ string) error {
				st, err := ctl.Status(ctx, name)
				if err != nil {
					return err
				}
				a.exit = exitOf(st.Status)
				return a.print(st, func(w io.Writer) { showReport(w, st) })
			})
		},
	}
	command.Flags().StringVar(&index, "index", "", "show the newest run of an index")
	return command
}

func exitOf(status string) int {
	switch status {
	case corpus.StatusFailed, corpus.StatusCancelled:
		return ExitFailed
	case corpus.StatusErrors:
		return ExitErrors
	case corpus.StatusHeld:
		return ExitHeld
	case corpus.StatusPaused:
		return ExitPaused
	}
	return ExitDone
}

// wait follows a run to its end, or to a pause, and shows its report.
func (a *App) wait(ctx context.Context, ctl ops.Control, run string) error {
	st, err := a.follow(ctx, ctl, run)
	if err != nil {
		return err
	}
	a.exit = exitOf(st.Status)
	return a.print(st, func(w io.Writer) { showReport(w, st) })
}

// follow shows progress until a run ends or pauses.
func (a *App) follow(ctx context.Context, ctl ops.Control, run string) (ops.Status, error) {
	bar := newBar(a.Err, a.json)
	for delay := 50 * time.Millisecond; ; delay = min(delay*3/2, 500*time.Millisecond) {
		st, err := ctl.Status(ctx, run)
		if err != nil && !fault.Is(err, fault.RunNotFound) {
			return st, err
		}
		if err == nil {
			bar.show(st)
			if corpus.Terminal(st.Status) || st.Status == corpus.StatusPaused {
				bar.end()
				return st, nil
			}
		}
		select {
		case <-ctx.Done():
			bar.end()
			fmt.Fprintf(a.Err, "the run goes on: unweaver status %s\n", run)
			return st, fault.Internal.At("wait for", run).Because("interrupted")
		case <-time.After(delay):
		}
	}
}

// bar is one line of progress: redrawn on a terminal, else one line a stage and every ten seconds.
type bar struct {
	w     io.Writer
	tty   bool
	quiet bool
	stage string
	last  time.Time
	drawn bool
}

func newBar(w io.Writer, quiet bool) *bar {
	b := &bar{w: w, quiet: quiet}
	if f, ok := w.(*os.File); ok {
		if st, err := f.Stat(); err == nil {
			b.tty = st.Mode()&os.ModeCharDevice != 0
		}
	}
	return b
}

func (b *bar) show(st ops.Status) {
	if st.Stage == "" || (b.quiet && !b.tty) {
		return
	}
	if !b.tty && st.Stage == b.stage && time.Since(b.last) < 10*time.Second {
		return
	}
	b.stage, b.last = st.Stage, time.Now()
	cur := corpus.StageProgress{}
	if n := len(st.Stages); n > 0 {
		cur = st.Stages[n-1]
	}
	const width = 24
	full := int(st.Overall * width)
	line := fmt.Sprintf(
		"[%s%s] %3.0f %%  %-8s %d/%d  %.0f/s  %s left  %d tokens",
		strings.Repeat("#", full),
		strings.Repeat(".", width-full),
		100*st.Overall,
		st.Stage,
		cur.Done,
		cur.Total,
		st.Rate,
		eta(st.ETASeconds),
		st.Tokens.Prompt+st.Tokens.Completion+st.Tokens.Embedding,
	)
	if st.Status == corpus.StatusPaused {
		line += "  paused: " + st.Reason
	} else if len(st.Problems) > 0 && st.Problems[len(st.Problems)-1].Object == st.Stage {
		line += "  retrying: " + st.Problems[len(st.Problems)-1].Code
	}
	if b.tty {
		fmt.Fprintf(b.w, "\r\x1b[K%s", line)
		b.drawn = true
		return
	}
	fmt.Fprintln(b.w, line)
}

func (b *bar) end() {
	if b.drawn {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}

func eta(s float64) string {
	if s <= 0 {
		return "?"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

func showReport(writer io.Writer, st ops.Status) {
	fmt.Fprintf(writer, "%s  %s", st.Run, st.Status)
	if st.Reason != "" {
		fmt.Fprintf(writer, " (%s)", st.Reason)
	}
	if st.Unchanged {
		fmt.Fprint(writer, "  nothing changed")
	}
	fmt.Fprintln(writer)
	if st.Detail != "" {
		fmt.Fprintf(writer, "  %s\n", st.Detail)
	}
	if st.Stage != "" {
		fmt.Fprintf(
			writer,
			"  %.0f %% done, stage %s, %.0f/s, %s left\n",
			100*st.Overall,
			st.Stage,
			st.Rate,
			eta(st.ETASeconds),
		)
	}
	fmt.Fprintf(
		writer,
		"  %d documents, %d chunks, %d classes, %d mentions, %d dead letters",
		st.Documents,
		st.Chunks,
		st.Classes,
		st.Mentions,
		st.DeadLetters,
	)
	if st.Models.Chat != "" {
		fmt.Fprintf(writer, "  [%s / %s]", st.Models.Chat, st.Models.Embedding)
	}
	fmt.Fprintf(
		writer,
		"\n  against the parent: %d added, %d changed, %d removed, %d the same, %d refused\n",
		st.Diff.Added,
		st.Diff.Changed,
		st.Diff.Removed,
		st.Diff.Same,
		st.Refused,
	)
	verb := "paid"
	if st.Reason == "dry_run" {
		verb = "would pay"
	}
	fmt.Fprintf(
		writer,
		"  %s: %d extract, %d shorten, %d embed calls; %d prompt, %d completion, %d embedding tokens; cost %.4f\n",
		verb,
		st.Calls.Extract,
		st.Calls.Shorten,
		st.Calls.Embed,
		st.Tokens.Prompt,
		st.Tokens.Completion,
		st.Tokens.Embedding,
		st.Cost,
	)
	if h := st.LedgerHits; h.Extract+h.Shorten+h.Embed > 0 {
		fmt.Fprintf(writer, "  from the ledger: %d extract, %d shorten, %d embed\n", h.Extract, h.Shorten, h.Embed)
	}
	fmt.Fprintf(writer, "  %.1f s", st.Seconds)
	for _, s := range st.Stages {
		fmt.Fprintf(writer, "  %s %.1f", s.Name, s.Seconds)
	}
	fmt.Fprintln(writer)
	if st.ContentHash != "" {
		fmt.Fprintf(writer, "  content hash %s\n", st.ContentHash)
	}
	for i, problem := range st.Problems {
		if i == 10 {
			fmt.Fprintf(writer, "  … and %d more in the report\n", len(st.Problems)-10)
			break
		}
		fmt.Fprintf(writer, "  ! %s %s: %s\n", problem.Code, problem.Object, problem.Detail)
	}
}
