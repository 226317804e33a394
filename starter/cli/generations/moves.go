package generations

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli/console"
)

// moveCmd returns a command that changes what is served, or what is kept, of an index.
func (a app) moveCmd(command *cobra.Command, request *control.MoveRequest) *cobra.Command {
	command.RunE = func(command *cobra.Command, args []string) error {
		if len(args) > 0 {
			request.Generation = args[0]
		}
		if len(args) > 1 {
			request.Name = args[1]
		}
		return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
			move, err := controller.MoveGeneration(ctx, *request)
			if err != nil {
				return err
			}
			same := move.Action == core.ActionRollback && !move.Unchanged && !a.JSON && sameContent(ctx, controller, move)
			return a.PrintOut(move, func(w io.Writer) {
				showMove(w, move)
				if same {
					fmt.Fprintln(w, "  both have the same content, so answers do not change; to go further back, name an older one")
				}
			})
		})
	}
	return a.AddAuditFlags(console.TakeIndex(command, &request.Index))
}

// sameContent reports whether what is served now has the content of what was served before.
func sameContent(ctx context.Context, controller control.Control, move core.Move) bool {
	kept, _ := controller.ListGenerations(ctx, move.Index) // what cannot be listed is not compared
	hashes := map[string]string{}
	for _, one := range kept {
		hashes[one.Generation] = one.ContentHash
	}
	return hashes[move.To] != "" && hashes[move.To] == hashes[move.From]
}

// showMove prints what a command came to.
func showMove(w io.Writer, move core.Move) {
	switch {
	case move.Unchanged && (move.Action == core.ActionRollback || move.Action == core.ActionPublish):
		fmt.Fprintf(w, "%s already serves %s: nothing to do\n", move.Index, move.To)
	case move.Unchanged:
		fmt.Fprintf(w, "%s: %s of %s is already done\n", move.Index, move.Action, move.To)
	case move.Action == core.ActionRollback || move.Action == core.ActionPublish:
		from := cmp.Or(move.From, "nothing")
		fmt.Fprintf(w, "%s now serves %s (release %d); before: %s\n", move.Index, move.To, move.Release, from)
		if move.Action == core.ActionRollback {
			fmt.Fprintf(w, "  to undo: unweaver rollback %s %s; without a generation, rollback goes one further back\n",
				move.Index, from)
		} else {
			fmt.Fprintf(w, "  the next night is judged by the same gates and probes; after an edit of them: "+
				"unweaver schedule apply %s\n", move.Index)
		}
	case move.Action == core.ActionDiscard:
		fmt.Fprintf(w, "%s: discarded %s; the next runs delete its files\n", move.Index, move.To)
	case move.Action == core.ActionTag:
		fmt.Fprintf(w, "%s: %s has the tag %s, and is kept until you remove the tag\n", move.Index, move.To, move.Name)
	default:
		fmt.Fprintf(w, "%s: %s no longer has the tag %s; indexes.*.keep applies again\n", move.Index, move.To, move.Name)
	}
}

func (a app) rollbackCmd() *cobra.Command {
	request := control.MoveRequest{Action: core.ActionRollback}
	return a.moveCmd(&cobra.Command{
		Use:   "rollback [GEN]",
		Short: "Serve an earlier published generation, within seconds",
		Long: `Serve an earlier published generation that is still kept: GEN, or, by default, the parent of the
current generation. The command checks its files, collections and stores, and calls no model. Each query sees one
generation or the other, never a mix. Running builds continue, and are held at their end
because the pointer moved (pointer_moved).

The next build starts from the generation served then, and indexes the corpus as it is. Pause the schedule until you
have fixed the cause: unweaver schedule pause INDEX. To go forward again, roll back to the newer generation.`,
		Example: "  unweaver rollback docs --reason \"wrong answers about leases\"\n" +
			"  unweaver rollback docs 20261122t020000z",
		Args: console.RequireArgs(0, 1, "at most a GEN"),
	}, &request)
}

func (a app) publishCmd() *cobra.Command {
	request := control.MoveRequest{Action: core.ActionPublish}
	command := a.moveCmd(&cobra.Command{
		Use:   "publish GEN",
		Short: "Serve a generation that a gate held, as it was built",
		Long: `Serve a generation that a gate held, exactly as it was built and verified. Nothing is built or paid for
again.

The command refuses if another generation than the parent of GEN is served now: publishing GEN would undo what changed
in between. --force publishes it all the same.`,
		Example: "  unweaver diff docs 20261122t020000z\n" +
			"  unweaver publish docs 20261122t020000z --reason \"checked with diff\"",
		Args: console.RequireArgs(1, 1, "a GEN"),
	}, &request)
	command.Flags().BoolVar(&request.Force, "force", false,
		"publish even if another generation than its parent is now served")
	return command
}

