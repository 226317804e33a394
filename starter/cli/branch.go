package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// applyOverlays takes what the store says of the configuration of some indexes into account from now on. What the file
// says already is left to the file.
func (a *App) applyOverlays(
	ctx context.Context, controller control.Control, indexes ...string,
) (map[string]control.Overlaid, error) {
	plain, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	found := map[string]control.Overlaid{}
	for _, index := range indexes {
		overlay, err := controller.ReadOverlay(ctx, index)
		if err != nil {
			return nil, err
		}
		if overlay.Base == "" {
			overlay.Set = plain.FindMissing(overlay.Overlay)
		}
		if overlay.Base != "" || len(overlay.Set) > 0 {
			found[index] = overlay
			a.overlays = append(a.overlays, overlay.Overlay)
		}
	}
	return found, nil
}

// specOf returns the specification with what the store says of the index.
func (a *App) specOf(ctx context.Context, controller control.Control, index, corpusURI string) (core.Spec, error) {
	if index == "" { // doctor asks for none
		return a.resolveSpec(index, corpusURI)
	}
	found, err := a.applyOverlays(ctx, controller, index)
	if err != nil {
		return core.Spec{}, err
	}
	spec, err := a.resolveSpec(index, corpusURI)
	overlay, ok := found[index]
	if err != nil || !ok {
		return spec, err
	}
	spec.Corpus, spec.Overlay = cmp.Or(spec.Corpus, overlay.Corpus), overlay.Set
	return spec, nil
}

