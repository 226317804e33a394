package console

import (
	"cmp"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/core"
)

// AddAuditFlags gives a command the flags of what the audit trail records.
func (a *App) AddAuditFlags(command *cobra.Command) *cobra.Command {
	command.Flags().StringVar(&a.by, "by", "", "who runs this operation, for the audit trail (default: user@host)")
	command.Flags().StringVar(&a.Reason, "reason", "", "reason, for the audit trail")
	return command
}

// currentOperator returns who runs this command.
func (a *App) currentOperator() core.Operator {
	by := a.by
	if by == "" {
		name, host := cmp.Or(a.LookupEnv("USER"), a.LookupEnv("LOGNAME")), "unknown host"
		if known, err := user.Current(); err == nil {
			name = known.Username
		}
		if known, err := os.Hostname(); err == nil {
			host = known
		}
		by = cmp.Or(name, "unknown user") + "@" + host
	}
	return core.Operator{By: by, Reason: a.Reason}
}
