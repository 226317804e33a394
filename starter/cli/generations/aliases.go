package generations

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/text/names"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

// suggestClasses is how many classes are compared where nothing is said.
const suggestClasses = 20_000

func (a app) aliasesCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "aliases",
		Short: "Show and suggest names of the same entity",
		Long: `Show the names that are mapped to one entity in the published generation, and suggest more. The file of
indexes.*.aliases sets the mapping (docs/explain/methods.md).`,
	}
	command.AddCommand(a.aliasesShowCmd(), a.aliasesSuggestCmd())
	return command
}

func (a app) aliasesShowCmd() *cobra.Command {
	var index string
	return console.TakeIndex(&cobra.Command{
		Use:   "show [NAME]",
		Short: "List the mapped names of the published generation: all, or those of one name",
		Long: `List the mapped names of the published generation, each with the name that represents it. With NAME, list
only the names of the same entity. Names are shown as keys: in lower case, without a leading "the"
(docs/reference/formats.md, Mentions). If indexes.*.enrich contains aliases, the pairs that a model decided during
the build follow.`,
		Example: "  unweaver aliases show docs\n  unweaver aliases show docs IBM --json",
		Args:    console.RequireArgs(0, 1, "at most a NAME"),
		RunE: console.NewReport(a.App, func(ctx context.Context, c control.Control, args []string) (core.AliasList, error) {
			found, err := c.ListAliases(ctx, control.AliasesRequest{Index: index})
			if err == nil && len(args) == 1 {
				key := names.Key(args[0], false)
				found.Aliases = sameAs(found.Aliases, key)
				found.Decided = slices.DeleteFunc(slices.Clone(found.Decided), func(one core.SuggestedOne) bool {
					return names.Key(one.Name, false) != key && names.Key(one.Of, false) != key
				})
			}
			return found, err
		}, showAliases),
	}, &index)
}

// sameAs keeps the names that are one with a name.
func sameAs(all []core.MappedName, key string) []core.MappedName {
	stands := key
	for _, one := range all {
		if one.Name == key {
			stands = one.StandsFor
		}
	}
	other := func(one core.MappedName) bool { return one.StandsFor != stands }
	return append([]core.MappedName{}, slices.DeleteFunc(slices.Clone(all), other)...)
}

func showAliases(w io.Writer, list core.AliasList) {
	fmt.Fprintf(w, "%s/%s: %s", list.Index, list.Generation, show.Count(len(list.Aliases), "name"))
	if len(list.Aliases) == 0 {
		fmt.Fprintln(w,
			" mapped: each name is its own entity (to map names, edit the file of indexes.*.aliases)")
	} else {
		fmt.Fprintln(w)
		show.Table(w, "name\tis", list.Aliases, func(one core.MappedName) string { return one.Name + "\t" + one.StandsFor })
	}
	if len(list.Decided) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s that a model decided during the build; these pairs are not mapped until they are in the file\n",
		show.Count(len(list.Decided), "pair"))
	show.Table(w, "name\tand\tare\tcosine\twhy", list.Decided, func(one core.SuggestedOne) string {
		return fmt.Sprintf("%s\t%s\t%s\t%.3f\t%s", joinFields(one.Name), joinFields(one.Of), one.Verdict, one.Cosine,
			joinFields(one.Why))
	})
}