func (a *App) branchCmd() *cobra.Command {
	var request control.BranchRequest
	var remove string
	command := &cobra.Command{
		Use:   "branch INDEX [--as NAME | --delete NAME]",
		Short: "Open a second line of an index, with other settings, over the same ledger and files; list or delete them",
		Long: `Open a second line of INDEX: an index NAME that begins with what INDEX serves (or with --at GEN), copies
nothing, and differs in the settings of --set, which are paths below the index (shortening.threshold,
models.chat.model). They are recorded in the store, so that every command sees them; the file does not
name the branch. A night on it builds what the settings change, and pays for nothing that either has paid
for. One run at a time builds a branch or its base.

It is an index like any other (index, estimate, query, eval, diff, schedule), until it is promoted: INDEX
then serves what it serves (unweaver promote), or deleted with --delete. What it alone used is deleted by
the next runs of INDEX, as its grace says. Without --as and --delete the branches of INDEX are listed.`,
		Example: "  unweaver branch docs --as docs-large --set models.chat.model=large --reason \"compare extraction\"\n" +
			"  unweaver index --index docs-large --wait\n  unweaver diff docs docs-large\n" +
			"  unweaver promote docs-large\n  unweaver branch docs --delete docs-large",
		Args: requireArgs(1, 1, "an INDEX"),
		RunE: func(command *cobra.Command, args []string) error {
			request.Index = args[0]
			if err := a.readBranchFlags(&request, remove); err != nil {
				return err
			}
			return a.withControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				if request.Name == "" {
					return a.listBranches(ctx, controller, request.Index)
				}
				if !request.Delete {
					if err := a.checkBranch(ctx, controller, request); err != nil {
						return err
					}
				}
				branch, err := controller.ChangeBranch(ctx, request)
				if err != nil {
					return err
				}
				return a.printOut(branch, func(w io.Writer) { showBranch(w, branch) })
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&request.Name, "as", "", "name of the branch")
	flags.StringVar(&request.Generation, "at", "", "generation to begin with (default: what is served)")
	flags.StringVar(&remove, "delete", "", "delete the branch of this name")
	return a.addAuditFlags(command)
}

// readBranchFlags reads the flags. --set is what the branch differs in, not what this command is configured with.
func (a *App) readBranchFlags(request *control.BranchRequest, remove string) error {
	usage := fault.Usage.At("branch", request.Index)
	if remove != "" {
		if request.Name != "" || request.Generation != "" || len(a.set) > 0 {
			return usage.Because("--delete stands alone").Advise("leave --as, --at and --set out")
		}
		request.Name, request.Delete = remove, true
		return nil
	}
	if request.Name == "" {
		if request.Generation != "" || len(a.set) > 0 {
			return usage.Because("the branch has no name").Advise("add --as NAME")
		}
		return nil
	}
	for _, setting := range a.set {
		key, value, ok := strings.Cut(setting, "=")
		key = strings.TrimPrefix(key, "indexes."+request.Name+".")
		if !ok || key == "" {
			return usage.Because("--set " + setting + " is no path=value").Advise("write it as models.chat.model=large")
		}
		if request.Set == nil {
			request.Set = map[string]string{}
		}
		request.Set[key] = value
	}
	a.set = nil
	return nil
}

// checkBranch reads the configuration as it is with the branch: every mistake is reported before anything is written.
func (a *App) checkBranch(ctx context.Context, controller control.Control, request control.BranchRequest) error {
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	if _, own := cfg.Indexes[request.Name]; own {
		return fault.Usage.At("name branch", request.Name).
			Because("the configuration has an index of that name").
			Advise("choose another name")
	}
	base, err := controller.ReadOverlay(ctx, request.Index)
	if err != nil {
		return err
	}
	set := maps.Clone(base.Set)
	if set == nil {
		set = map[string]string{}
	}
	maps.Copy(set, request.Set)
	if err := config.CheckOverlay(request.Set); err != nil {
		return err
	}
	a.overlays = append(a.overlays, core.Overlay{Index: request.Name, Base: request.Index, Set: set})
	_, err = a.loadConfig()
	return err
}

func settingsText(set map[string]string) string {
	out := make([]string, 0, len(set))
	for _, key := range slices.Sorted(maps.Keys(set)) {
		out = append(out, key+"="+set[key])
	}
	return strings.Join(out, " ")
}

func showBranch(w io.Writer, branch core.Branch) {
	if branch.State == core.BranchDeleted {
		fmt.Fprintf(w, "%s is deleted; runs of %s delete what it alone used\n", branch.Name, branch.Base)
		return
	}
	fmt.Fprintf(w, "%s begins with %s of %s", branch.Name, branch.Generation, branch.Base)
	if len(branch.Set) > 0 {
		fmt.Fprintf(w, ", with %s", settingsText(branch.Set))
	}
	fmt.Fprintf(w, "\nsee what a night on it would do: unweaver estimate --index %s; build it: unweaver index --index "+
		"%s\n", branch.Name, branch.Name)
}

func (a *App) listBranches(ctx context.Context, controller control.Control, index string) error {
	branches, err := controller.ListBranches(ctx, index)
	if err != nil {
		return err
	}
	return a.printOut(map[string]any{"index": index, "branches": branches}, func(w io.Writer) {
		if len(branches) == 0 {
			fmt.Fprintf(w, "%s has no branches\n", index)
		}
		for _, branch := range branches {
			serves := branch.Current
			if !branch.Own {
				serves += " of its base"
			}
			fmt.Fprintf(w, "%-20s  serves %s  began with %s  %s\n", branch.Name, serves, branch.Generation,
				settingsText(branch.Set))
		}
	})
}

func (a *App) promoteCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "promote NAME",
		Short: "Have the base of a branch serve what the branch serves, within seconds",
		Long: `Have the base of branch NAME serve what the branch serves: its files, collections and the stores are
looked at, no model is asked, and one conditional write flips the pointer. The settings of the branch
come with it and are in force for the next nights of the base; write them into the file, as the command
says. unweaver rollback goes back, to what was served before and to its settings.

It is refused where the base moved since the last run of the branch was planned: build the branch again.`,
		Example: "  unweaver promote docs-large --reason \"recall@5 0.71, was 0.64\"",
		Args:    requireArgs(1, 1, "a NAME"),
		RunE: a.newControlRun(func(ctx context.Context, controller control.Control, args []string) error {
			request := control.MoveRequest{Action: core.ActionPromote, Index: args[0]}
			move, err := controller.MoveGeneration(ctx, request)
			if err != nil {
				return err
			}
			return a.printOut(move, func(w io.Writer) { showPromotion(w, move) })
		}),
	}
	return a.addAuditFlags(command)
}

func showPromotion(w io.Writer, move core.Move) {
	if move.Unchanged {
		fmt.Fprintf(w, "%s serves %s of %s already: nothing to do\n", move.Index, move.To, move.Name)
	} else {
		fmt.Fprintf(w, "%s serves %s of %s now (release %d); it served %s\n",
			move.Index, move.To, move.Name, move.Release, move.From)
	}
	if len(move.Set) == 0 {
		return
	}
	fmt.Fprintf(w, "its settings are in force for %s; write them into the file:\n", move.Index)
	for _, key := range slices.Sorted(maps.Keys(move.Set)) {
		fmt.Fprintf(w, "  indexes.%s.%s: %s\n", move.Index, key, move.Set[key])
	}
}
