package cli

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
)

// suggestClasses is how many classes are compared where nothing is said.
const suggestClasses = 20_000

func (a *App) aliasesCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "aliases",
		Short: "Names that are one: which are mapped, and which may be",
		Long: `Names that are one: which are mapped in what is served, and which may be. What is mapped is what the file of
indexes.*.aliases says (docs/explain/methods.md).`,
	}
	command.AddCommand(a.aliasesShowCmd(), a.aliasesSuggestCmd())
	return command
}

func (a *App) aliasesShowCmd() *cobra.Command {
	var index string
	command := &cobra.Command{
		Use:   "show [NAME]",
		Short: "List the names that are mapped in what is served: all, or those of one name",
		Long: `List the names that are mapped in what is served, with the one that stands for each. With NAME, those that are
one with it. Names are shown by their keys: in lower case, without a leading "the" (docs/reference/formats.md,
Mentions).
Behind them come the pairs that a model decided when it was built, where indexes.*.enrich has aliases.`,
		Example: "  unweaver aliases show docs\n  unweaver aliases show docs IBM --json",
		Args:    requireArgs(0, 1, "at most a NAME"),
		RunE: a.newControlRun(func(ctx context.Context, controller control.Control, args []string) error {
			found, err := controller.ListAliases(ctx, control.AliasesRequest{Index: index})
			if err != nil {
				return err
			}
			if len(args) == 1 {
				key := names.Key(args[0], false)
				found.Aliases = sameAs(found.Aliases, key)
				found.Decided = slices.DeleteFunc(slices.Clone(found.Decided), func(one core.SuggestedOne) bool {
					return names.Key(one.Name, false) != key && names.Key(one.Of, false) != key
				})
			}
			return a.printOut(found, func(w io.Writer) { showAliases(w, found) })
		}),
	}
	command.Flags().StringVar(&index, "index", "", "name of the index")
	_ = command.MarkFlagRequired("index") // the flag exists
	return command
}

// sameAs keeps the names that are one with a name.
func sameAs(all []core.MappedName, key string) []core.MappedName {
	stands := key
	for _, one := range all {
		if one.Name == key {
			stands = one.StandsFor
		}
	}
	out := []core.MappedName{}
	for _, one := range all {
		if one.StandsFor == stands {
			out = append(out, one)
		}
	}
	return out
}

func showAliases(w io.Writer, list core.AliasList) {
	fmt.Fprintf(w, "%s/%s: %s", list.Index, list.Generation, countOf(len(list.Aliases), "name"))
	if len(list.Aliases) == 0 {
		fmt.Fprintln(w,
			" mapped: every name asked for stands for itself (names are mapped by the file of indexes.*.aliases)")
	} else {
		fmt.Fprintln(w)
		showTable(w, "name\tis", list.Aliases, func(one core.MappedName) string { return one.Name + "\t" + one.StandsFor })
	}
	if len(list.Decided) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s that a model decided when it was built; nothing is mapped by that alone\n",
		countOf(len(list.Decided), "pair"))
	showTable(w, "name\tand\tare\tcosine\twhy", list.Decided, func(one core.SuggestedOne) string {
		return fmt.Sprintf("%s\t%s\t%s\t%.3f\t%s", joinFields(one.Name), joinFields(one.Of), one.Verdict, one.Cosine,
			joinFields(one.Why))
	})
}

func (a *App) aliasesSuggestCmd() *cobra.Command {
	var request control.AliasesRequest
	command := &cobra.Command{
		Use:   "suggest",
		Short: "Print a file of aliases with pairs of names that may be one, and why, to be edited",
		Long: `Print what the file of aliases says now, and behind it pairs of names that may be one, each with its reason:
the cosine of the vectors of the two entities, or that they have the same letters. Pairs of the same letters are lines
that count; others are comments, as most of them are near and not the same: take the reason away in front of those that
are right. Turn into forbid what must not come again, and name the file in indexes.*.aliases. No model is asked, and
nothing is changed.

Pairs with other numbers, and such of which one has another proper noun besides, are refused, and so is what the file
forbids. The entities with the most mentions are compared, each with all others.

Where builds have a model decide (indexes.*.enrich: [aliases]), what it said comes with its pair: the same is a line
that counts, and not the same a comment at the end.`,
		Example: "  unweaver aliases suggest docs > aliases.txt\n" +
			"  unweaver aliases suggest docs --cosine 0.97 --json | jq '.suggested[:10]'",
		Args: requireArgs(0, 0, "no argument"),
		RunE: a.newControlRun(func(ctx context.Context, controller control.Control, _ []string) error {
			return a.suggestAliases(ctx, controller, request)
		}),
	}
	flags := command.Flags()
	flags.StringVar(&request.Index, "index", "", "name of the index")
	flags.IntVar(&request.Classes, "classes", suggestClasses, "how many entities are compared, the most mentioned first")
	flags.Float64Var(&request.Cosine, "cosine", 0, "least cosine of a pair that is not spelled the same (default 0.93)")
	flags.BoolVar(&request.Refused, "refused", false, "also list the pairs that were refused, as comments")
	_ = command.MarkFlagRequired("index") // the flag exists
	return command
}

func (a *App) suggestAliases(ctx context.Context, controller control.Control, request control.AliasesRequest) error {
	spec, err := a.specOf(ctx, controller, request.Index, "")
	if err != nil {
		return err
	}
	request.Suggest = true
	elsewhere := strings.Contains(spec.Aliases, "://")
	if request.File, err = config.ReadAliases(&spec); err != nil {
		return err
	}
	a.sayLine(fmt.Sprintf("comparing up to %d entities: one to two minutes for 20,000 on two cores, "+
		"four times that for twice as many", request.Classes))
	found, err := controller.ListAliases(ctx, request)
	if err != nil {
		return err
	}
	if elsewhere {
		a.sayLine("what " + spec.Aliases + " forbids was not read: copy it to a file, and name that in indexes." +
			request.Index + ".aliases for this command")
	}
	return a.printOut(found, func(w io.Writer) { suggestedFile(w, found, request.File) })
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
	fmt.Fprintf(w, "# %s of %s/%s, of %d of its %d entities, in %.1f s\n", countOf(suggested, "suggestion"), list.Index,
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