func (a app) discardCmd() *cobra.Command {
	request := control.MoveRequest{Action: core.ActionDiscard}
	return a.moveCmd(&cobra.Command{
		Use:   "discard GEN",
		Short: "Discard a generation that a gate held: later runs delete its files",
		Long: `Discard a generation that a gate held. Within a minute no query reads it by name any more. A later run deletes
its files, when the grace period is over. Its paid results stay in the ledger for at least 14 days.`,
		Example: "  unweaver discard docs 20261122t020000z --reason \"half of the archive was unreadable\"",
		Args:    console.RequireArgs(1, 1, "a GEN"),
	}, &request)
}

func (a app) tagCmd() *cobra.Command {
	return a.taggingCmd(core.ActionTag, "Tag a generation, so that it is never deleted automatically",
		`Tag a generation, so that it is never deleted automatically. The tag is a name of letters a-z, digits and hyphens
that no other generation of the index has. The generation and all its files stay until its last tag is removed.`)
}

func (a app) untagCmd() *cobra.Command {
	return a.taggingCmd(core.ActionUntag, "Remove a tag from a generation: indexes.*.keep applies to it again",
		"Remove a tag from a generation. Without another tag, the usual rules apply (current, indexes.*.keep, held).")
}

func (a app) taggingCmd(action, short, long string) *cobra.Command {
	request := control.MoveRequest{Action: action}
	return a.moveCmd(&cobra.Command{
		Use:     action + " GEN NAME",
		Short:   short,
		Long:    long,
		Example: "  unweaver " + action + " docs 20261122t020000z before-migration",
		Args:    console.RequireArgs(2, 2, "a GEN and a NAME"),
	}, &request)
}

func (a app) operationsCmd() *cobra.Command {
	var index string
	var limit int
	command := &cobra.Command{
		Use:   "operations",
		Short: "Show the audit trail of an index: who did what, when and why",
		Long: `Show the audit trail of an index, newest first: rollbacks, approvals, discards, tags, pauses, resumptions,
cancellations and restores. Each operation is recorded before it takes effect, and the record never changes. A second
record says how it ended. An operation without an outcome may or may not have taken effect. Runs are not listed here:
unweaver runs INDEX.`,
		Example: "  unweaver operations docs\n" +
			"  unweaver operations docs --limit 0 --json | jq '.operations[].by'",
		Args: console.RequireArgs(0, 0, "no argument"),
		RunE: console.NewReport(a.App, func(ctx context.Context, c control.Control, _ []string) (trail, error) {
			operations, err := c.ListOperations(ctx, index, limit)
			return trail{index, operations}, err
		}, showOperations),
	}
	command.Flags().IntVar(&limit, "limit", 50, "number of operations; 0: all")
	return console.TakeIndex(command, &index)
}

// trail is the audit trail of an index.
type trail struct {
	Index      string           `json:"index"`
	Operations []core.Operation `json:"operations"`
}

// showOperations prints records of the audit trail.
func showOperations(w io.Writer, found trail) {
	if len(found.Operations) == 0 {
		fmt.Fprintln(w, "no operation is recorded")
	}
	for _, op := range found.Operations {
		outcome := "no outcome is recorded; to see what is served: unweaver generations"
		if op.Outcome != nil {
			outcome = op.Outcome.Result
			if op.Outcome.Code != "" {
				outcome += " (" + op.Outcome.Code + ")"
			}
		}
		about := slices.DeleteFunc([]string{op.Run, op.To, op.Name}, func(part string) bool { return part == "" })
		what := strings.Join(append([]string{op.Action}, about...), " ")
		if op.From != "" && op.From != op.To {
			what += " (" + op.From + " was served)"
		}
		if op.Change != "" {
			what += " (" + op.Change + ")"
		}
		if op.Forced {
			what += ", forced"
		}
		at := "?"
		if !op.At.IsZero() {
			at = op.At.Local().Format(time.DateTime)
		}
		who := op.By
		if op.Via != "" && op.Via != "token" {
			who += " (" + op.Via + ")"
		}
		fmt.Fprintf(w, "%-19s  %s: %s: %s\n", at, cmp.Or(who, "?"), what, outcome)
		if op.Reason != "" {
			fmt.Fprintf(w, "%-19s  %s\n", "", op.Reason)
		}
	}
}
