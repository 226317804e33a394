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

// ApplyOverlays takes what the store says of the configuration of some indexes into account from now on. What the file
// says already is left to the file.
func (a *App) ApplyOverlays(
	ctx context.Context, controller control.Control, indexes ...string,
) (map[string]control.Overlaid, error) {
	plain, err := a.LoadConfig()
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
			a.Overlays = append(a.Overlays, overlay.Overlay)
		}
	}
	return found, nil
}

// SpecOf returns the specification with what the store says of the index.
func (a *App) SpecOf(ctx context.Context, controller control.Control, index, corpusURI string) (core.Spec, error) {
	if index == "" { // doctor asks for none
		return a.ResolveSpec(index, corpusURI)
	}
	found, err := a.ApplyOverlays(ctx, controller, index)
	if err != nil {
		return core.Spec{}, err
	}
	spec, err := a.ResolveSpec(index, corpusURI)
	overlay, ok := found[index]
	if err != nil || !ok {
		return spec, err
	}
	spec.Corpus, spec.Overlay = cmp.Or(spec.Corpus, overlay.Corpus), overlay.Set
	return spec, nil
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