func (a app) aliasesSuggestCmd() *cobra.Command {
	var request control.AliasesRequest
	command := &cobra.Command{
		Use:   "suggest",
		Short: "Print an aliases file with suggested pairs and their reasons, for you to edit",
		Long: `Print the current aliases file, followed by pairs of names that may be one entity. Each pair has its reason:
the cosine of the two entity vectors, or equal letters. Pairs with equal letters are active lines. Other pairs are
comments, because most of them are similar and not the same: to accept one, remove the comment sign and the reason in
front of it. To reject a pair for good, turn it into a forbid line. Then name the file in indexes.*.aliases. The
command calls no model and changes nothing.

It does not suggest pairs whose numbers differ, pairs where only one name has a further proper noun, or pairs that
the file forbids. It compares the most mentioned entities, each with every other.

If a model decides pairs during builds (indexes.*.enrich: [aliases]), its decision is printed with the pair: "the
same" as an active line, "not the same" as a comment at the end.`,
		Example: "  unweaver aliases suggest docs > aliases.txt\n" +
			"  unweaver aliases suggest docs --cosine 0.97 --json | jq '.suggested[:10]'",
		Args: console.RequireArgs(0, 0, "no argument"),
		RunE: a.NewControlRun(func(ctx context.Context, controller control.Control, _ []string) error {
			return a.suggestAliases(ctx, controller, request)
		}),
	}
	flags := command.Flags()
	flags.IntVar(&request.Classes, "classes", suggestClasses, "number of entities to compare, the most mentioned first")
	flags.Float64Var(&request.Cosine, "cosine", 0, "minimum cosine of a pair that is spelled differently (default 0.93)")
	flags.BoolVar(&request.Refused, "refused", false, "also list the pairs that were refused, as comments")
	return console.TakeIndex(command, &request.Index)
}

func (a app) suggestAliases(ctx context.Context, controller control.Control, request control.AliasesRequest) error {
	spec, err := a.SpecOf(ctx, controller, request.Index, "")
	if err != nil {
		return err
	}
	request.Suggest = true
	elsewhere := strings.Contains(spec.Aliases, "://")
	if request.File, err = config.ReadAliases(&spec); err != nil {
		return err
	}
	a.SayLine(fmt.Sprintf("comparing up to %d entities: one to two minutes for 20,000 on two cores, "+
		"four times that for twice as many", request.Classes))
	found, err := controller.ListAliases(ctx, request)
	if err != nil {
		return err
	}
	if elsewhere {
		a.SayLine("what " + spec.Aliases + " forbids was not read: copy it to a file, and name that in indexes." +
			request.Index + ".aliases for this command")
	}
	return a.PrintOut(found, func(w io.Writer) { suggestedFile(w, found, request.File) })
}

// suggestedFile prints a file of aliases: what there was, and what is suggested.
func suggestedFile(w io.Writer, list core.AliasList, before []byte) {
	if text := strings.TrimRight(string(before), "\n"); text != "" {
		fmt.Fprintln(w, text)
	}
	suggested := 0
	for _, one := range list.Suggested {
		if one.Refused == "" {
			suggested++
		}
	}
	fmt.Fprintf(w, "# %s of %s/%s, of %d of its %d entities, in %.1f s\n", show.Count(suggested, "suggestion"), list.Index,
		list.Generation, list.Searched.Classes, list.Searched.Of, list.Searched.Seconds)
	for _, one := range list.Suggested {
		why := fmt.Sprintf("cosine %.3f", one.Cosine)
		if one.Spelled {
			why += ", the same letters"
		}
		line := "pin " + joinFields(one.Name) + " | " + joinFields(one.Of)
		if one.Verdict != "" {
			why += ", by the model " + map[bool]string{true: "the same", false: "not the same"}[one.Verdict == "same"]
			if said := joinFields(one.Why); said != "" {
				why += " (" + said + ")"
			}
		}
		switch {
		case one.Refused != "":
			fmt.Fprintf(w, "# refused, %s, %s: %s\n", one.Refused, why, line)
		case strings.Contains(one.Name+one.Of, "|"):
			fmt.Fprintf(w, "# %s, but a name has the sign that parts two names: %s\n", why, line)
		case one.Verdict == "different", one.Verdict == "" && !one.Spelled:
			// most that are near are not the same (docs/explain/methods.md)
			fmt.Fprintf(w, "# %s: %s\n", why, line)
		default:
			fmt.Fprintf(w, "# %s\n%s\n", why, line)
		}
	}
}

// joinFields returns a name in one line.
func joinFields(name string) string { return strings.Join(strings.Fields(name), " ") }
