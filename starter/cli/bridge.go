package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

// App gives image.go, bisect.go and watch.go, which move to generations, what they used in this package.
type App struct {
	*console.App
	json bool
}

// listBridged returns the commands of the three files.
func listBridged(shared *console.App) []*cobra.Command {
	a := &App{App: shared}
	commands := []*cobra.Command{a.pushCmd(), a.pullCmd(), a.verifyCmd(),
		console.PutIndexFirst(a.bisectCmd(), true), a.watchCmd()}
	for _, command := range commands {
		if do := command.RunE; do != nil {
			command.RunE = func(command *cobra.Command, args []string) error {
				a.json = shared.JSON
				return do(command, args)
			}
		}
	}
	return commands
}

func (a *App) withControl(ctx context.Context, f func(context.Context, control.Control, string) error) error {
	return a.WithControl(ctx, f)
}

func (a *App) withQueries(ctx context.Context, f func(context.Context, string) error) error {
	return a.WithQueries(ctx, f)
}

func (a *App) printOut(value any, f func(io.Writer)) error { return a.PrintOut(value, f) }

func (a *App) addAuditFlags(command *cobra.Command) *cobra.Command { return a.AddAuditFlags(command) }

type bar struct {
	*show.Bar
	quiet, terminal bool
}

func newBar(out io.Writer, quiet bool) *bar {
	drawn := show.NewBar(out, quiet)
	return &bar{drawn, quiet, drawn.Terminal}
}

func (b *bar) draw(stage, line string) { b.Draw(stage, line) }

func (b *bar) endStatus() { b.EndStatus() }

func countOf[N int | int64](n N, one string) string { return show.Count(n, one) }

func showTable[T any](w io.Writer, header string, items []T, row func(T) string) {
	show.Table(w, header, items, row)
}

const (
	barWidth     = show.BarWidth
	shownChanges = 5
)

var (
	durationOf  = show.Duration
	shortenKey  = show.Key
	requireArgs = console.RequireArgs
	leastOne    = console.LeastOne
	post        = console.Post
)

func readQuestions(path, form string, read func(io.Reader) ([]core.Question, error)) ([]core.Question, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.Usage.At("read questions", path).Because(err)
	}
	defer func() { _ = file.Close() }()
	asked, err := read(file)
	if err != nil {
		return nil, fault.Usage.At("read questions", path).Because(err).Advise("write a line " + form + " for each")
	}
	return asked, nil
}
