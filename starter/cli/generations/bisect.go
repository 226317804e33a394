package generations

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) bisectCmd() *cobra.Command {
	var index string
	var request bisect.Request
	var top int
	command := &cobra.Command{
		Use:   "bisect QUESTION",
		Short: "Find the night that took a document away from a question",
		Long: `Of the kept generations, find the last one that returns a document for a question and the first one after it
that does not, and show what changed between them: the document, other documents, settings, models, entities.

The search asks about log2 of the generations, and then the later of the two once more without each kind of change:
what it returns again is a confirmed cause. Generations that cannot be asked are skipped and named.`,
		Example: "  unweaver bisect docs \"Who signed the lease?\" --expect contracts/lease.pdf --from 20261120t020000z",
		Args:    console.RequireArgs(1, 1, "a QUESTION in quotes"),
		RunE: func(command *cobra.Command, args []string) error {
			request.Query = args[0]
			if command.Flags().Changed("top") {
				request.TopChunks = (*answer.Count)(&top)
			}
			return a.WithQueries(command.Context(), func(ctx context.Context, base string) error {
				raw, err := console.Post(ctx, base, "/v1/indexes/"+url.PathEscape(index)+"/bisect", request)
				if err != nil {
					return err
				}
				var found bisect.Found
				if err := json.Unmarshal(raw, &found); err != nil {
					return fault.Internal.At("read the answer of", base).Because(err)
				}
				return a.PrintOut(found, func(w io.Writer) { showNight(w, request.Expect, found) })
			})
		},
	}
	set := command.Flags()
	set.StringVar(&request.Expect, "expect", "", "key of the document, or id of the passage, that should be found")
	set.StringVar(&request.From, "from", "", "a generation that returns it (default: the oldest that is kept)")
	set.StringVar(&request.To, "to", "", "a later generation that does not (default: the current one)")
	set.StringVar(&request.Method, "method", "", "retrieval method (default: that of each generation)")
	set.IntVar(&top, "top", 0, "number of passages that count (default: that of each generation)")
	_ = command.MarkFlagRequired("expect") // the flag exists
	return console.LeastOne(console.TakeIndex(command, &index), "top")
}

// showNight prints the night that took a document away.
func showNight(w io.Writer, expect string, found bisect.Found) {
	place := func(rank int) string {
		if rank == 0 {
			return "-"
		}
		return fmt.Sprint(rank)
	}
	good, bad := found.Good, found.Bad.Generation
	fmt.Fprintf(w, "%s returns %s at rank %d of %d\n%s does not: this night took it away\n\n", good.Generation, expect,
		good.Rank, good.Top, bad)
	fmt.Fprintln(w, "what changed, the best evidence first:")
	for _, cause := range found.Causes {
		mark := " "
		if cause.Confirmed {
			mark = "✓"
		}
		fmt.Fprintf(w, "  %s %s\n", mark, cause.Text)
	}
	fmt.Fprint(w, "  (✓: the passage is gone, or comes back without the change)\n\n")
	if len(found.Ranking) > 0 {
		show.Table(w, "before\tafter\tpassage of\tdocument", found.Ranking, func(row bisect.Row) string {
			if row.Expected {
				row.Change += " ←"
			}
			return place(row.Before) + "\t" + place(row.After) + "\t" + show.Key(row.Document) + "\t" + row.Change
		})
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "all that changed: unweaver diff %s %s %s\n", found.Index, good.Generation, bad)
	for _, notice := range found.Notices {
		fmt.Fprintln(w, "note: "+notice)
	}
	fmt.Fprintf(w, "%s, %s\n", show.Count(found.Questions, "question"), show.Count(found.Tokens, "token"))
}
