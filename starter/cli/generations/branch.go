package generations

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
)

func (a app) branchCmd() *cobra.Command {
	var request control.BranchRequest
	var remove string
	command := &cobra.Command{
		Use:   "branch INDEX [--as NAME | --delete NAME]",
		Short: "Try other settings on an index without rebuilding it from scratch; list or delete branches",
		Long: `Create a branch of INDEX: an index NAME that starts with the generation that INDEX serves (or --at GEN),
copies no data, and differs in the settings given with --set. Settings are paths below the index
(shortening.threshold, models.chat.model). The store records them, so every command uses them; do not add the branch
to the configuration file. A run on the branch builds what the settings change. It pays for nothing that the branch
or its base already paid for. Only one run at a time builds a branch or its base.

A branch works like any other index (index, estimate, query, eval, diff, schedule) until you promote or delete it.
After unweaver promote NAME, INDEX serves what the branch serves. After --delete, the next runs of INDEX delete the
files that only the branch used, once their grace period is over. Without --as and --delete, the command lists the
branches of INDEX.`,
		Example: "  unweaver branch docs --as docs-large --set models.chat.model=large --reason \"compare extraction\"\n" +
			"  unweaver index --index docs-large --wait\n  unweaver diff docs docs-large\n" +
			"  unweaver promote docs-large\n  unweaver branch docs --delete docs-large",
		Args: console.RequireArgs(1, 1, "an INDEX"),
		RunE: func(command *cobra.Command, args []string) error {
			request.Index = args[0]
			if err := a.readBranchFlags(&request, remove); err != nil {
				return err
			}
			return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
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
				return a.PrintOut(branch, func(w io.Writer) { showBranch(w, branch) })
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&request.Name, "as", "", "name of the branch")
	flags.StringVar(&request.Generation, "at", "", "generation to start with (default: the served one)")
	flags.StringVar(&remove, "delete", "", "delete the branch of this name")
	return a.AddAuditFlags(command)
}

// readBranchFlags reads the flags. --set is what the branch differs in, not what this command is configured with.
func (a app) readBranchFlags(request *control.BranchRequest, remove string) error {
	usage := fault.Usage.At("branch", request.Index)
	if remove != "" {
		if request.Name != "" || request.Generation != "" || len(a.Set) > 0 {
			return usage.Because("--delete cannot be combined with --as, --at or --set").Advise("remove --as, --at and --set")
		}
		request.Name, request.Delete = remove, true
		return nil
	}
	if request.Name == "" {
		if request.Generation != "" || len(a.Set) > 0 {
			return usage.Because("the branch has no name").Advise("add --as NAME")
		}
		return nil
	}
	for _, setting := range a.Set {
		key, value, ok := strings.Cut(setting, "=")
		key = strings.TrimPrefix(key, "indexes."+request.Name+".")
		if !ok || key == "" {
			return usage.Because("--set " + setting + " is no path=value").Advise("write it like this: models.chat.model=large")
		}
		if request.Set == nil {
			request.Set = map[string]string{}
		}
		if key == "corpus" && value != "" && !strings.Contains(value, "://") { // later commands run in other folders
			var err error
			if value, err = filepath.Abs(value); err != nil {
				return usage.Because(err)
			}
		}
		request.Set[key] = value
	}
	a.Set = nil
	return nil
}

// checkBranch reads the configuration as it is with the branch: every mistake is reported before anything is written.
func (a app) checkBranch(ctx context.Context, controller control.Control, request control.BranchRequest) error {
	cfg, err := a.LoadConfig()
	if err != nil {
		return err
	}
	if _, own := cfg.Indexes[request.Name]; own {
		return fault.Usage.At("name branch", request.Name).
			Because("the configuration already has an index of that name").
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
	a.Overlays = append(a.Overlays, core.Overlay{Index: request.Name, Base: request.Index, Set: set})
	_, err = a.LoadConfig()
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
		fmt.Fprintf(w, "%s is deleted; the next runs of %s delete the files that only it used\n", branch.Name, branch.Base)
		return
	}
	fmt.Fprintf(w, "%s begins with %s of %s", branch.Name, branch.Generation, branch.Base)
	if len(branch.Set) > 0 {
		fmt.Fprintf(w, ", with %s", settingsText(branch.Set))
	}
	fmt.Fprintf(w, "\nto estimate a run: unweaver estimate --index %s; to build it: unweaver index --index "+
		"%s\n", branch.Name, branch.Name)
}

func (a app) listBranches(ctx context.Context, controller control.Control, index string) error {
	branches, err := controller.ListBranches(ctx, index)
	if err != nil {
		return err
	}
	return a.PrintOut(map[string]any{"index": index, "branches": branches}, func(w io.Writer) {
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

func (a app) promoteCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "promote NAME",
		Short: "Make the base of a branch serve what the branch serves, within seconds",
		Long: `Make the base of branch NAME serve the generation that the branch serves. The command checks its files,
collections and stores, calls no model, and switches the pointer with one conditional write. The settings of the
branch then apply to the next runs of the base: copy the lines that the command prints into the configuration file.
To undo a promotion, generation and settings, run unweaver rollback INDEX.

The command refuses if the base changed after the last run of the branch was planned: build the branch again.`,
		Example: "  unweaver promote docs-large --reason \"recall@5 0.71, was 0.64\"",
		Args:    console.RequireArgs(1, 1, "a NAME"),
		RunE: console.NewReport(a.App, func(ctx context.Context, c control.Control, args []string) (core.Move, error) {
			return c.MoveGeneration(ctx, control.MoveRequest{Action: core.ActionPromote, Index: args[0]})
		}, showPromotion),
	}
	return a.AddAuditFlags(command)
}

func showPromotion(w io.Writer, move core.Move) {
	if move.Unchanged {
		fmt.Fprintf(w, "%s already serves %s of %s\n", move.Index, move.To, move.Name)
	} else {
		fmt.Fprintf(w, "%s now serves %s of %s (release %d); before: %s\n",
			move.Index, move.To, move.Name, move.Release, move.From)
	}
	if len(move.Set) == 0 {
		return
	}
	fmt.Fprintf(w, "its settings now apply to %s; copy them into the configuration file:\n", move.Index)
	for _, key := range slices.Sorted(maps.Keys(move.Set)) {
		fmt.Fprintf(w, "  indexes.%s.%s: %s\n", move.Index, key, move.Set[key])
	}
}
