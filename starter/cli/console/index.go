package console

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// ApplyOverlay takes what the store says of the configuration of an index into account from now on. What the file says
// already is left to the file. ok is false where the store says nothing.
func (a *App) ApplyOverlay(
	ctx context.Context, controller control.Control, index string,
) (overlay control.Overlaid, ok bool, err error) {
	plain, err := a.LoadConfig()
	if err != nil {
		return overlay, false, err
	}
	if overlay, err = controller.ReadOverlay(ctx, index); err != nil {
		return overlay, false, err
	}
	if overlay.Base == "" {
		overlay.Set = plain.FindMissing(overlay.Overlay)
	}
	if ok = overlay.Base != "" || len(overlay.Set) > 0; ok {
		a.Overlays = append(a.Overlays, overlay.Overlay)
	}
	return overlay, ok, nil
}

// SpecOf returns the specification with what the store says of the index.
func (a *App) SpecOf(ctx context.Context, controller control.Control, index, corpusURI string) (core.Spec, error) {
	if index == "" { // doctor asks for none
		return a.ResolveSpec(index, corpusURI)
	}
	overlay, ok, err := a.ApplyOverlay(ctx, controller, index)
	if err != nil {
		return core.Spec{}, err
	}
	spec, err := a.ResolveSpec(index, corpusURI)
	if err == nil && ok {
		spec.Corpus, spec.Overlay = cmp.Or(spec.Corpus, overlay.Corpus), overlay.Set
	}
	return spec, err
}

// TakeIndex gives a command --index, and has it take INDEX, or INDEX/GENERATION, as its first argument instead.
func TakeIndex(command *cobra.Command, index *string) *cobra.Command {
	command.Flags().StringVar(index, "index", "", "name of the index")
	return PutIndexFirst(command, true)
}

// PutIndexFirst has a command take its index as first argument where its flag --index does not name it.
func PutIndexFirst(command *cobra.Command, required bool) *cobra.Command {
	check, run := command.Args, command.RunE
	name, rest, _ := strings.Cut(command.Use, " ")
	take := " INDEX "
	if !required {
		take = " [INDEX] "
	}
	command.Use = strings.TrimSpace(name + take + rest)
	var given []string
	command.Args = func(command *cobra.Command, args []string) error {
		given = args
		flag := command.Flags().Lookup("index")
		if len(args) == 0 || flag.Changed {
			if err := check(command, args); err != nil || !required || flag.Value.String() != "" {
				return err
			}
			return NoIndex(command)
		}
		index, generation, both := strings.Cut(args[0], "/")
		if both && name == "purge" { // the key of a document
			return NoIndex(command)
		}
		if given = args[1:]; both {
			given = append([]string{generation}, given...)
		}
		if check(command, given) != nil {
			if err := check(command, args); err != nil || name == "query" { // which names the indexes that there are
				return err
			}
			return fault.Usage.At("run", command.CommandPath()).
				Because(fmt.Sprintf("want %s, got %s alone", strings.TrimPrefix(command.Use, name+" "), strings.Join(args, " "))).
				Advise("name the index first, or add --index NAME")
		}
		return command.Flags().Set("index", index)
	}
	command.RunE = func(command *cobra.Command, _ []string) error { return run(command, given) }
	return command
}

// NoIndex returns the error of a command without an index.
func NoIndex(command *cobra.Command) error {
	return fault.Usage.At("run unweaver", strings.TrimPrefix(command.CommandPath(), "unweaver ")).
		Because("no index is named").
		Advise("add --index NAME")
}
