package cli

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/unweaver/unweaver/internal/core"
)

// applyFlag is the flag that chooses passages for other types, guidance or examples.
const applyFlag = "extraction-to"

func addApplyFlag(flags *pflag.FlagSet, into *string) {
	flags.StringVar(into, applyFlag, "",
		"apply changed types, guidance or examples to passages: all, new or mentions (default: extraction.apply)")
}

// chooseApply puts the choice of a command in place of the configured one. Who builds checks it.
func chooseApply(spec core.Spec, choice string) core.Spec {
	if choice == "" {
		return spec
	}
	return spec.WithApply(choice)
}

// showApply prints what each choice of passages would pay for.
func showApply(w io.Writer, calls *core.ApplyCalls) {
	if calls != nil {
		fmt.Fprintf(w, "  extract calls by --%s: all %d, mentions %d, new %d\n", applyFlag, calls.All, calls.Mentions,
			calls.New)
	}
}
