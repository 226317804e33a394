package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

const administer = "Administer"

// groups are the commands as unweaver --help lists them, the ones that matter first.
var groups = []struct{ title, commands string }{
	{"Start", "demo dev doctor estimate index query"},
	{"Every night", "ls status schedule pause resume cancel limit backfill publish discard watch"},
	{"Look", "show entities logs runs generations diff bisect trends operations aliases eval reproduce"},
	{"Fix", "rollback retry-failed dead-letters audit restore purge tag untag delete"},
	{administer, "config keys models engine certs branch promote push pull verify mcp"},
}

// groupCommands puts every command of the list into its group.
func groupCommands(root *cobra.Command) {
	for _, one := range groups {
		root.AddGroup(&cobra.Group{ID: one.title, Title: one.title + ":"})
		for _, name := range strings.Fields(one.commands) {
			if command, _, err := root.Find([]string{name}); err == nil {
				command.GroupID = one.title
			}
		}
	}
	root.SetHelpCommandGroupID(administer)
	root.SetCompletionCommandGroupID(administer)
}

// completeHelp gives a command that needs no argument itself as example, where it brings none.
func completeHelp(command *cobra.Command) {
	if command.Example == "" && command.Runnable() {
		command.Example = "  " + command.CommandPath()
	}
	for _, below := range command.Commands() {
		completeHelp(below)
	}
}
