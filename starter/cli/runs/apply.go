package runs

import (
	"github.com/spf13/pflag"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func addApplyFlag(flags *pflag.FlagSet, into *string) {
	flags.StringVar(into, show.ApplyFlag, "",
		"apply changed types, guidance or examples to passages: all, new or mentions (default: extraction.apply)")
}

// chooseApply puts the choice of a command in place of the configured one. Who builds checks it.
func chooseApply(spec core.Spec, choice string) core.Spec {
	if choice == "" {
		return spec
	}
	return spec.WithApply(choice)
}
