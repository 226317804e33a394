package querycmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/mcp"
	"github.com/unweaver/unweaver/query-api/problem"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

// usualEntities is how many entities are listed where nothing is said, and pageEntities how many are asked for at once.
const (
	usualEntities = 100
	pageEntities  = 1000
)

func (a app) entitiesCmd() *cobra.Command {
	var asked mcp.OfEntities
	var most int
	command := &cobra.Command{
		Use:   "entities",
		Short: "List the entities of a published index: of a type, of a document, by name",
		Long: `List the entities of a published index by name, with the number of passages that mention each. With
indexes.*.extraction.types entities have types, and --type lists all of one type (docs/guides/own-types.md).`,
		Example: "  unweaver entities docs --type Drug\n" +
			"  unweaver entities docs --document reports/2026.pdf --limit 0 --json\n" +
			"  unweaver entities docs --prefix asp --order passages",
		Args: console.RequireArgs(0, 0, "an INDEX"),
		RunE: func(command *cobra.Command, _ []string) error {
			return a.WithQueries(command.Context(), func(ctx context.Context, base string) error {
				found, err := readEntities(ctx, newRemote(ctx, base), asked, most)
				if err != nil {
					return err
				}
				return a.PrintOut(found, func(w io.Writer) { showEntities(w, found) })
			})
		},
	}
	set := command.Flags()
	set.StringVar(&asked.Type, "type", "", "only entities of this type")
	set.StringVar(&asked.Document, "document", "", "only entities that the document of this key mentions")
	set.StringVar(&asked.Prefix, "prefix", "", "only names that begin so")
	set.StringVar(&asked.Contains, "contains", "", "only names that contain this")
	set.StringVar(&asked.Order, "order", "", "name, or passages: most mentioned first (default name)")
	set.StringVar(&asked.Generation, "generation", "", "list this kept generation instead of the current one")
	set.IntVar(&most, "limit", usualEntities, "number of entities; 0: all")
	return console.TakeIndex(command, &asked.Index)
}

// readEntities reads entities page by page, at most so many; 0: all.
func readEntities(ctx context.Context, from mcp.Remote, asked mcp.OfEntities, most int) (mcp.Entities, error) {
	out := mcp.Entities{Items: []mcp.Entity{}}
	for {
		asked.Limit = pageEntities
		if most > 0 {
			asked.Limit = min(pageEntities, most-len(out.Items))
		}
		page, err := from.ListEntities(ctx, asked.Index, asked.ToParameters())
		if wrong := problem.As(err); wrong != nil {
			return out, fault.Code(wrong.Code).At("", "").Because(wrong.Detail).Advise(wrong.Hint)
		}
		if err != nil {
			return out, err
		}
		out.Index, out.Generation, out.NextCursor = page.Index, page.Generation, page.NextCursor
		out.Items = append(out.Items, page.Items...)
		if asked.Cursor = page.NextCursor; asked.Cursor == "" || len(out.Items) == most {
			return out, nil
		}
	}
}

func showEntities(w io.Writer, found mcp.Entities) {
	fmt.Fprintf(w, "%s/%s: %s", found.Index, found.Generation, show.Count(len(found.Items), "entity"))
	if found.NextCursor != "" {
		fmt.Fprint(w, ", and more (--limit 0 lists all)")
	}
	fmt.Fprintln(w)
	if len(found.Items) == 0 {
		return
	}
	show.Table(w, "name\ttype\tpassages\tid", found.Items, func(one mcp.Entity) string {
		return fmt.Sprintf("%s\t%s\t%d\t%s", show.Shorten(one.Name, 60), one.Type, one.ChunkTotal, one.ID)
	})
}
